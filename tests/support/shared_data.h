// Where the recorded captures and traces lie: a directory `shared` beside the project, or
// POOLMARK_SHARED_DATA. A user's clone has none; tests then say so and pass.
#pragma once
#include <optional>
#include <string>

namespace poolmark::test {

// The directory, or nothing (after printing "skipped: no shared data").
std::optional<std::string> SharedData();
// A file of this repository, for example Source("tests/data/x").
std::string Source(const std::string& relative);
// The recorded /proc and /sys of a machine, for example Root("nvidia-connectx").
std::string Root(const std::string& name);

}  // namespace poolmark::test
