#include "common/quality/verify.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <nlohmann/json.hpp>
#include <set>

#include "absl/strings/str_cat.h"
#include "common/base/files.h"
#include "common/base/json.h"
#include "common/base/printable.h"
#include "common/base/version.h"
#include "common/quality/analyze.h"
#include "common/quality/codec.h"
#include "common/quality/digests.h"
#include "common/quality/directory.h"
#include "common/quality/engagement.h"
#include "common/quality/extract.h"
#include "common/quality/plan.h"
#include "common/quality/recompute.h"
#include "common/quality/warnings.h"

namespace poolmark::quality {
namespace {

constexpr uint64_t kMaxFile = uint64_t{1} << 30;

// Other programs may round what they write to four places.
bool Same(const Json& a, const Json& b) {
  if (a.is_number() && b.is_number()) return std::abs(a.get<double>() - b.get<double>()) <= 5e-5;
  if (a.type() != b.type() || a.size() != b.size()) return false;
  if (a.is_object()) {
    for (auto it = a.begin(); it != a.end(); ++it) {
      auto other = b.find(it.key());
      if (other == b.end() || !Same(it.value(), *other)) return false;
    }
    return true;
  }
  if (!a.is_array()) return a == b;
  for (size_t i = 0; i < a.size(); ++i) {
    if (!Same(a[i], b[i])) return false;
  }
  return true;
}

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
    Result<std::string> text = ReadFile(file, kMaxFile);
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
    if (arm.engagement_measured != arm.counters.has_value())
      Problem(file + "engagement_measured does not fit counters");
    if (arm.engagement_measured != !arm.blend_metrics_url.empty())
      Problem(file + "engagement_measured does not fit blend_metrics_url");
    if (arm.role == "reference" && arm.store_failures != 0)
      Problem(file + "store_failures of a reference pass, which sends no store requests");
    for (const auto& [key, time] :
         {std::pair("started_at", &arm.started_at), std::pair("finished_at", &arm.finished_at)}) {
      if (!IsTime(*time)) Problem(NoTime(absl::StrCat("arm_", arm.label, ".json"), key, *time));
    }
    Requests(pass);
    CountersOf(pass);
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

  // Of what was looked up, and of what the whole pass counted, no part is more than all.
  void CountersOf(const Pass& pass) {
    const std::optional<Counters>& all = pass.arm.counters;
    if (!all || CounterReset(pass)) return;
    const std::string file = absl::StrCat("arm_", pass.arm.label, ".json: ");
    if (all->prefix_hit_tokens + all->non_prefix_hit_tokens > all->requested_tokens + 0.5)
      Problem(absl::StrCat(file, "counters: ", all->prefix_hit_tokens, " and ", all->non_prefix_hit_tokens,
                           " tokens were served, of ", all->requested_tokens, " looked up"));
    for (const auto& [name, member] : kCounterFields) {
      double sum = 0;
      for (const Answer& answer : pass.answers) sum += answer.counters ? (*answer.counters).*member : 0;
      if (sum > (*all).*member + 0.5)
        Problem(absl::StrCat(file, "counters: ", name, " is ", (*all).*member, ", the questions have ", sum));
    }
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
    if (std::string extra = directory_.File("statistics.json"); FileExists(extra))
      POOLMARK_RETURN_IF_ERROR(Statistics(again, extra));
    Checked(absl::StrCat("rows.jsonl and summary.json recomputed, ",
                         std::string(VerdictName(again.stored_verdict))));
    return absl::OkStatus();
  }

  // Our own file: figures first, then the words, which another version may choose otherwise.
  Status Statistics(const Recomputed& again, const std::string& file) {
    POOLMARK_ASSIGN_OR_RETURN(std::string text, ReadFile(file, kMaxFile));
    POOLMARK_ASSIGN_OR_RETURN(Json have, ParseJson(text, file));
    POOLMARK_ASSIGN_OR_RETURN(std::string want_text, EncodeStatistics(again.analysis));
    POOLMARK_ASSIGN_OR_RETURN(Json want, ParseJson(want_text));
    if (!have.is_object()) return InvalidInput(file, "is no object", "run analyze again");
    const Json stored = have.value("warnings", Json());
    const Json version = have.value("poolmark_version", Json());
    for (Json* json : {&want, &have}) {
      json->erase("warnings");
      json->erase("poolmark_version");
    }
    if (!Same(want, have)) Problem("statistics.json differs from what the files give; run analyze again");
    if (version != Version()) {
      report_.warnings.push_back(
          "statistics.json is of another version of this program: its warnings and the summary's "
          "invalid_reasons were not compared word by word");
      return absl::OkStatus();
    }
    Warnings(stored, again.analysis.warnings);
    if (again.stored_reasons != again.reasons)
      Problem(absl::StrCat("summary.json's invalid_reasons are not those that the files give: ",
                           FirstDifference(again.stored_reasons, again.reasons)));
    return absl::OkStatus();
  }

  void Warnings(const Json& stored, const std::vector<std::string>& wanted) {
    std::vector<std::string> have;
    if (!stored.is_array()) return Problem("statistics.json: 'warnings' is no array");
    for (const Json& item : stored) {
      if (!item.is_string()) return Problem("statistics.json: 'warnings' is no array of strings");
      if (std::string text = item.get<std::string>(); !IsOfTheMoment(text)) have.push_back(std::move(text));
    }
    std::vector<std::string> want;
    std::copy_if(wanted.begin(), wanted.end(), std::back_inserter(want),
                 [](const std::string& text) { return !IsOfTheMoment(text); });
    if (have != want)
      Problem("statistics.json's warnings are not those that the files give: " + FirstDifference(have, want));
  }

  static std::string FirstDifference(const std::vector<std::string>& have,
                                     const std::vector<std::string>& want) {
    auto [a, b] = std::mismatch(have.begin(), have.end(), want.begin(), want.end());
    auto quoted = [](const std::string& text) { return "'" + Printable(text) + "'"; };
    if (a == have.end()) return "there is none of " + quoted(*b);
    return b == want.end() ? "nothing gives " + quoted(*a) : quoted(*a) + " instead of " + quoted(*b);
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
