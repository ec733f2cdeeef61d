// Reuse of KV chunks at positions other than the one they were computed at, as LMCache's blend mode does
// it: every request's whole chunks are remembered by content; a later prompt is searched for them at any
// offset. Pure bookkeeping; not thread-safe.
#pragma once
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "agent/sim/metrics.h"
#include "agent/sim/tokenizer.h"
#include "common/base/random.h"
#include "common/model/lru_blocks.h"

namespace poolmark::sim {

struct BlendHit {
  int64_t prefix_tokens = 0;
  int64_t segmented_tokens = 0;   // same position and prefix, behind a chunk that is gone
  int64_t non_prefix_tokens = 0;  // moved from another position
  int64_t total() const { return prefix_tokens + segmented_tokens + non_prefix_tokens; }
};

class Blend {
 public:
  // `capacity_chunks`: how many chunks' data are kept; what is replaced leaves its fingerprint behind and
  // is found stale when looked up.
  Blend(size_t chunk_tokens, size_t capacity_chunks, double stale_share, uint64_t seed)
      : chunk_(chunk_tokens), data_(capacity_chunks), stale_share_(stale_share), random_(seed) {}

  // Looks the prompt up, counts, then remembers its chunks.
  BlendHit Lookup(const std::vector<Token>& prompt, BlendCounters* counters);
  void Clear();
  size_t chunks() const { return data_.size(); }

 private:
  // Where a chunk with this fingerprint has its data.
  using Table = std::unordered_map<uint64_t, model::BlockHash>;
  bool HasData(model::BlockHash key);

  const size_t chunk_;
  model::LruBlocks data_;  // by chained hash
  const double stale_share_;
  SplitMix64 random_;
  Table fingerprints_;  // by rolling hash of the content
};

}  // namespace poolmark::sim
