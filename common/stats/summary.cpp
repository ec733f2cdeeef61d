#include "common/stats/summary.h"

#include <algorithm>
#include <boost/math/distributions/students_t.hpp>
#include <cmath>
#include <numeric>

namespace poolmark::stats {

double Percentile(std::span<const double> sorted, double share) {
  const double rank = share * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<size_t>(rank);
  if (below + 1 >= sorted.size()) return sorted.back();
  return sorted[below] + (rank - static_cast<double>(below)) * (sorted[below + 1] - sorted[below]);
}

Measured<Distribution> Describe(std::vector<double>* values) {
  if (values->empty()) return NotMeasured{"no request gave this figure"};
  std::sort(values->begin(), values->end());
  Distribution out;
  out.count = values->size();
  out.mean = Mean(*values);
  out.p50 = Percentile(*values, 0.50);
  out.p90 = Percentile(*values, 0.90);
  out.p99 = Percentile(*values, 0.99);
  out.min = values->front();
  out.max = values->back();
  return out;
}

Measured<Distribution> DescribeMany(std::vector<float>* values) {
  if (values->empty()) return NotMeasured{"no request gave this figure"};
  Distribution out;
  out.count = values->size();
  double sum = 0;
  for (const float value : *values) sum += value;
  out.mean = sum / static_cast<double>(values->size());
  // Each percentile looks only at what the one before left above it.
  auto begin = values->begin();
  const auto at = [&](double share) {
    const double rank = share * static_cast<double>(values->size() - 1);
    const auto below = static_cast<size_t>(rank);
    const auto place = values->begin() + static_cast<std::ptrdiff_t>(below);
    std::nth_element(begin, place, values->end());
    begin = place;
    const double low = *place;
    if (below + 1 >= values->size()) return low;
    const double high = *std::min_element(place + 1, values->end());
    return low + (rank - static_cast<double>(below)) * (high - low);
  };
  out.p50 = at(0.50);
  out.p90 = at(0.90);
  out.p99 = at(0.99);
  const auto [least, most] = std::minmax_element(values->begin(), values->end());
  out.min = *least;
  out.max = *most;
  return out;
}

double Mean(std::span<const double> values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

std::optional<double> Deviation(std::span<const double> values) {
  if (values.size() < 2) return std::nullopt;
  const double mean = Mean(values);
  double squares = 0;
  for (const double value : values) squares += (value - mean) * (value - mean);
  return std::sqrt(squares / static_cast<double>(values.size() - 1));
}

std::optional<Interval> MeanInterval(std::span<const double> values, double confidence) {
  if (values.empty()) return std::nullopt;
  Interval out;
  out.n = values.size();
  out.mean = Mean(values);
  out.deviation = Deviation(values);
  if (out.deviation) {
    const auto n = static_cast<double>(values.size());
    out.half_width = StudentT(confidence, n - 1) * *out.deviation / std::sqrt(n);
  }
  return out;
}

double StudentT(double confidence, double degrees) {
  return boost::math::quantile(boost::math::students_t(degrees), 0.5 + confidence / 2);
}

double StudentCdf(double t, double degrees) {
  return boost::math::cdf(boost::math::students_t(degrees), t);
}

}  // namespace poolmark::stats
