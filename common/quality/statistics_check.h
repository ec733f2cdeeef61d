// statistics.json, our own file, against the comparison made again from the files. For `verify`. Pure,
// thread-safe.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "common/base/result.h"
#include "common/quality/recompute.h"

namespace poolmark::quality {

struct StatisticsCheck {
  std::vector<std::string> problems;
  std::vector<std::string> warnings;  // what was not compared, and why
};

// `text` is the content of `file`. Figures are compared whoever wrote them, warnings and the reasons for
// INVALID word by word where this version of the program did. An error where it is no JSON object.
Result<StatisticsCheck> CheckStatistics(std::string_view text, const std::string& file,
                                        const Recomputed& again);

}  // namespace poolmark::quality
