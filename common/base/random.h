// A small seeded generator whose numbers are the same on every machine and compiler (the standard
// library's distributions are not). Not for secrets: those come from digest.h. Not thread-safe.
#pragma once
#include <cmath>
#include <cstdint>

namespace poolmark {

// SplitMix64 (Steele, Lea, Flood 2014).
class SplitMix64 {
 public:
  explicit SplitMix64(uint64_t seed) : state_(seed) {}
  uint64_t Next() {
    uint64_t z = (state_ += 0x9e3779b97f4a7c15ull);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
    return z ^ (z >> 31);
  }
  // Uniform in [0, bound), unbiased (Lemire). bound > 0.
  uint64_t Below(uint64_t bound) {
    for (;;) {
      __uint128_t product = static_cast<__uint128_t>(Next()) * bound;
      if (static_cast<uint64_t>(product) >= (-bound) % bound) return static_cast<uint64_t>(product >> 64);
    }
  }
  // Uniform in [0, 1).
  double Unit() { return static_cast<double>(Next() >> 11) * 0x1.0p-53; }
  // Exponential with the given mean.
  double Exponential(double mean) { return -mean * std::log1p(-Unit()); }

 private:
  uint64_t state_;
};

}  // namespace poolmark
