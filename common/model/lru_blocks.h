// A fixed number of cache blocks, replaced least recently used first. Blocks in use by requests are
// pinned and never replaced; blocks that have no identity yet (a half-filled tail, output being written)
// are reserved by number. Pure bookkeeping, no bytes. Not thread-safe.
#pragma once
#include <cstddef>
#include <list>
#include <unordered_map>
#include <vector>

#include "common/model/block_hash.h"

namespace poolmark::model {

class LruBlocks {
 public:
  static constexpr size_t kUnbounded = static_cast<size_t>(-1);

  explicit LruBlocks(size_t capacity) : capacity_(capacity) {}

  size_t capacity() const { return capacity_; }
  size_t size() const { return entries_.size(); }  // blocks with an identity
  size_t pinned() const { return pinned_; }        // of those, in use
  size_t reserved() const { return reserved_; }    // blocks without identity
  // Blocks that a request could get: empty ones and those that may be replaced.
  size_t available() const { return capacity_ == kUnbounded ? kUnbounded : capacity_ - pinned_ - reserved_; }

  bool Contains(BlockHash hash) const { return entries_.count(hash) != 0; }
  // Makes it the most recently used; false when it is not there.
  bool Touch(BlockHash hash);
  // Puts it in as the most recently used. What had to go is appended to `evicted`. False (and nothing
  // changes) when every block is pinned or reserved. A block that is there already is touched.
  bool Insert(BlockHash hash, std::vector<BlockHash>* evicted);
  void Erase(BlockHash hash);

  // Pins count; a block must be there to be pinned.
  bool Pin(BlockHash hash);
  void Unpin(BlockHash hash);

  // `count` blocks without identity, replacing as needed; all or none.
  bool Reserve(size_t count, std::vector<BlockHash>* evicted);
  void Release(size_t count);

  // The unpinned blocks, most recently used first.
  const std::list<BlockHash>& All() const { return order_; }
  // Forgets every block that is not pinned; returns how many went.
  size_t Clear();

 private:
  struct Entry {
    std::list<BlockHash>::iterator place;  // in order_, only while unpinned
    int pins = 0;
  };
  bool MakeRoom(size_t blocks, std::vector<BlockHash>* evicted);

  size_t capacity_;
  size_t pinned_ = 0;
  size_t reserved_ = 0;
  std::list<BlockHash> order_;  // unpinned blocks, most recently used first
  std::unordered_map<BlockHash, Entry> entries_;
};

}  // namespace poolmark::model
