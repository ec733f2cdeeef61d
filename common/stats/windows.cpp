#include "common/stats/windows.h"

#include <algorithm>
#include <cmath>

#include "common/stats/summary.h"

namespace poolmark::stats {
namespace {

constexpr double kMostWindows = 100'000;  // over two months: no load is as long, an edited file may say so

}  // namespace

size_t WindowCount(double seconds) {
  seconds = std::min(seconds, 60.0 * kMostWindows);
  return std::max<size_t>(5, seconds > 0 ? static_cast<size_t>(std::floor(seconds / 60)) : 0);
}

Stability StabilityOf(const std::vector<double>& tokens, double window_seconds) {
  Stability out;
  out.window_seconds = window_seconds;
  if (tokens.size() < 2 || !(window_seconds > 0)) {
    out.variation = out.drift = NotMeasured{"fewer than two windows"};
    return out;
  }
  for (const double value : tokens) out.tokens_per_second.push_back(value / window_seconds);
  const auto& series = out.tokens_per_second;
  const double mean = Mean(series);
  if (mean <= 0) {
    out.variation = out.drift = NotMeasured{"no output tokens in the window"};
    return out;
  }
  out.variation = *Deviation(series) / mean;
  const auto n = static_cast<double>(series.size());
  const double middle = (n - 1) / 2;
  double above = 0, below = 0;
  for (size_t i = 0; i < series.size(); ++i) {
    const double x = static_cast<double>(i) - middle;
    above += x * (series[i] - mean);
    below += x * x;
  }
  out.drift = (above / below) * (n - 1) / mean;
  return out;
}

}  // namespace poolmark::stats
