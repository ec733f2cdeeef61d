#include "controller/steps/load_plan.h"

#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "common/base/json.h"
#include "common/base/time_format.h"

namespace poolmark::controller {

Result<std::string> LoadPlanJson(const LoadPlanInput& input) {
  POOLMARK_ASSIGN_OR_RETURN(
      Json workload, ParseJson(input.workload->options_json.empty() ? "{}" : input.workload->options_json,
                               absl::StrCat("workload ", input.workload->name)));
  if (!input.file.empty()) workload["file"] = input.file;
  workload["model"] = input.model;
  workload["marker"] = input.marker;
  // One level of the point; the lists of the job file are the planner's.
  for (const char* key : {"concurrency", "rate", "speedup"}) workload.erase(key);
  const double value = input.repeat.level.value;
  switch (input.repeat.level.kind) {
    case spec::LoadLevel::Kind::kConcurrency:
      workload["concurrency"] = Json::array({static_cast<int64_t>(value)});
      break;
    case spec::LoadLevel::Kind::kRate:
      workload["rate"] = Json::array({value});
      break;
    case spec::LoadLevel::Kind::kSpeedup:
      workload["speedup"] = Json::array({value});
      break;
  }
  Json plan = {{"schema_version", 1},
               {"urls", Json::array({input.stack->entry_url})},
               {"workload", workload},
               {"out", input.output_dir}};
  if (input.request_deadline) plan["timeout"] = FormatDuration(*input.request_deadline);
  return DumpJson(plan, 1);
}

std::optional<LoadProgress> ParseProgress(const std::string& line) {
  auto json = ParseJson(line);
  if (!json.ok() || !json->is_object() || !json->contains("t") || !(*json)["t"].is_number())
    return std::nullopt;
  LoadProgress progress;
  progress.seconds = (*json)["t"].get<double>();
  if (json->contains("phase") && (*json)["phase"].is_string())
    progress.phase = (*json)["phase"].get<std::string>();
  return progress;
}

Result<LoadTimes> ParseLoadJson(const std::string& text) {
  POOLMARK_ASSIGN_OR_RETURN(Json json, ParseJson(text, "load.json"));
  LoadTimes times;
  try {
    times.started_wall = Nanoseconds(json.at("started_wall_ns").get<int64_t>());
    const Json& window = json.at("window_ns");
    times.window_start = Nanoseconds(window.at("start").get<int64_t>());
    times.window_end = Nanoseconds(window.at("end").get<int64_t>());
    times.load_end = Nanoseconds(window.at("load_end").get<int64_t>());
    times.total_end = Nanoseconds(window.at("total_end").get<int64_t>());
    times.interrupted = json.at("interrupted").get<bool>();
    times.ran_out_of_sessions = !json.at("client").at("ran_out_of_sessions_at_s").is_null();
    for (const Json& note : json.at("notes")) times.notes.push_back(note.get<std::string>());
  } catch (const nlohmann::json::exception& error) {
    return InvalidInput("load.json", absl::StrCat("not what the load writes: ", error.what()));
  }
  return times;
}

}  // namespace poolmark::controller
