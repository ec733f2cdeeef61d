// `poolmark workload generate`: a workload's requests written out, so that another tool can send the same
// load.
#pragma once
#include <cstdint>
#include <string>

#include "common/base/result.h"

namespace poolmark::workload {

// `source`: what DetectWorkload takes. As a Mooncake trace, block ids follow the prompts' 512-token blocks
// and times those of PlanArrivals; with `tokens`, one object a line with `session`, `turn`, `at`, `prompt`
// (token ids) and `max_tokens`. Returns the number of requests written.
Result<uint64_t> Generate(const std::string& source, bool tokens, const std::string& out);

}  // namespace poolmark::workload
