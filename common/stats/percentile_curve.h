// The points of a percentile plot. Pure, thread-safe.
#pragma once
#include <span>
#include <utility>
#include <vector>

namespace poolmark::stats {

// Share -> value at each percent, 99.5 % and 99.9 %, by linear interpolation (type 7). Precondition: sorted.
// Nothing for no values.
std::vector<std::pair<double, double>> PercentileCurve(std::span<const double> sorted);

}  // namespace poolmark::stats
