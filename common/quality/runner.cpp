#include "common/quality/runner.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/base/files.h"
#include "common/base/time_format.h"
#include "common/base/version.h"
#include "common/quality/arm_run.h"
#include "common/quality/codec.h"
#include "common/quality/counter_checks.h"
#include "common/quality/dataset.h"
#include "common/quality/plan.h"
#include "common/tokenizer/local.h"
#include "common/tokenizer/tokenizer.h"

namespace poolmark::quality {
namespace {

class Run {
 public:
  Run(const RunOptions& options, const RunContext& context)
      : options_(options), context_(context), directory_(options.out) {}

  Result<RunReport> Go() {
    Result<RunReport> report = Work();
    // A call that a stop ended is no refusal.
    if (absl::IsCancelled(report.status()) || absl::IsUnavailable(report.status())) {
      if (Interrupted()) return Finished();
    }
    return report;
  }

 private:
  Result<RunReport> Work() {
    POOLMARK_RETURN_IF_ERROR(Check());
    POOLMARK_RETURN_IF_ERROR(MakeDirs(options_.out));
    POOLMARK_ASSIGN_OR_RETURN(DirectoryLock lock, DirectoryLock::Take(options_.out));
    // Refuse another schema before any work.
    POOLMARK_ASSIGN_OR_RETURN(std::optional<Plan> existing, directory_.LoadPlan());
    POOLMARK_RETURN_IF_ERROR(directory_.CheckArms(Roles()));
    if (existing) {
      // Before a plan is made for nothing, which may take a minute and thousands of calls.
      const std::string differences = SettingsDifferences(options_.settings, existing->settings);
      if (!differences.empty()) return OtherPlan(differences);
    }
    POOLMARK_RETURN_IF_ERROR(MakePlan());
    if (Interrupted()) return Finished();
    if (existing) {
      if (existing->plan_fingerprint != plan_.plan_fingerprint) {
        return OtherPlan(PlanDifferences(plan_, *existing));
      }
    } else {
      plan_.created_at = IsoLocal(context_.clock->Wall());
      plan_.lmcache_version = Version();
      POOLMARK_RETURN_IF_ERROR(directory_.SavePlan(plan_));
      Note(absl::StrCat("plan: ", plan_.samples.size(), " questions, ", plan_.store_requests.size(),
                        " store requests, ", plan_.padding->prompt_tokens, " prompt tokens, fingerprint ",
                        plan_.plan_fingerprint));
    }
    if (!options_.reference_url.empty()) {
      for (int64_t i = 0; i < options_.reference_repeats; ++i)
        POOLMARK_RETURN_IF_ERROR(Pass("reference", i, options_.reference_url));
    }
    if (!options_.control_url.empty()) POOLMARK_RETURN_IF_ERROR(Pass("control", 0, options_.control_url));
    if (!options_.candidate_url.empty())
      POOLMARK_RETURN_IF_ERROR(Pass("candidate", 0, options_.candidate_url));
    return Finished();
  }

  Status OtherPlan(const std::string& differences) const {
    return Precondition(directory_.File("plan.json"), "is of another plan: " + differences,
                        "use the same settings, or another --out");
  }
  bool Interrupted() const { return context_.stop.stop_requested(); }
  void Note(const std::string& text) const {
    if (context_.note) context_.note(text);
  }
  Result<RunReport> Finished() {
    report_.interrupted = Interrupted();
    return report_;
  }

