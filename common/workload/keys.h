// Suggestions for misspelt names. Pure.
#pragma once
#include <string>
#include <vector>

namespace poolmark::workload {

// The known name with the smallest edit distance, "" when none is near enough to be meant.
std::string NearestKey(const std::string& name, const std::vector<std::string>& known);

}  // namespace poolmark::workload
