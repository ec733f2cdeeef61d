// Where files of this repository, its built programs and the recorded captures and traces lie. The captures
// are in a directory `shared` beside the project, or in POOLMARK_SHARED_DATA. A user's clone has none; tests
// then say so and pass.
#pragma once
#include <optional>
#include <string>

namespace poolmark::test {

// The directory, or nothing (after printing "skipped: no shared data").
std::optional<std::string> SharedData();
// A file of this repository, for example Source("tests/data/x").
std::string Source(const std::string& relative);
// A program of this build, for example BuiltProgram("poolmark-guard"); sanitizer lanes build the tests
// without it.
std::string BuiltProgram(const std::string& name);
// The recorded /proc and /sys of a machine, for example Root("nvidia-connectx").
std::string Root(const std::string& name);

}  // namespace poolmark::test