  Status Check() const {
    POOLMARK_RETURN_IF_ERROR(CheckSettings(options_.settings));
    if (options_.reference_url.empty() && options_.control_url.empty() && options_.candidate_url.empty()) {
      return InvalidInput("", "no arm to run", "give --reference-url, --control-url or --candidate-url");
    }
    if (options_.reference_repeats < 1) {
      return InvalidInput("--reference-repeats",
                          absl::StrCat("is ", options_.reference_repeats, ", at least 1 is needed"));
    }
    if (options_.request_timeout <= Nanoseconds(0))
      return InvalidInput("--timeout", "is 0, a time above 0 is needed");
    if (!options_.blend_metrics_url.empty() && options_.candidate_url.empty()) {
      return InvalidInput("--capture-blend-metrics", "is for the candidate, which is not run",
                          "give --candidate-url");
    }
    for (const std::string& url : {options_.reference_url, options_.control_url, options_.candidate_url}) {
      if (!url.empty()) POOLMARK_RETURN_IF_ERROR(http::ParseUrl(ApiBase(url)).status());
    }
    if (!options_.blend_metrics_url.empty()) {
      // Long before the pass that needs it.
      BlendCounters page(context_.client, options_.blend_metrics_url);
      POOLMARK_ASSIGN_OR_RETURN(const Counters counters, page.Read());
      if (page.page_was_empty())
        Note(absl::StrCat("warning: ", options_.blend_metrics_url,
                          " is an empty page: right for an exporter before its first event alone"));
      if (auto more = MoreThanLookedUp(counters))
        return InvalidInput(options_.blend_metrics_url,
                            *more + " since its server started: such counters cannot be believed",
                            "give the metrics page of the candidate's blend server");
    }
    return absl::OkStatus();
  }

  Result<std::unique_ptr<tokenizer::Tokenizer>> OpenTokenizer() const {
    if (!options_.tokenizer.empty()) return tokenizer::OpenLocal(options_.tokenizer);
    for (const std::string& url :
         {options_.tokenize_url, options_.reference_url, options_.control_url, options_.candidate_url}) {
      if (!url.empty())
        return tokenizer::OpenEndpoint(context_.client, ServerRoot(url), options_.settings.model,
                                       options_.api_key, context_.sleep);
    }
    return Internal("", "no arm to ask for tokens");
  }

  Status MakePlan() {
    std::string file = options_.dataset_file;
    if (file.empty()) {
      POOLMARK_ASSIGN_OR_RETURN(file, ResolveDataset(options_.settings.dataset));
    }
    POOLMARK_ASSIGN_OR_RETURN(const Dataset dataset, ReadDataset(file, options_.settings.num_samples));
    POOLMARK_ASSIGN_OR_RETURN(std::unique_ptr<tokenizer::Tokenizer> tokenizer, OpenTokenizer());
    Note(absl::StrCat("data set ", file, " (sha256 ", dataset.sha256.substr(0, 16), "), tokens by ",
                      tokenizer->Description()));
    if (dataset.skipped_records > 0) {
      Note(absl::StrCat(
          "warning: ", dataset.skipped_records, " of the ", dataset.records(),
          " records that were read cannot be used and were skipped (first: ", dataset.first_skipped, ")"));
    }
    Pace pace(context_, "plan");
    POOLMARK_ASSIGN_OR_RETURN(plan_,
                              BuildPlan(options_.settings, dataset.questions, tokenizer.get(), &notes_,
                                        [&](int64_t done, int64_t total) { pace.Step(done, total, 0); }));
    for (const std::string& warning : notes_.warnings) Note("warning: " + warning);
    if (const tokenizer::TokenizerCalls calls = tokenizer->Calls(); calls.sent_again > 0)
      Note(absl::StrCat("warning: ", tokenizer->Description(), " was asked again ", calls.sent_again,
                        calls.sent_again == 1 ? " time" : " times", " after errors that may pass, ",
                        calls.requests, " answers were needed"));
    if (const std::optional<int64_t> context = tokenizer->MaxModelTokens())
      return CheckContext(notes_, options_.settings, *context, tokenizer->Description());
    return absl::OkStatus();
  }

  // The roles whose passes this run replaces.
  std::vector<std::string> Roles() const {
    std::vector<std::string> roles;
    if (!options_.reference_url.empty()) roles.push_back("reference");
    if (!options_.control_url.empty()) roles.push_back("control");
    if (!options_.candidate_url.empty()) roles.push_back("candidate");
    return roles;
  }

