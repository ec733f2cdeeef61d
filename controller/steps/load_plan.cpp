#include "controller/steps/load_plan.h"

#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "common/base/json.h"
#include "common/base/time_format.h"
#include "common/load/arrivals.h"
#include "common/load/summary.h"
#include "common/workload/stored_settings.h"

namespace poolmark::controller {

Result<std::string> LoadPlanJson(const LoadPlanInput& input) {
  POOLMARK_ASSIGN_OR_RETURN(
      Json workload, ParseJson(input.workload->options_json.empty() ? "{}" : input.workload->options_json,
                               absl::StrCat("workload ", input.workload->name)));
  if (!input.file.empty()) workload["file"] = input.file;
  workload["model"] = input.model;
  workload["marker"] = input.marker;
  // One level of the point; the lists of the job file are the planner's.
  const double value = input.repeat.level.value;
  Json level;
  switch (input.repeat.level.kind) {
    case spec::LoadLevel::Kind::kConcurrency:
      level = {{"concurrency", static_cast<int64_t>(value)}};
      break;
    case spec::LoadLevel::Kind::kRate:
      level = {{"rate", input.repeat.level.steps.empty() ? Json(value) : Json(input.repeat.level.steps)},
               {"arrivals", workload.value("arrivals", "poisson")}};
      if (level["arrivals"] != "constant") level["seed"] = input.seed;  // equal gaps are not drawn
      if (workload.contains("cv")) level["cv"] = workload["cv"];
      break;
    case spec::LoadLevel::Kind::kSpeedup:
      level = {{"speedup", value}};
      break;
  }
  for (const char* key : {"concurrency", "rate", "arrivals", "cv", "speedup"}) workload.erase(key);
  Json plan = {{"schema_version", 1},
               {"urls", Json::array({input.stack->entry_url})},
               {"workload", workload},
               {"load", level},
               {"out", input.output_dir}};
  if (input.workers > 1) {
    plan["worker"] = input.worker;
    plan["workers"] = input.workers;
  }
  if (input.start_at_wall) plan["start_at_wall_ns"] = input.start_at_wall->count();
  if (input.workload->load_duration) plan["duration"] = FormatDuration(*input.workload->load_duration);
  if (input.workload->warm_up) plan["warm_up"] = FormatDuration(*input.workload->warm_up);
  if (input.request_deadline) plan["deadline"] = FormatDuration(*input.request_deadline);
  // Text prompts get exact lengths where somebody counts their tokens (M23).
  if (input.workload->text_prompts) {
    if (!input.tokenizer.empty()) {
      plan["tokenizer"] = input.tokenizer;
    } else if (!input.tokenize_url.empty()) {
      plan["tokenize_url"] = input.tokenize_url;
    }
  }
  return DumpJson(plan, 1);
}

std::string ScenarioName(const spec::JobSpec& job, const std::string& workload) {
  for (const spec::WorkloadSpec& one : job.workloads) {
    if (one.name == workload) return workload::ScaledName(workload, one.options_json);
  }
  return workload;
}

std::string DescribeLevel(const spec::WorkloadSpec& workload, const spec::LoadLevel& level) {
  switch (level.kind) {
    case spec::LoadLevel::Kind::kConcurrency: {
      std::string text = absl::StrCat(level.value, level.value == 1 ? " user" : " users");
      if (workload.load_duration) absl::StrAppend(&text, " for ", FormatDuration(*workload.load_duration));
      return text;
    }
    case spec::LoadLevel::Kind::kRate: {
      const auto options = ParseJson(workload.options_json);
      load::ArrivalOptions arrivals;
      if (options.ok()) {
        if (auto kind = load::ParseArrivalKind(options->value("arrivals", "poisson")); kind.ok())
          arrivals.kind = *kind;
        arrivals.cv = options->value("cv", 1.0);
      }
      arrivals.steps = {{Nanoseconds(0), level.value, level.value}};
      if (auto steps = load::ParseRate(level.steps); !level.steps.empty() && steps.ok())
        arrivals.steps = *std::move(steps);
      return load::DescribeArrivals(arrivals);
    }
    case spec::LoadLevel::Kind::kSpeedup:
      return level.value == 1 ? "at the trace's own times"
                              : absl::StrCat("at the trace's times, ", level.value, " times as fast");
  }
  return "";
}

std::optional<LoadProgress> ParseProgress(const std::string& line) {
  auto json = ParseJson(line);
  if (!json.ok() || !json->is_object() || !json->contains("event") || !(*json)["event"].is_string()) {
    return std::nullopt;
  }
  LoadProgress progress;
  progress.event = (*json)["event"].get<std::string>();
  if (json->contains("t") && (*json)["t"].is_number()) progress.seconds = (*json)["t"].get<double>();
  if (json->contains("phase") && (*json)["phase"].is_string())
    progress.phase = (*json)["phase"].get<std::string>();
  if (json->contains("message") && (*json)["message"].is_string())
    progress.message = (*json)["message"].get<std::string>();
  if (json->contains("started_wall_ns") && (*json)["started_wall_ns"].is_number_integer()) {
    progress.started_wall = Nanoseconds((*json)["started_wall_ns"].get<int64_t>());
  }
  if (json->contains("in_flight") && (*json)["in_flight"].is_number_unsigned())
    progress.in_flight = (*json)["in_flight"].get<uint64_t>();
  if (json->contains("failed") && (*json)["failed"].is_number_unsigned())
    progress.failed = (*json)["failed"].get<uint64_t>();
  if (json->contains("events_per_s") && (*json)["events_per_s"].is_number())
    progress.events_per_second = (*json)["events_per_s"].get<double>();
  return progress;
}

std::string SumProgress(const std::vector<std::string>& lines) {
  if (lines.size() == 1) return lines.front();
  Json sum = Json::object();
  for (const std::string& line : lines) {
    const auto json = ParseJson(line);
    if (!json.ok() || !json->is_object()) continue;
    for (const auto& [key, value] : json->items()) {
      Json& all = sum[key];
      if (value.is_object()) {  // ttft_ms, lateness_ms
        for (const auto& [name, time] : value.items()) {
          if (time.is_number() && (!all.contains(name) || !all[name].is_number() || time > all[name]))
            all[name] = time;
          if (!all.contains(name)) all[name] = nullptr;
        }
      } else if (value.is_number() && key != "t" && all.is_number()) {
        if (value.is_number_integer() && all.is_number_integer()) {
          all = all.get<int64_t>() + value.get<int64_t>();
        } else {
          all = all.get<double>() + value.get<double>();
        }
      } else if (all.is_null()) {
        all = value;
      }
    }
  }
  return DumpJson(sum).value_or("{}");
}

Result<LoadTimes> ParseLoadJson(const std::string& text) {
  POOLMARK_ASSIGN_OR_RETURN(Json json, ParseJson(text, "load.json"));
  POOLMARK_RETURN_IF_ERROR(load::CheckLoadVersion(json, "load.json"));
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
    times.client_limited = json.at("client").at("limited").get<bool>();
    for (const Json& note : json.at("notes")) times.notes.push_back(note.get<std::string>());
  } catch (const nlohmann::json::exception& error) {
    return InvalidInput("load.json", absl::StrCat("not what the load writes: ", error.what()));
  }
  return times;
}

}  // namespace poolmark::controller
