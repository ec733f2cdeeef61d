#include "common/load/exports.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "common/base/files.h"
#include "common/load/export_data.h"
#include "common/load/record_codec.h"
#include "common/load/summary.h"

namespace poolmark::load {
namespace {

Result<ExportData> Read(const std::string& directory) {
  ExportData data;
  const std::string path = JoinPath(directory, "load.json");
  POOLMARK_ASSIGN_OR_RETURN(const std::string text, ReadFile(path));
  POOLMARK_ASSIGN_OR_RETURN(data.json, ParseJson(text, path));
  POOLMARK_RETURN_IF_ERROR(CheckLoadVersion(data.json, path));
  try {
    data.started_wall = data.json.at("started_wall_ns").get<int64_t>();
    data.window_start = data.json.at("window_ns").at("start").get<int64_t>();
    data.window_s = data.json.at("window").at("length_s").get<double>();
    (void)data.load().at("request_id_prefix").get<std::string>();
  } catch (const Json::exception& error) {
    return InvalidInput(path, std::string("it is no load.json of this version: ") + error.what());
  }
  POOLMARK_ASSIGN_OR_RETURN(data.records, ReadRecords(JoinPath(directory, "requests.jsonl.zst")));
  std::stable_sort(data.records.begin(), data.records.end(),
                   [](const RequestRecord& a, const RequestRecord& b) { return a.started < b.started; });
  return data;
}

}  // namespace

Result<ExportFormat> ParseExportFormat(std::string_view text) {
  if (text == "aiperf") return ExportFormat::kAiperf;
  if (text == "vllm") return ExportFormat::kVllm;
  return InvalidInput("export '" + std::string(text) + "'", "it is not known", "use aiperf or vllm");
}

Result<std::vector<std::string>> ExportRecords(const std::string& directory, ExportFormat format) {
  POOLMARK_ASSIGN_OR_RETURN(const ExportData data, Read(directory));
  std::vector<std::string> paths;
  const auto write = [&](const char* name, const Result<std::string>& text) -> Status {
    POOLMARK_RETURN_IF_ERROR(text.status());
    paths.push_back(JoinPath(directory, name));
    return AtomicWriteFile(paths.back(), *text);
  };
  try {
    if (format == ExportFormat::kVllm) {
      POOLMARK_RETURN_IF_ERROR(write("vllm.json", VllmResult(data)));
    } else {
      POOLMARK_RETURN_IF_ERROR(write("profile_export.jsonl", AiperfLines(data)));
      POOLMARK_RETURN_IF_ERROR(write("profile_export_aiperf.json", AiperfSummary(data)));
    }
  } catch (const Json::exception& error) {
    return InvalidInput(JoinPath(directory, "load.json"),
                        std::string("a field has not the type that this version writes: ") + error.what());
  }
  return paths;
}

}  // namespace poolmark::load
