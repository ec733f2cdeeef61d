// Records in the forms that other tools' scripts read: AIPerf's per-request lines (profile_export.jsonl) with
// its aggregate (profile_export_aiperf.json), and the detailed result of `vllm bench serve --save-result
// --save-detailed`. Figures keep our definitions (docs/load.md); what those formats have and we did not
// measure is left out.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "common/base/result.h"

namespace poolmark::load {

enum class ExportFormat { kAiperf, kVllm };
Result<ExportFormat> ParseExportFormat(std::string_view text);

// Reads requests.jsonl.zst and load.json of `directory`, writes profile_export.jsonl and
// profile_export_aiperf.json, or vllm.json, beside them and returns their paths.
Result<std::vector<std::string>> ExportRecords(const std::string& directory, ExportFormat format);

}  // namespace poolmark::load
