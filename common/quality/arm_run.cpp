#include "common/quality/arm_run.h"

#include "absl/strings/str_cat.h"
#include "common/base/time_format.h"
#include "common/base/version.h"
#include "common/quality/codec.h"
#include "common/quality/counter_checks.h"
#include "common/quality/engagement.h"
#include "common/quality/extract.h"

namespace poolmark::quality {
namespace {

constexpr int kCounterTries = 5;

class ArmRun {
 public:
  ArmRun(const Plan& plan, const std::string& role, int64_t run_index, const ArmRunOptions& options,
         const RunContext& context)
      : plan_(plan),
        options_(options),
        context_(context),
        counters_(context.client, options.blend_metrics_url),
        sender_(context.client, context.clock, context.sleep, context.stop, options.sender) {
    Arm& arm = pass_.arm;
    arm.plan_fingerprint = plan.plan_fingerprint;
    arm.role = role;
    arm.run_index = run_index;
    arm.label = ArmLabel(role, run_index);
    arm.url = options.sender.url;
    arm.blend_metrics_url = options.blend_metrics_url;
    arm.lmcache_version = Version();
    arm.engagement_measured = !options.blend_metrics_url.empty();
    pass_.requests.emplace();
  }

  Result<std::optional<Pass>> Go() {
    Arm& arm = pass_.arm;
    arm.started_at = IsoLocal(context_.clock->Wall());
    POOLMARK_ASSIGN_OR_RETURN(const std::optional<int64_t> context_tokens, sender_.CheckEngine());
    if (context_tokens)
      POOLMARK_RETURN_IF_ERROR(
          CheckContext(*options_.notes, plan_.settings, *context_tokens, options_.sender.url));
    arm.engine_version = sender_.EngineVersion();
    if (arm.engagement_measured) {
      POOLMARK_ASSIGN_OR_RETURN(last_, ReadCounters());
    }
    if (options_.stores) Store();
    if (arm.engagement_measured) {
      // The counters cover the measured questions: what the store requests looked up is no reuse, and their
      // last events land within the delay.
      context_.sleep(options_.settle);
      POOLMARK_ASSIGN_OR_RETURN(start_, ReadCounters());
      POOLMARK_RETURN_IF_ERROR(CheckPage());
      if (options_.stores) POOLMARK_RETURN_IF_ERROR(CheckStores(Difference(start_, last_)));
      last_ = start_;
    }
    POOLMARK_RETURN_IF_ERROR(Measure());
    if (context_.stop.stop_requested()) return std::optional<Pass>();
    if (arm.engagement_measured) {
      context_.sleep(options_.settle);
      Result<Counters> end = ReadCounters();
      if (end.ok()) {
        arm.counters = Difference(*end, start_);
      } else if (!last_read_.empty()) {
        arm.counters = Difference(last_, start_);
        Note(absl::StrCat("warning: the counters could not be read at the end (",
                          std::string(end.status().message()),
                          "): those of the pass are the last reading, after ", last_read_));
      } else {
        return NoReading("during the pass", std::string(end.status().message()));
      }
    }
    for (const std::string& problem : ImpossibleCounters(pass_))
      Note(absl::StrCat("warning: counters: ", problem,
                        ": they cannot be believed, analyze will say INVALID"));
    arm.finished_at = IsoLocal(context_.clock->Wall());
    arm.num_questions = static_cast<int64_t>(pass_.answers.size());
    RequestLog& log = *pass_.requests;
    log.label = arm.label;
    log.started_at = arm.started_at;
    log.finished_at = arm.finished_at;
    if (const int64_t again = log.sent_again(); again > 0)
      Note(absl::StrCat("warning: requests were sent again ", again, again == 1 ? " time" : " times",
                        " after errors that may pass (requests_", arm.label, ".json)"));
    return std::optional<Pass>(std::move(pass_));
  }

 private:
  // The pass cannot do without this reading: several tries.
  Result<Counters> ReadCounters() {
    Result<Counters> read = counters_.Read();
    for (int i = 1; i < kCounterTries && !read.ok() && !context_.stop.stop_requested(); ++i) {
      context_.sleep(std::chrono::seconds(1));
      read = counters_.Read();
    }
    return read;
  }

  void Store() {
    Pace pace(context_, pass_.arm.label + " store");
    int64_t total = static_cast<int64_t>(plan_.store_requests.size());
    int64_t done = 0;
    for (const StoreRequest& store : plan_.store_requests) {
      SendOutcome outcome = sender_.Send(store.messages, 1);
      if (context_.stop.stop_requested()) return;
      Log(store.request_id, outcome);
      if (!outcome.successful) {
        if (pass_.arm.store_failures++ == 0) Note(absl::StrCat(store.request_id, " failed: ", outcome.error));
      }
      pace.Step(++done, total, pass_.arm.store_failures);
    }
  }

  // An exporter may show nothing before its first event, which may be late. Behind the store requests a page
  // that stays empty is no metrics page.
  Status CheckPage() {
    if (!options_.stores || pass_.arm.store_failures > 0) return absl::OkStatus();
    for (int i = 1; counters_.page_was_empty(); ++i) {
      if (context_.stop.stop_requested()) return absl::OkStatus();
      if (i == kCounterTries) {
        return Unavailable(options_.blend_metrics_url,
                           absl::StrCat("is an empty page, also after the store requests of ",
                                        pass_.arm.label, ": no question was sent"),
                           "give the metrics page of the candidate's blend server");
      }
      context_.sleep(std::chrono::seconds(1));
      POOLMARK_ASSIGN_OR_RETURN(start_, ReadCounters());
    }
    return absl::OkStatus();
  }

