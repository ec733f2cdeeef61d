// From a workload to what the load generator takes: session bodies as JSON. Thread-safe.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "common/base/json.h"
#include "common/load/source.h"
#include "common/workload/script.h"
#include "common/workload/spec.h"
#include "common/workload/tokens.h"

namespace poolmark::workload {

// Reads the file of the spec, where it has one.
Result<std::shared_ptr<const Workload>> OpenWorkload(const WorkloadSpec& spec);

// `text`: how prompts become words; needed for chat and prompt: text (PlainWords() without a tokenizer).
std::unique_ptr<load::SessionSource> MakeSource(const WorkloadSpec& spec,
                                                std::shared_ptr<const Workload> workload, TextTokens text);

// The whole way, for `poolmark load --plan FILE` and the controller. `spec` as ParseWorkload takes it, with
// the path of `file` resolved. With a counter, text prompts have exact lengths (M23); without, they are
// approximate, and `notes` (may be null) says so, together with the workload's own notes.
Result<std::unique_ptr<load::SessionSource>> OpenSource(const Json& spec, TokenCounter* counter = nullptr,
                                                        std::vector<std::string>* notes = nullptr);

}  // namespace poolmark::workload
