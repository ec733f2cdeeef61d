#include "common/base/json_text.h"
#include "common/quality/codec.h"
#include "common/quality/codec_parts.h"

namespace poolmark::quality {
namespace {

constexpr double kMostSeconds = 1e9;

}  // namespace

std::string ArmLabel(std::string_view role, int64_t run_index) {
  return role == "reference" ? absl::StrCat("reference_", run_index + 1) : std::string(role);
}

Result<std::string> EncodeArm(const Arm& arm) {
  Json out = {{"schema_version", kSchemaVersion},
              {"plan_fingerprint", arm.plan_fingerprint},
              {"role", arm.role},
              {"run_index", arm.run_index},
              {"label", arm.label},
              {"url", arm.url},
              {"blend_metrics_url", arm.blend_metrics_url},
              {"engine_version", OrNull(arm.engine_version)},
              {"lmcache_version", arm.lmcache_version},
              {"started_at", arm.started_at},
              {"finished_at", arm.finished_at},
              {"engagement_measured", arm.engagement_measured},
              {"counters", CountersJson(arm.counters)},
              {"store_failures", arm.store_failures},
              {"num_questions", arm.num_questions}};
  POOLMARK_ASSIGN_OR_RETURN(std::string text, WriteJson(out, 2));
  return text + "\n";
}

Result<Arm> DecodeArm(std::string_view text, const std::string& where) {
  POOLMARK_ASSIGN_OR_RETURN(Json root, ParseFile(text, where));
  POOLMARK_RETURN_IF_ERROR(CheckSchema(root, where));
  Fields f(root, where);
  Arm arm;
  arm.plan_fingerprint = f.Str("plan_fingerprint");
  arm.role = f.Str("role");
  arm.run_index = f.Count("run_index");
  arm.label = f.Str("label");
  arm.url = f.Str("url");
  arm.blend_metrics_url = f.Str("blend_metrics_url");
  arm.engine_version = f.NullableStr("engine_version");
  arm.lmcache_version = f.Str("lmcache_version");
  arm.started_at = f.Str("started_at");
  arm.finished_at = f.Str("finished_at");
  arm.engagement_measured = f.Bool("engagement_measured");
  arm.counters = ReadCounters(f, "counters");
  arm.store_failures = f.Count("store_failures");
  arm.num_questions = f.Count("num_questions");
  if (!f.status().ok()) return f.status();
  if (arm.role != "reference" && arm.role != "control" && arm.role != "candidate") {
    return InvalidInput(
        where, absl::StrCat("'role' is '", arm.role, "', one of reference, control, candidate is needed"));
  }
  if (arm.role != "reference" && arm.run_index != 0) {
    return InvalidInput(
        where, absl::StrCat("'run_index' is ", arm.run_index, ", only reference passes are repeated"));
  }
  if (arm.label != ArmLabel(arm.role, arm.run_index)) {
    return InvalidInput(where, absl::StrCat("'label' is '", arm.label, "', role and run_index give '",
                                            ArmLabel(arm.role, arm.run_index), "'"));
  }
  if (arm.engagement_measured != arm.counters.has_value()) {
    return InvalidInput(where, arm.counters ? "'engagement_measured' is false but 'counters' is not null"
                                            : "'engagement_measured' is true but 'counters' is null");
  }
  return arm;
}

Result<std::string> EncodeAnswer(const Answer& a) {
  Json out = {{"qid", a.qid},
              {"request_id", a.request_id},
              {"successful", a.successful},
              {"answer", a.answer},
              {"response", a.response},
              {"ttft", a.ttft_seconds.value_or(-1.0)},
              {"num_output_tokens", a.num_output_tokens},
              {"counters", CountersJson(a.counters)}};
  POOLMARK_ASSIGN_OR_RETURN(std::string line, WriteJson(out));
  return line + "\n";
}

Result<std::vector<Answer>> DecodeAnswers(std::string_view text, const std::string& where,
                                          bool keep_responses) {
  std::vector<Answer> out;
  POOLMARK_RETURN_IF_ERROR(
      ForEachLine(text, where, [&](Json& object, const std::string& line_where) -> Status {
        Fields f(object, line_where);
        Answer a;
        a.qid = f.Str("qid");
        a.request_id = f.Str("request_id");
        a.successful = f.Bool("successful");
        a.answer = f.Str("answer");
        a.response = f.Str("response");
        if (!keep_responses) a.response = std::string();
        double ttft = f.Num("ttft");
        if (ttft >= 0) a.ttft_seconds = ttft;
        if (ttft != -1.0 && !(ttft >= 0 && ttft <= kMostSeconds))
          f.Fail("ttft",
                 absl::StrCat("is ", ttft, ", -1 or a time from 0 to ", kMostSeconds, " s is needed"));
        a.num_output_tokens = f.Count("num_output_tokens");
        a.counters = ReadCounters(f, "counters");
        if (f.status().ok() && !a.successful && !a.answer.empty())
          f.Fail("answer", "is not empty, though 'successful' is false");
        out.push_back(std::move(a));
        return f.status();
      }));
  return out;
}

}  // namespace poolmark::quality
