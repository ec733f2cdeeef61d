// The figures of a repeat by their names in summary.json, with units and the order in which tables show them.
// Pure.
#pragma once
#include <string>
#include <vector>

#include "common/results/repeat_file.h"

namespace poolmark::results {

struct NamedFigure {
  std::string name;  // "ttft_p50_seconds"
  std::string unit;  // "s"
  Measured<double> value;
};
// Goodput figures are called "goodput.<preset>", "goodput_share.<preset>" and "goodput_per_gpu.<preset>".
std::vector<NamedFigure> FiguresOf(const RepeatFile& repeat);

// Smaller is better (times, failed share); nothing for figures that are neither (variation, usage, …).
enum class Direction { kNone, kLower, kHigher };
Direction DirectionOf(const std::string& figure);
// Of the figures that have a direction: "s", "tokens/s", "requests/s", "share", "tokens/J".
std::string UnitOf(const std::string& figure);
// "Time to first token, median (P50)". `engine_cache`: of engines without a GPU, whose own cache takes the
// GPU's place (M7).
std::string TitleOf(const std::string& figure, bool engine_cache = false);

// 0.357 -> "35.7 %".
std::string Percent(double share);

}  // namespace poolmark::results
