// How many tokens of a request could be served from the store requests: what expected_reused_tokens holds.
// The store side is cut into whole chunks from its first token; a request's token counts when any stored
// chunk, at any offset, covers it. Linear in tokens: rolling hash, every hit verified. Not thread-safe while
// adding; Covered() is.
#pragma once
#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <vector>

namespace poolmark::quality {

class ReuseIndex {
 public:
  // chunk_size >= 1.
  explicit ReuseIndex(int64_t chunk_size);
  // The tokens of one rendered store request; a tail shorter than a chunk is not stored.
  void AddStore(const std::vector<uint32_t>& tokens);
  int64_t Covered(const std::vector<uint32_t>& request) const;
  size_t chunks() const { return chunk_count_; }

 private:
  bool Holds(uint64_t hash, const uint32_t* window) const;
  std::size_t chunk_size_;
  uint64_t leading_;  // base^(chunk_size - 1): what the first token of a window weighs
  size_t chunk_count_ = 0;
  std::vector<uint32_t> tokens_;                              // distinct chunks, one after another
  std::unordered_map<uint64_t, std::vector<size_t>> chunks_;  // hash -> where in tokens_
};

}  // namespace poolmark::quality
