// Two stacks under the same load, repeat by repeat: better, worse, same or underpowered. Pure.
#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace poolmark::stats {

enum class Comparison { kBetter, kWorse, kSame, kUnderpowered };
std::string_view ComparisonName(Comparison comparison);

struct PairedResult {
  Comparison verdict = Comparison::kUnderpowered;
  uint64_t pairs = 0;
  std::optional<double> relative;  // mean over pairs of candidate / baseline - 1
  bool from_zero = false;  // a baseline of 0: no relative change, the verdict is that of the difference
  std::optional<double> low, high;  // 95 % Student-t
  // Underpowered: pairs after which an interval of the spread seen so far would be no wider than the margin.
  // Nothing where fewer than two pairs show no spread, or where more than 1 000 would be needed.
  std::optional<uint64_t> repeats_needed;
};

inline constexpr double kSameWithin = 0.05;

// `baseline[i]` and `candidate[i]` are one pair. The whole interval within +- margin: same. Zero outside of
// it: better or worse. Otherwise there are too few repeats to tell.
PairedResult ComparePaired(std::span<const double> baseline, std::span<const double> candidate,
                           bool lower_is_better, double margin = kSameWithin);

}  // namespace poolmark::stats
