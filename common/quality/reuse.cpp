#include "common/quality/reuse.h"

#include <algorithm>

namespace poolmark::quality {
namespace {

// Polynomial hash modulo the Mersenne prime 2^61 - 1.
constexpr uint64_t kPrime = (uint64_t{1} << 61) - 1;
constexpr uint64_t kBase = 0x1b873593cc9e2d51ull % kPrime;

uint64_t Multiply(uint64_t a, uint64_t b) {
  __uint128_t product = static_cast<__uint128_t>(a) * b;
  uint64_t folded = static_cast<uint64_t>(product & kPrime) + static_cast<uint64_t>(product >> 61);
  return folded >= kPrime ? folded - kPrime : folded;
}

uint64_t Add(uint64_t a, uint64_t b) {
  uint64_t sum = a + b;
  return sum >= kPrime ? sum - kPrime : sum;
}

uint64_t Append(uint64_t hash, uint32_t token) {
  return Add(Multiply(hash, kBase), uint64_t{token} + 1);
}

}  // namespace

ReuseIndex::ReuseIndex(int64_t chunk_size) : chunk_size_(static_cast<size_t>(chunk_size)), leading_(1) {
  for (size_t i = 1; i < chunk_size_; ++i) leading_ = Multiply(leading_, kBase);
}

bool ReuseIndex::Holds(uint64_t hash, const uint32_t* window) const {
  auto found = chunks_.find(hash);
  if (found == chunks_.end()) return false;
  return std::any_of(found->second.begin(), found->second.end(), [&](size_t at) {
    return std::equal(window, window + chunk_size_, tokens_.begin() + static_cast<std::ptrdiff_t>(at));
  });
}

void ReuseIndex::AddStore(const std::vector<uint32_t>& tokens) {
  for (size_t begin = 0; begin + chunk_size_ <= tokens.size(); begin += chunk_size_) {
    uint64_t hash = 0;
    for (size_t i = 0; i < chunk_size_; ++i) hash = Append(hash, tokens[begin + i]);
    if (Holds(hash, tokens.data() + begin)) continue;
    chunks_[hash].push_back(tokens_.size());
    tokens_.insert(tokens_.end(), tokens.begin() + static_cast<std::ptrdiff_t>(begin),
                   tokens.begin() + static_cast<std::ptrdiff_t>(begin + chunk_size_));
    ++chunk_count_;
  }
}

int64_t ReuseIndex::Covered(const std::vector<uint32_t>& request) const {
  if (request.size() < chunk_size_) return 0;
  int64_t covered = 0;
  size_t covered_to = 0;  // tokens before this one are counted where they are covered
  uint64_t hash = 0;
  for (size_t i = 0; i < request.size(); ++i) {
    if (i >= chunk_size_) {
      uint64_t first = Multiply(uint64_t{request[i - chunk_size_]} + 1, leading_);
      hash = Add(hash, kPrime - first);
    }
    hash = Append(hash, request[i]);
    if (i + 1 < chunk_size_) continue;
    size_t begin = i + 1 - chunk_size_;
    if (!Holds(hash, request.data() + begin)) continue;
    covered += static_cast<int64_t>(i + 1 - std::max(begin, covered_to));
    covered_to = i + 1;
  }
  return covered;
}

}  // namespace poolmark::quality
