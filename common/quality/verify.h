// Recomputes what can be recomputed of a results directory: digests, plan invariants, extraction of answers,
// rows and summary. Reads files, changes nothing; thread-safe.
#pragma once
#include <string>
#include <vector>

#include "common/base/result.h"

namespace poolmark::quality {

struct VerifyReport {
  std::vector<std::string> checked;   // what was looked at
  std::vector<std::string> warnings;  // what was ignored: passes that did not finish
  std::vector<std::string> problems;  // a line each; empty when all is as it should be
};

// An error when the directory is refused as a whole (schema, another plan's arms, unreadable files).
Result<VerifyReport> VerifyDirectory(const std::string& path);

}  // namespace poolmark::quality
