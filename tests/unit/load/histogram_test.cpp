// Durations in buckets: bounds of the coarse ones, percentiles of the fine ones.
#include "common/load/histogram.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <random>
#include <vector>

#include "common/base/random.h"

namespace poolmark::load {

TEST_CASE("a histogram's quantiles are never below the truth and at most 1.6 % above") {
  SplitMix64 random(3);
  Histogram histogram;
  std::vector<int64_t> values;
  for (int i = 0; i < 20000; ++i) {
    values.push_back(static_cast<int64_t>(std::exp(random.Unit() * 25)));
    histogram.Add(values.back());
  }
  std::sort(values.begin(), values.end());
  for (const double share : {0.01, 0.5, 0.9, 0.99, 1.0}) {
    const int64_t truth = values[static_cast<size_t>(std::ceil(share * 20000)) - 1];
    const int64_t quantile = *histogram.Quantile(share);
    CHECK(quantile >= truth);
    CHECK(static_cast<double>(quantile) <= static_cast<double>(truth) * 1.016 + 1);
  }
  for (const uint64_t value : {0ull, 63ull, 64ull, 127ull, 128ull, 1ull << 40, ~0ull}) {
    CHECK(Histogram::BucketOf(value) < Histogram::kBuckets);
    CHECK(Histogram::UpperBound(Histogram::BucketOf(value)) >= value);
  }
  CHECK_FALSE(Histogram().Quantile(0.5).has_value());
  Histogram later = histogram;
  later.Add(5);
  later.Subtract(histogram);
  CHECK(later.total() == 1);
  CHECK(*later.Quantile(1) == 5);
}

TEST_CASE("percentiles of a fine histogram are type 7 to a bucket's width") {
  std::mt19937_64 random(7);
  for (const size_t n : {1u, 2u, 3u, 10u, 1000u, 20'000u}) {
    for (const double spread : {0.001, 0.5, 3.0}) {
      std::lognormal_distribution<double> gap(16, spread);  // some 9 ms
      FineHistogram histogram, first, second;
      std::vector<double> values;
      for (size_t i = 0; i < n; ++i) {
        const auto value = static_cast<int64_t>(gap(random));
        values.push_back(static_cast<double>(value));
        histogram.Add(value);
        (i % 2 == 0 ? first : second).Add(value);
      }
      first.Merge(second);
      std::sort(values.begin(), values.end());
      for (const double share : {0.0, 0.01, 0.5, 0.9, 0.95, 0.99, 0.999, 1.0}) {
        const double rank = share * static_cast<double>(n - 1);
        const auto low = static_cast<size_t>(rank);
        const double exact = values[low] + (values[std::min(low + 1, n - 1)] - values[low]) *
                                               (rank - static_cast<double>(low));
        INFO(n << " values, spread " << spread << ", share " << share);
        CHECK(std::abs(*histogram.Percentile(share) - exact) <= exact / 1024 + 1);
        CHECK(*first.Percentile(share) == *histogram.Percentile(share));
      }
    }
  }
  CHECK_FALSE(FineHistogram().Percentile(0.5).has_value());
  FineHistogram zeros;
  for (int i = 0; i < 5; ++i) zeros.Add(0);
  CHECK(*zeros.Percentile(0.99) == 0);
}

}  // namespace poolmark::load
