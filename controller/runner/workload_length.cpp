#include "controller/runner/workload_length.h"

#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "common/base/json.h"
#include "common/base/time_format.h"
#include "common/workload/source.h"
#include "common/workload/timeline.h"

namespace poolmark::controller {
namespace {

// The stored file has a digest for its name; people know it by the job's.
Status Named(const Status& status, const std::string& file, const spec::WorkloadSpec& workload) {
  Error error = ErrorOf(status);
  error.kind = absl::StatusCode::kInvalidArgument;
  error.where = absl::StrReplaceAll(error.where, {{file, workload.file}});
  error.message = absl::StrReplaceAll(error.message, {{file, workload.file}});
  if (error.where.empty()) error.where = workload.where;
  return ToStatus(error);
}

const char* KeyOf(spec::LoadLevel::Kind kind) {
  switch (kind) {
    case spec::LoadLevel::Kind::kConcurrency:
      return "concurrency";
    case spec::LoadLevel::Kind::kRate:
      return "rate";
    case spec::LoadLevel::Kind::kSpeedup:
      return "speedup";
  }
  return "concurrency";
}

}  // namespace

AnswerTime AnswerTimeOf(const spec::StackSpec& stack) {
  AnswerTime answer;
  auto step = stack.params.find("decode_step");
  if (!stack.simulated || step == stack.params.end()) return answer;
  auto parsed = ParseDuration(step->second);
  if (!parsed.ok()) return answer;
  return {std::chrono::milliseconds(20), *parsed};
}

Result<Nanoseconds> WorkloadLength(const spec::WorkloadSpec& workload, const spec::LoadLevel& level,
                                   const std::string& file, const AnswerTime& answer) {
  if (workload.load_duration) return *workload.load_duration;
  POOLMARK_ASSIGN_OR_RETURN(Json json, ParseJson(workload.options_json, workload.where));
  if (!file.empty()) json["file"] = file;
  if (level.kind == spec::LoadLevel::Kind::kConcurrency) {
    json[KeyOf(level.kind)] = {static_cast<int64_t>(level.value)};
  } else {
    json[KeyOf(level.kind)] = {level.value};
  }
  auto spec = workload::ParseWorkload(json, workload.where);
  if (!spec.ok()) return Named(spec.status(), file, workload);
  auto opened = workload::OpenWorkload(*spec);
  if (!opened.ok()) return Named(opened.status(), file, workload);
  return workload::PlannedEnd(**opened, *spec, answer.first, answer.per_token);
}

}  // namespace poolmark::controller
