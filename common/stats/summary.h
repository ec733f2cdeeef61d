// Mean, percentiles and Student-t intervals. The distribution comes from Boost.Math, behind this header.
// Pure, thread-safe.
#pragma once
#include <optional>
#include <span>
#include <vector>

#include "common/base/measured.h"

namespace poolmark::stats {

// Linear interpolation between closest ranks (type 7, decision M3). Precondition: sorted, not empty,
// 0 <= share <= 1.
double Percentile(std::span<const double> sorted, double share);

// Of one repeat's requests.
struct Distribution {
  uint64_t count = 0;
  double mean = 0, p50 = 0, p90 = 0, p99 = 0, min = 0, max = 0;
};
// Sorts `values`; none: not measured.
Measured<Distribution> Describe(std::vector<double>* values);

// The same of very many values, without sorting them all; reorders `values`.
Measured<Distribution> DescribeMany(std::vector<float>* values);

double Mean(std::span<const double> values);
// Sample standard deviation (n - 1); needs two values.
std::optional<double> Deviation(std::span<const double> values);

// A mean over repeats with its 95 % confidence interval. `half_width` needs two values.
struct Interval {
  uint64_t n = 0;
  double mean = 0;
  std::optional<double> deviation;
  std::optional<double> half_width;
  std::optional<double> low() const { return half_width ? std::optional(mean - *half_width) : std::nullopt; }
  std::optional<double> high() const { return half_width ? std::optional(mean + *half_width) : std::nullopt; }
};
std::optional<Interval> MeanInterval(std::span<const double> values, double confidence = 0.95);

// t such that P(|T| <= t) = confidence for `degrees` degrees of freedom. Precondition: degrees >= 1.
double StudentT(double confidence, double degrees);
// P(T <= t).
double StudentCdf(double t, double degrees);

}  // namespace poolmark::stats