  // The blend server's counters over the store requests, before anything is measured.
  Status CheckStores(const Counters& stores) {
    for (const auto& [name, member] : kCounterFields) {
      if (stores.*member < 0)
        return Unavailable(options_.blend_metrics_url,
                           absl::StrCat(name, " fell while the store requests of ", pass_.arm.label,
                                        " were sent: the blend server was restarted, what it held is lost"),
                           "run this arm again");
    }
    if (context_.stop.stop_requested()) return absl::OkStatus();
    pass_.requests->chunks_registered_by_stores = stores.fingerprints_registered;
    if (pass_.arm.store_failures > 0) return absl::OkStatus();  // those registered none
    if (auto warm = WarmStart(plan_, stores.fingerprints_registered)) Note("warning: " + *warm);
    return absl::OkStatus();
  }

  Status Measure() {
    Pace pace(context_, pass_.arm.label);
    int64_t total = static_cast<int64_t>(plan_.samples.size());
    int64_t failed = 0;
    for (const Sample& sample : plan_.samples) {
      if (context_.stop.stop_requested()) return absl::OkStatus();
      SendOutcome outcome = sender_.Send(sample.messages, plan_.settings.max_output_tokens);
      if (context_.stop.stop_requested()) return absl::OkStatus();
      Log(sample.request_id, outcome);
      Answer answer;
      answer.qid = sample.qid;
      answer.request_id = sample.request_id;
      answer.successful = outcome.successful;
      answer.response = std::move(outcome.response);
      answer.answer = outcome.successful ? ExtractAnswer(answer.response) : "";
      answer.ttft_seconds = outcome.ttft_seconds;
      answer.num_output_tokens = outcome.num_output_tokens;
      if (pass_.arm.engagement_measured) answer.counters = SinceLast(sample.request_id);
      if (!outcome.successful && failed++ == 0)
        Note(absl::StrCat(sample.request_id, " failed: ", outcome.error));
      pass_.answers.push_back(std::move(answer));
      pace.Step(static_cast<int64_t>(pass_.answers.size()), total, failed);
      // Nothing of the pass would be worth keeping: better now than after hours.
      if (pass_.arm.engagement_measured && last_read_.empty() && pass_.answers.size() == kWindow)
        return NoReading(absl::StrCat("not once after the first ", kWindow, " questions"), unreadable_);
      if (pass_.arm.engagement_measured && pass_.answers.size() == kWindow) WarnEarly();
    }
    return absl::OkStatus();
  }

  // So that nobody waits hours for a verdict that will be INVALID.
  void WarnEarly() const {
    if (auto more = MoreThanLookedUp(Difference(last_, start_)))
      Note(absl::StrCat("warning: counters: ", *more, " in the first ", kWindow,
                        " questions: ", options_.blend_metrics_url, " cannot be believed"));
  }

  Status NoReading(const std::string& when, const std::string& why) const {
    return Unavailable(
        options_.blend_metrics_url,
        absl::StrCat("could not be read ", when, " of ", pass_.arm.label, ", which is lost: ", why),
        "see to the metrics page and run this arm again");
  }

  // This question's share. A reading that fails leaves null here and lands in the next question's.
  std::optional<Counters> SinceLast(const std::string& request_id) {
    Result<Counters> now = counters_.Read();
    if (!now.ok()) {
      if (context_.stop.stop_requested()) return std::nullopt;  // nothing of the pass is kept
      if (unreadable_.empty()) Note(absl::StrCat("counters: ", std::string(now.status().message())));
      unreadable_ = std::string(now.status().message());
      return std::nullopt;
    }
    Counters delta = Difference(*now, last_);
    last_ = *now;
    last_read_ = request_id;
    return delta;
  }

  void Log(const std::string& request_id, const SendOutcome& outcome) {
    RequestLog& log = *pass_.requests;
    ++log.requests;
    if (outcome.attempts > 1 || !outcome.successful)
      log.troubled.push_back({request_id, outcome.attempts, outcome.successful, outcome.problem});
  }

  void Note(const std::string& text) const {
    if (context_.note) context_.note(absl::StrCat(pass_.arm.label, ": ", text));
  }

  const Plan& plan_;
  const ArmRunOptions& options_;
  const RunContext& context_;
  BlendCounters counters_;
  Sender sender_;
  Counters start_;  // before the first question
  Counters last_;
  std::string last_read_;   // the question after which they were read, of this pass
  std::string unreadable_;  // why, the last time that they could not be read
  Pass pass_;
};

}  // namespace

Pace::Pace(const RunContext& context, std::string stage)
    : context_(context), stage_(std::move(stage)), start_(context.clock->Steady()) {}

void Pace::Step(int64_t done, int64_t total, int64_t failed) {
  if (!context_.progress) return;
  Nanoseconds now = context_.clock->Steady();
  if (done < total && done > 1 && now - last_ < std::chrono::milliseconds(500)) return;
  last_ = now;
  RunProgress progress{stage_, done, total, failed, std::nullopt};
  if (done > 0) progress.left = (now - start_) / done * (total - done);
  context_.progress(progress);
}

Result<std::optional<Pass>> RunArm(const Plan& plan, const std::string& role, int64_t run_index,
                                   const ArmRunOptions& options, const RunContext& context) {
  return ArmRun(plan, role, run_index, options, context).Go();
}

}  // namespace poolmark::quality
