#include "agent/sim/blend.h"

namespace poolmark::sim {
namespace {

// A polynomial rolling hash (Rabin-Karp) modulo 2^64 over mixed tokens.
constexpr uint64_t kBase = 0x9e3779b97f4a7c15ull | 1;

uint64_t MixToken(Token token) {
  uint64_t z = token + 0x632be59bd9b4e019ull;
  z = (z ^ (z >> 32)) * 0xd6e8feb86659fd93ull;
  return z ^ (z >> 32);
}

}  // namespace

bool Blend::HasData(model::BlockHash key) {
  if (!data_.Contains(key)) return false;
  if (stale_share_ > 0 && random_.Unit() < stale_share_) {
    data_.Erase(key);
    return false;
  }
  data_.Touch(key);
  return true;
}

BlendHit Blend::Lookup(const std::vector<Token>& prompt, BlendCounters* counters) {
  BlendHit hit;
  const size_t n = prompt.size();
  const auto chunk_tokens = static_cast<int64_t>(chunk_);
  std::vector<model::BlockHash> chain = model::HashBlocks(prompt, chunk_, 0);
  counters->seen = true;
  ++counters->requests;
  counters->requested_tokens += chain.size() * chunk_;

  size_t at = 0;
  while (at < chain.size() && HasData(chain[at])) ++at;
  hit.prefix_tokens = static_cast<int64_t>(at) * chunk_tokens;
  size_t position = at * chunk_;

  uint64_t top = 1;  // kBase to the power of chunk_ - 1
  for (size_t i = 1; i < chunk_; ++i) top *= kBase;
  uint64_t rolling = 0;
  bool valid = false;
  while (position + chunk_ <= n) {
    if (position % chunk_ == 0 && HasData(chain[position / chunk_])) {
      hit.segmented_tokens += chunk_tokens;
      position += chunk_;
      valid = false;
      continue;
    }
    if (!valid) {
      rolling = 0;
      for (size_t i = position; i < position + chunk_; ++i) rolling = rolling * kBase + MixToken(prompt[i]);
      valid = true;
    }
    auto found = fingerprints_.find(rolling);
    if (found != fingerprints_.end()) {
      if (HasData(found->second)) {
        hit.non_prefix_tokens += chunk_tokens;
        position += chunk_;
        valid = false;
        continue;
      }
      ++counters->stale_chunks;
      fingerprints_.erase(found);
    }
    if (position + chunk_ < n) {
      rolling = (rolling - MixToken(prompt[position]) * top) * kBase + MixToken(prompt[position + chunk_]);
    }
    ++position;
  }
  counters->prefix_hit_tokens += static_cast<uint64_t>(hit.prefix_tokens);
  counters->segmented_prefix_hit_tokens += static_cast<uint64_t>(hit.segmented_tokens);
  counters->non_prefix_hit_tokens += static_cast<uint64_t>(hit.non_prefix_tokens);
  counters->hit_tokens += static_cast<uint64_t>(hit.total());

  for (size_t i = 0; i < chain.size(); ++i) {
    data_.Insert(chain[i], nullptr);
    uint64_t fingerprint = 0;
    for (size_t t = i * chunk_; t < (i + 1) * chunk_; ++t)
      fingerprint = fingerprint * kBase + MixToken(prompt[t]);
    counters->fingerprints_registered += fingerprints_.emplace(fingerprint, chain[i]).second;
  }
  return hit;
}

void Blend::Clear() {
  data_.Clear();
  fingerprints_.clear();
}

}  // namespace poolmark::sim
