#include "common/quality/verify.h"

#include <set>

#include "absl/strings/str_cat.h"
#include "common/base/files.h"
#include "common/base/printable.h"
#include "common/base/version.h"
#include "common/quality/codec.h"
#include "common/quality/counter_checks.h"
#include "common/quality/digests.h"
#include "common/quality/directory.h"
#include "common/quality/extract.h"
#include "common/quality/plan.h"
#include "common/quality/recompute.h"
#include "common/quality/statistics_check.h"

namespace poolmark::quality {
namespace {

// ISO 8601 to the second with the offset: "2026-10-19T10:41:12-05:00".
bool IsTime(std::string_view text) {
  static constexpr std::string_view kShape = "0000-00-00T00:00:00+00:00";
  if (text.size() != kShape.size()) return false;
  for (size_t i = 0; i < text.size(); ++i) {
    const bool right = kShape[i] == '0'   ? text[i] >= '0' && text[i] <= '9'
                       : kShape[i] == '+' ? text[i] == '+' || text[i] == '-'
                                          : text[i] == kShape[i];
    if (!right) return false;
  }
  return true;
}

std::string NoTime(const std::string& file, const char* key, const std::string& value) {
  return absl::StrCat(file, ": ", key, " is '", Printable(value.substr(0, 40)),
                      "', a time like 2026-10-19T10:41:12-05:00 is needed");
}

class Verifier {
 public:
  explicit Verifier(const std::string& path) : directory_(path) {}

  Result<VerifyReport> Run() {
    POOLMARK_ASSIGN_OR_RETURN(loaded_, directory_.Load(true));
    report_.warnings = loaded_.warnings;
    Checked(absl::StrCat("plan.json: ", loaded_.plan.samples.size(), " questions, ",
                         loaded_.plan.store_requests.size(), " store requests"));
    for (const std::string& problem : PlanProblems(loaded_.plan)) Problem("plan.json: " + problem);
    Fingerprint();
    Evidence();
    if (!IsTime(loaded_.plan.created_at)) Problem(NoTime("plan.json", "created_at", loaded_.plan.created_at));
    POOLMARK_RETURN_IF_ERROR(Manifest());
    for (const Pass& pass : loaded_.passes) Answers(pass);
    POOLMARK_RETURN_IF_ERROR(Results());
    return std::move(report_);
  }

 private:
  void Checked(std::string text) { report_.checked.push_back(std::move(text)); }
  void Problem(std::string text) { report_.problems.push_back(std::move(text)); }

  // The formula is ours (decision Q2): another program's plan is compared by its stored text alone.
  void Fingerprint() {
    const Plan& plan = loaded_.plan;
    Result<std::string> ours = PlanFingerprint(plan.settings_json, plan.prompts_digest);
    if (ours.ok() && *ours == plan.plan_fingerprint) return;
    const bool own = plan.lmcache_version == Version();
    const std::string text =
        "plan.json: plan_fingerprint does not fit settings and prompts_digest by our formula";
    if (own) {
      Problem(text);
    } else {
      report_.warnings.push_back(text + "; version " + plan.lmcache_version +
                                 " wrote it, which may use another");
    }
  }

  void Evidence() {
    std::vector<std::string> problems;
    CheckFoundEvidence(loaded_.plan, &problems);
    if (loaded_.plan.lmcache_version == Version()) {
      for (const std::string& problem : problems) Problem("plan.json: " + problem);
    } else if (!problems.empty()) {
      report_.warnings.push_back(
          absl::StrCat("plan.json: ", problems.front(), "; version ", loaded_.plan.lmcache_version,
                       " wrote it, which may find evidence otherwise (", problems.size(), " such passages)"));
    }
  }

  Status Manifest() {
    std::string file = directory_.File("manifest.jsonl");
    Result<std::string> text = ReadFile(file, kMaxFileBytes);
    if (!text.ok()) {
      Problem("manifest.jsonl cannot be read");
      return absl::OkStatus();
    }
    POOLMARK_ASSIGN_OR_RETURN(std::vector<Sample> records, DecodeManifest(*text, file));
    Plan from_manifest = loaded_.plan;
    from_manifest.samples = records;
    POOLMARK_ASSIGN_OR_RETURN(std::string want, EncodeManifest(loaded_.plan));
    POOLMARK_ASSIGN_OR_RETURN(std::string have, EncodeManifest(from_manifest));
    // The file itself: scenario and chunk_size stand in every line and are read from the plan alone.
    const std::optional<std::string> difference = JsonLinesDifference(want, *text, file);
    if (want != have || difference)
      Problem(absl::StrCat("manifest.jsonl differs from the records in plan.json",
                           difference.value_or("").empty() ? "" : ", at ", difference.value_or("")));
    Checked("manifest.jsonl against plan.json");
    return absl::OkStatus();
  }

