// How much of a stream of requests an LRU prefix cache of each size could reuse, in one pass: Mattson's
// stack distances (Mattson et al., "Evaluation techniques for storage hierarchies", 1970) over blocks,
// with a Fenwick tree: O(log n) a block. Pure; an object is not thread-safe.
#pragma once
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <unordered_map>
#include <vector>

#include "common/model/block_hash.h"

namespace poolmark::model {

class StackDistance {
 public:
  // One request's blocks, in prompt order; `usable` of them can be reused (see UsableBlocks). A block
  // counts as reusable in a cache of `c` blocks when it and every block before it in the prompt would be
  // found there. Without `counts` the request only fills the caches.
  void Request(std::span<const BlockHash> blocks, size_t usable, bool counts = true);

  uint64_t requested_blocks() const { return requested_; }
  // Blocks that a cache without bound would have found.
  uint64_t reusable_blocks() const { return reusable_; }
  // Different blocks seen: the size at which the cache is as good as one without bound.
  uint64_t distinct_blocks() const { return last_use_.size(); }
  // Blocks found by a cache of `cache_blocks`.
  uint64_t FoundWith(uint64_t cache_blocks) const;
  // needed cache size in blocks -> blocks whose smallest sufficient cache it is; ascending.
  const std::map<uint64_t, uint64_t>& histogram() const { return histogram_; }

 private:
  // Blocks used since position `at`, which is the stack distance of the block last used there.
  uint64_t UsedSince(size_t at) const;
  void Add(size_t at, int64_t change);
  void Compact();

  std::unordered_map<BlockHash, size_t> last_use_;  // position in time
  std::vector<int64_t> tree_ = std::vector<int64_t>(1 << 12);
  size_t time_ = 0;
  uint64_t requested_ = 0;
  uint64_t reusable_ = 0;
  std::map<uint64_t, uint64_t> histogram_;
};

}  // namespace poolmark::model