  // A finished pass of this label with the same URL, when such are kept: one that analyze will read.
  bool Kept(const std::string& label, const std::string& url) const {
    if (!options_.resume || !directory_.HasArm(label)) return false;
    const Result<quality::Pass> pass = directory_.LoadPass(plan_, label, false);
    if (!pass.ok()) {
      Note(absl::StrCat(label, ": the pass in the directory cannot be kept, it is run again: ",
                        std::string(pass.status().message())));
      return false;
    }
    return pass->arm.url == url &&
           (label != "candidate" || pass->arm.blend_metrics_url == options_.blend_metrics_url);
  }

  // An engine that refused everything it was asked has shown nothing: that is no pass, and takes none away.
  Status CheckAnswered(const std::string& role, const quality::Pass& pass) const {
    const auto answered = [](const quality::Pass& p) {
      return std::any_of(p.answers.begin(), p.answers.end(), [](const Answer& a) { return a.successful; });
    };
    if (answered(pass)) return absl::OkStatus();
    const std::string& label = pass.arm.label;
    const bool stored = !plan_.store_requests.empty() && role != "reference" &&
                        pass.arm.store_failures < static_cast<int64_t>(plan_.store_requests.size());
    if (stored) {
      Note(absl::StrCat("warning: ", label, " took its store requests and answered not one of its ",
                        pass.answers.size(), " questions: every one scores 0"));
      return absl::OkStatus();
    }
    std::string stands;
    if (const Result<quality::Pass> earlier = directory_.LoadPass(plan_, label, false);
        earlier.ok() && answered(*earlier))
      stands = absl::StrCat(", the earlier pass of ", earlier->arm.finished_at, " stands");
    return Unavailable(pass.arm.url,
                       absl::StrCat("not one of the requests of ", label, " succeeded (",
                                    pass.requests && !pass.requests->troubled.empty()
                                        ? pass.requests->troubled.front().problem
                                        : std::string("no reason was given"),
                                    "): it is not saved", stands),
                       "see to the engine and run this arm again");
  }

  Status Pass(const std::string& role, int64_t run_index, const std::string& url) {
    if (Interrupted()) return absl::OkStatus();
    std::string label = ArmLabel(role, run_index);
    if (Kept(label, url)) {
      report_.kept.push_back(label);
      last_role_ = role;  // later passes of the role join this one
      return absl::OkStatus();
    }
    bool candidate = role == "candidate";
    ArmRunOptions arm_options;
    arm_options.sender = {url, options_.settings.model, TemplateKwargsJson(options_.settings.template_kwargs),
                          options_.api_key, options_.request_timeout};
    arm_options.stores = role != "reference";
    arm_options.blend_metrics_url = candidate ? options_.blend_metrics_url : "";
    arm_options.settle = options_.settle;
    arm_options.notes = &notes_;
    POOLMARK_ASSIGN_OR_RETURN(std::optional<quality::Pass> pass,
                              RunArm(plan_, role, run_index, arm_options, context_));
    if (!pass) return absl::OkStatus();  // interrupted: nothing of it is saved
    POOLMARK_RETURN_IF_ERROR(CheckAnswered(role, *pass));
    std::string text;
    for (const Answer& answer : pass->answers) {
      POOLMARK_ASSIGN_OR_RETURN(std::string line, EncodeAnswer(answer));
      text += line;
      if (!answer.successful) ++report_.failed_questions;
    }
    report_.failed_stores += pass->arm.store_failures;
    POOLMARK_RETURN_IF_ERROR(directory_.SavePass(pass->arm, text, pass->requests, last_role_ != role));
    last_role_ = role;
    report_.saved.push_back(label);
    return absl::OkStatus();
  }

  const RunOptions& options_;
  const RunContext& context_;
  Directory directory_;
  Plan plan_;
  PlanNotes notes_;
  std::string last_role_;
  RunReport report_;
};

}  // namespace

Result<RunReport> RunArms(const RunOptions& options, const RunContext& context) {
  return Run(options, context).Go();
}

}  // namespace poolmark::quality
