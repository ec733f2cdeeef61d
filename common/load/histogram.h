// Counts of durations in buckets. `Histogram` (64 to the power of two, 1.6 % wide) is for the program's own
// lateness, shown while it runs: Quantile gives the bucket's upper bound, never better than the truth.
// `FineHistogram` (1,024 to the power of two, 0.1 % wide) is for gaps, which are too many to keep: Percentile
// gives the figure of M3. One writer; readers of another thread see counts that may be a moment old.
#pragma once
#include <array>
#include <atomic>
#include <bit>
#include <cstdint>
#include <optional>

namespace poolmark::load {

template <int kBits>
class BasicHistogram {
 public:
  static constexpr int kSubBits = kBits;
  static constexpr size_t kBuckets = (64 - kSubBits + 1) << kSubBits;

  // Negative values count as 0.
  void Add(int64_t value) { AddTo(BucketOf(value < 0 ? 0 : static_cast<uint64_t>(value)), 1); }
  void Merge(const BasicHistogram& other) {
    for (size_t i = 0; i < kBuckets; ++i) {
      if (const uint64_t n = other.Count(i); n != 0) AddTo(i, n);
    }
  }
  // What was added since `before`, an earlier copy of the same histogram.
  void Subtract(const BasicHistogram& before) {
    for (size_t i = 0; i < kBuckets; ++i)
      counts_[i].store(Count(i) - before.Count(i), std::memory_order_relaxed);
    total_.store(total() - before.total(), std::memory_order_relaxed);
  }
  BasicHistogram() = default;
  BasicHistogram(const BasicHistogram& other) { *this = other; }
  BasicHistogram& operator=(const BasicHistogram& other) {
    for (size_t i = 0; i < kBuckets; ++i) counts_[i].store(other.Count(i), std::memory_order_relaxed);
    total_.store(other.total(), std::memory_order_relaxed);
    return *this;
  }

  uint64_t total() const { return total_.load(std::memory_order_relaxed); }
  uint64_t Count(size_t bucket) const { return counts_[bucket].load(std::memory_order_relaxed); }
  // The smallest bound that holds for `share` (0 to 1) of the values; nothing when empty.
  std::optional<int64_t> Quantile(double share) const {
    uint64_t sum = 0;
    for (size_t i = 0; i < kBuckets; ++i) sum += Count(i);
    if (sum == 0) return std::nullopt;
    const double wanted = share * static_cast<double>(sum);
    uint64_t below = 0;
    for (size_t i = 0; i < kBuckets; ++i) {
      below += Count(i);
      if (below != 0 && static_cast<double>(below) >= wanted) return static_cast<int64_t>(UpperBound(i));
    }
    return std::nullopt;
  }

  // Linear interpolation between closest ranks (type 7), where the values of a bucket are taken to lie evenly
  // in it; nothing when empty. Never further from the values' own percentile than a bucket is wide.
  std::optional<double> Percentile(double share) const {
    uint64_t sum = 0;
    for (size_t i = 0; i < kBuckets; ++i) sum += Count(i);
    if (sum == 0) return std::nullopt;
    const double rank = share * static_cast<double>(sum - 1);
    const auto low = static_cast<uint64_t>(rank);
    const uint64_t high = low + 1 < sum ? low + 1 : low;
    std::optional<double> at_low;
    uint64_t below = 0;
    for (size_t i = 0; i < kBuckets; ++i) {
      const uint64_t n = Count(i);
      if (n == 0) continue;
      const auto first = static_cast<double>(i == 0 ? 0 : UpperBound(i - 1) + 1);
      const auto last = static_cast<double>(UpperBound(i));
      const auto value = [&](uint64_t k) {
        return first + (last - first) * (static_cast<double>(k - below) + 0.5) / static_cast<double>(n);
      };
      if (!at_low.has_value() && low < below + n) at_low = value(low);
      if (high < below + n) return *at_low + (value(high) - *at_low) * (rank - static_cast<double>(low));
      below += n;
    }
    return at_low;
  }

  static size_t BucketOf(uint64_t value) {
    if (value < (1u << kSubBits)) return static_cast<size_t>(value);
    const int shift = static_cast<int>(std::bit_width(value)) - kSubBits - 1;
    return (static_cast<size_t>(shift + 1) << kSubBits) +
           static_cast<size_t>((value >> shift) - (1u << kSubBits));
  }
  static uint64_t UpperBound(size_t bucket) {
    if (bucket < (1u << kSubBits)) return bucket;
    const int shift = static_cast<int>(bucket >> kSubBits) - 1;
    const uint64_t mantissa = (bucket & ((1u << kSubBits) - 1)) + (1u << kSubBits);
    return ((mantissa + 1) << shift) - 1;
  }

 private:
  void AddTo(size_t bucket, uint64_t n) {
    counts_[bucket].store(Count(bucket) + n, std::memory_order_relaxed);
    total_.store(total() + n, std::memory_order_relaxed);
  }

  std::array<std::atomic<uint64_t>, kBuckets> counts_{};
  std::atomic<uint64_t> total_{0};
};

using Histogram = BasicHistogram<6>;
using FineHistogram = BasicHistogram<10>;

}  // namespace poolmark::load
