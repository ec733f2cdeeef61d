#include "common/stats/percentile_curve.h"

#include "common/stats/summary.h"

namespace poolmark::stats {

std::vector<std::pair<double, double>> PercentileCurve(std::span<const double> sorted) {
  std::vector<std::pair<double, double>> curve;
  if (sorted.empty()) return curve;
  for (int i = 0; i <= 100; ++i) curve.emplace_back(i / 100.0, Percentile(sorted, i / 100.0));
  curve.insert(curve.end() - 1, {0.995, Percentile(sorted, 0.995)});
  curve.insert(curve.end() - 1, {0.999, Percentile(sorted, 0.999)});
  return curve;
}

}  // namespace poolmark::stats
