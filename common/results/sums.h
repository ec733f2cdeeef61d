// SHA256SUMS of a results directory, in the format of sha256sum(1): one "<hex>  <path>" a line, sorted by
// path.
#pragma once
#include <string>
#include <vector>

#include "common/base/result.h"

namespace poolmark::results {

// Over every regular file below but SHA256SUMS itself and leftovers (*.tmp). Atomic.
Status WriteSums(const std::string& directory);

struct SumProblem {
  std::string path;
  std::string problem;  // "differs", "missing", "not listed"
};
// Empty: every file is what was written. An error when SHA256SUMS is missing or no list of sums.
Result<std::vector<SumProblem>> CheckSums(const std::string& directory);

}  // namespace poolmark::results