  void Answers(const Pass& pass) {
    const Arm& arm = pass.arm;
    const std::string file = absl::StrCat("arm_", arm.label, ".json: ");
    if (arm.role != "candidate" &&
        (arm.engagement_measured || arm.counters || !arm.blend_metrics_url.empty()))
      Problem(file + "only a candidate's pass may have blend metrics");
    if (arm.engagement_measured != !arm.blend_metrics_url.empty())
      Problem(file + "engagement_measured does not fit blend_metrics_url");
    if (arm.role == "reference" && arm.store_failures != 0)
      Problem(file + "store_failures of a reference pass, which sends no store requests");
    for (const auto& [key, time] :
         {std::pair("started_at", &arm.started_at), std::pair("finished_at", &arm.finished_at)}) {
      if (!IsTime(*time)) Problem(NoTime(absl::StrCat("arm_", arm.label, ".json"), key, *time));
    }
    Requests(pass);
    for (const std::string& problem : ImpossibleCounters(pass)) Problem(file + "counters: " + problem);
    for (const Answer& a : pass.answers) {
      std::string want = a.successful ? ExtractAnswer(a.response) : "";
      if (want != a.answer)
        Problem(absl::StrCat("answers_", pass.arm.label, ".jsonl ", a.request_id,
                             ": the answer is not what the response's tags hold"));
      if (a.counters && !arm.engagement_measured)
        Problem(absl::StrCat("answers_", arm.label, ".jsonl ", a.request_id,
                             ": counters in a pass without blend metrics"));
      if (a.successful != a.ttft_seconds.has_value())
        Problem(absl::StrCat("answers_", pass.arm.label, ".jsonl ", a.request_id,
                             ": ttft does not fit successful"));
    }
    Checked(absl::StrCat("arm and answers of ", pass.arm.label));
  }

  // requests_<label>.json against what the specified files say of the same requests.
  void Requests(const Pass& pass) {
    if (!pass.requests) return;
    const RequestLog& log = *pass.requests;
    const std::string file = absl::StrCat("requests_", pass.arm.label, ".json: ");
    std::set<std::string> failed, unsuccessful;
    int64_t stores = 0;
    for (const TroubledRequest& request : log.troubled) {
      if (request.successful) continue;
      if (request.request_id.starts_with("store")) {
        ++stores;
      } else {
        failed.insert(request.request_id);
      }
    }
    for (const Answer& a : pass.answers) {
      if (!a.successful) unsuccessful.insert(a.request_id);
    }
    if (failed != unsuccessful) Problem(file + "its failed questions are not those of the answers");
    if (stores != pass.arm.store_failures)
      Problem(absl::StrCat(file, "has ", stores, " failed store requests, the arm file ",
                           pass.arm.store_failures));
    const size_t want =
        loaded_.plan.samples.size() + (pass.arm.role == "reference" ? 0 : loaded_.plan.store_requests.size());
    if (log.requests != static_cast<int64_t>(want))
      Problem(
          absl::StrCat(file, "counts ", log.requests, " requests, the plan has ", want, " for this pass"));
  }

  // The whole comparison again, over the same ratings.
  Status Results() {
    std::string file = directory_.File("summary.json");
    if (!FileExists(file)) {
      Checked("no summary.json yet");
      return absl::OkStatus();
    }
    POOLMARK_ASSIGN_OR_RETURN(Recomputed again, Recompute(loaded_, loaded_.path));
    for (const std::string& problem : again.problems) Problem(problem);
    if (std::string extra = directory_.File("statistics.json"); FileExists(extra)) {
      POOLMARK_ASSIGN_OR_RETURN(std::string text, ReadFile(extra, kMaxFileBytes));
      POOLMARK_ASSIGN_OR_RETURN(StatisticsCheck found, CheckStatistics(text, extra, again));
      for (std::string& problem : found.problems) Problem(std::move(problem));
      for (std::string& warning : found.warnings) report_.warnings.push_back(std::move(warning));
    }
    Checked(absl::StrCat("rows.jsonl and summary.json recomputed, ",
                         std::string(VerdictName(again.stored_verdict))));
    return absl::OkStatus();
  }

  Directory directory_;
  LoadedDirectory loaded_;
  VerifyReport report_;
};

}  // namespace

Result<VerifyReport> VerifyDirectory(const std::string& path) {
  return Verifier(path).Run();
}

}  // namespace poolmark::quality
