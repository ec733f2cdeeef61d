// What the exports of other tools' forms are made of. Internal to common/load. Plain values.
#pragma once
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "common/base/json.h"
#include "common/base/result.h"
#include "common/load/record.h"

namespace poolmark::load {

struct ExportData {
  Json json;  // load.json
  int64_t started_wall = 0;
  int64_t window_start = 0;
  double window_s = 0;
  std::vector<RequestRecord> records;  // by their start
  bool warm(const RequestRecord& r) const { return r.primer || r.window_time() < window_start; }
  const Json& load() const { return json.at("load"); }  // what the load was
};

// One JSON object a line: AIPerf's profile_export.jsonl, warm-up included and marked.
Result<std::string> AiperfLines(const ExportData& data);
// AIPerf's profile_export_aiperf.json: the aggregate of the window.
Result<std::string> AiperfSummary(const ExportData& data);
// `vllm bench serve --save-result --save-detailed`, of the window.
Result<std::string> VllmResult(const ExportData& data);

}  // namespace poolmark::load
