// Stability of the load over the measured window: reported, not graded (methodology; decision M2). Pure.
#pragma once
#include <vector>

#include "common/base/measured.h"

namespace poolmark::stats {

// max(5, floor(T / 60)).
size_t WindowCount(double seconds);

struct Stability {
  std::vector<double> tokens_per_second;  // per window
  double window_seconds = 0;
  Measured<double> variation;  // sample standard deviation / mean
  Measured<double> drift;      // (fit at the last window's middle - at the first's) / mean
};
// `tokens`: output tokens that arrived in each window.
Stability StabilityOf(const std::vector<double>& tokens, double window_seconds);

}  // namespace poolmark::stats
