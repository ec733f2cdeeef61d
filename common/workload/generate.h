// `poolmark workload generate`: a workload's requests written out, so that another tool can send the same
// load.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "common/base/result.h"

namespace poolmark::workload {

struct GenerateOptions {
  bool tokens = false;          // token ids instead of block ids
  uint32_t block_tokens = 512;  // of the trace; Mooncake's own
};
struct Generated {
  uint64_t requests = 0;
  std::vector<std::string> notes;  // what of the workload is not in the file
  // Share of the prompt tokens that an unlimited cache could serve: of the workload, token by token; without
  // the live answers, which are in no line before the prompt that follows; and of what was written, in its
  // whole blocks.
  double reusable = 0, reusable_of_prompts = 0, reusable_written = 0;
};

// `source`: what DetectWorkload takes. As a Mooncake trace, block ids follow the prompts' blocks and times
// those of PlanArrivals; with `tokens`, one object a line with `session`, `turn`, `at`, `prompt` (token ids)
// and `max_tokens`.
Result<Generated> Generate(const std::string& source, const GenerateOptions& options, const std::string& out);

}  // namespace poolmark::workload
