// Records in the forms that other tools' scripts read: AIPerf's per-request lines (profile_export.jsonl) and
// the detailed result of `vllm bench serve --save-result --save-detailed`. Figures keep our definitions
// (docs/load.md); what those formats have and we did not measure is left out.
#pragma once
#include <string>
#include <string_view>

#include "common/base/result.h"

namespace poolmark::load {

enum class ExportFormat { kAiperf, kVllm };
Result<ExportFormat> ParseExportFormat(std::string_view text);

// Reads requests.jsonl.zst and load.json of `directory`, writes profile_export.jsonl or vllm.json beside
// them and returns the path.
Result<std::string> ExportRecords(const std::string& directory, ExportFormat format);

}  // namespace poolmark::load
