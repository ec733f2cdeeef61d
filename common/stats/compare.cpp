#include "common/stats/compare.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "common/stats/summary.h"

namespace poolmark::stats {
namespace {

constexpr uint64_t kMaxRepeats = 1000;  // more is no advice

std::optional<uint64_t> Needed(double deviation, double margin) {
  for (uint64_t n = 3; n <= kMaxRepeats; ++n) {
    const auto count = static_cast<double>(n);
    if (StudentT(0.95, count - 1) * deviation / std::sqrt(count) <= margin) return n;
  }
  return std::nullopt;
}

}  // namespace

std::string_view ComparisonName(Comparison comparison) {
  static constexpr std::string_view names[] = {"better", "worse", "same", "underpowered"};
  return names[static_cast<int>(comparison)];
}

PairedResult ComparePaired(std::span<const double> baseline, std::span<const double> candidate,
                           bool lower_is_better, double margin) {
  PairedResult out;
  std::vector<double> ratios;
  for (size_t i = 0; i < std::min(baseline.size(), candidate.size()); ++i) {
    if (baseline[i] > 0) ratios.push_back(candidate[i] / baseline[i] - 1);
  }
  out.pairs = ratios.size();
  const auto interval = MeanInterval(ratios);
  if (!interval) return out;
  out.relative = interval->mean;
  out.low = interval->low();
  out.high = interval->high();
  if (!out.low) return out;
  if (*out.low >= -margin && *out.high <= margin) {
    out.verdict = Comparison::kSame;
  } else if (*out.low > 0 || *out.high < 0) {
    out.verdict = (*out.high < 0) == lower_is_better ? Comparison::kBetter : Comparison::kWorse;
  } else {
    out.repeats_needed = Needed(*interval->deviation, margin);
  }
  return out;
}

}  // namespace poolmark::stats
