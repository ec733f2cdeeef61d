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

namespace {

// From nothing to something there is no relative change (0 % reused to 78 %), but there is a difference.
void CompareDifferences(std::span<const double> baseline, std::span<const double> candidate,
                        bool lower_is_better, PairedResult* out) {
  out->from_zero = true;
  std::vector<double> differences;
  for (size_t i = 0; i < out->pairs; ++i) differences.push_back(candidate[i] - baseline[i]);
  const auto interval = MeanInterval(differences);
  if (!interval) return;
  if (std::all_of(differences.begin(), differences.end(), [](double value) { return value == 0; })) {
    out->relative = 0;
    out->low = interval->low() ? std::optional(0.0) : std::nullopt;
    out->high = out->low;
    if (out->low) out->verdict = Comparison::kSame;
    return;
  }
  if (!interval->low()) return;
  if (*interval->low() > 0 || *interval->high() < 0)
    out->verdict = (*interval->high() < 0) == lower_is_better ? Comparison::kBetter : Comparison::kWorse;
}

}  // namespace

PairedResult ComparePaired(std::span<const double> baseline, std::span<const double> candidate,
                           bool lower_is_better, double margin) {
  PairedResult out;
  out.pairs = std::min(baseline.size(), candidate.size());
  std::vector<double> ratios;
  for (size_t i = 0; i < out.pairs; ++i) {
    if (baseline[i] <= 0) {
      CompareDifferences(baseline, candidate, lower_is_better, &out);
      return out;
    }
    ratios.push_back(candidate[i] / baseline[i] - 1);
  }
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
