#include "common/quality/warnings.h"

#include <algorithm>
#include <cstdio>

#include "absl/strings/str_cat.h"
#include "common/quality/engagement.h"

namespace poolmark::quality {
namespace {

// More requests sent again than one in so many are worth a warning.
constexpr int64_t kManyShare = 20;

constexpr char kUnrated[] = "the judge gave no rating to ";

class Warner {
 public:
  Warner(const Plan& plan, const std::vector<Pass>& passes, const Pass& candidate, const Summary& summary,
         const VerdictSettings& settings, const JudgeTable* judge)
      : plan_(plan),
        passes_(passes),
        candidate_(candidate),
        summary_(summary),
        settings_(settings),
        judge_(judge) {}

  std::vector<std::string> Run() {
    const Summary& s = summary_;
    auto warn = [&](std::string text) { out_.push_back(std::move(text)); };
    if (s.reference_flip_rate && *s.reference_flip_rate >= settings_.tolerance &&
        *s.reference_flip_rate > 0) {
      warn(absl::StrCat("reference_2 scores differently from reference_1 on ", *s.reference_flip_rate * 100,
                        "% of the questions, as much as the tolerance: the noise may hide the effect"));
    }
    if (std::optional<std::string> nothing = NothingToLose(s)) warn(*nothing);
    for (const auto& [label, counts] : s.arm_counts) {
      if (counts.empty * 20 > s.num_questions) {
        warn(absl::StrCat(
            label, " gave no complete answer to ", counts.empty, " of ", s.num_questions,
            " questions: raise --max-output-tokens if answers are cut off, or see its responses"));
      }
    }
    WarnFew();
    if (s.evidence_none * 2 > s.num_questions) {
      warn(absl::StrCat(
          s.evidence_none, " of ", s.num_questions,
          " questions have no passage that holds the answer: the golds may not fit the passages"));
    }
    for (const Arm& arm : s.arms) {
      if (arm.engine_version != s.arms.front().engine_version ||
          arm.lmcache_version != s.arms.front().lmcache_version) {
        warn(absl::StrCat(arm.label, " ran with other versions than ", s.arms.front().label,
                          ": the difference may come from there"));
      }
    }
    if (std::none_of(s.arms.begin(), s.arms.end(), [](const Arm& arm) { return arm.role == "control"; })) {
      warn(
          "there is no control pass: a loss may come from the engine's cache as well as from the reuse on "
          "trial");
    }
    for (const Pass& pass : passes_) WarnTrouble(pass);
    WarnWarm();
    WarnUnread();
    WarnOthers();
    WarnUnrated();
    if (!s.engagement.measured)
      warn("whether the candidate reused anything was not measured (run it with --capture-blend-metrics)");
    if (s.engagement.stale_chunks > 0) {
      warn(absl::StrCat(
          s.engagement.stale_chunks,
          " chunks were matched but their KV was gone: the cache may be too small for the plan"));
    }
    return std::move(out_);
  }

 private:
  // Requests that failed, or many that were answered only when sent again: the engine was in trouble.
  void WarnTrouble(const Pass& pass) {
    if (!pass.requests || pass.requests->troubled.empty()) return;
    const RequestLog& log = *pass.requests;
    auto example = [](const TroubledRequest& request) {
      return absl::StrCat(" (first ", request.request_id, ": ", request.problem, ")");
    };
    if (log.failed() > 0) {
      auto first = std::find_if(log.troubled.begin(), log.troubled.end(),
                                [](const TroubledRequest& request) { return !request.successful; });
      out_.push_back(absl::StrCat(pass.arm.label, ": ", log.failed(), " of ", log.requests,
                                  " requests failed", example(*first)));
    }
    if (log.sent_again() * kManyShare > log.requests) {
      auto first = std::find_if(log.troubled.begin(), log.troubled.end(),
                                [](const TroubledRequest& request) { return request.attempts > 1; });
      out_.push_back(absl::StrCat(pass.arm.label, ": requests were sent again ", log.sent_again(), " times, ",
                                  log.requests, " were to be sent", example(*first),
                                  ": its answers may come from an engine in trouble"));
    }
  }

  // Without any difference the standard error is 0 however few the questions are.
  void WarnFew() {
    const int64_t questions = summary_.num_questions - summary_.unscored_questions;
    const PairedComparison& figures = summary_.candidate.figures;
    if (summary_.verdict != Verdict::kPass || figures.delta != 0 || figures.standard_error != 0.0) return;
    const double bound = RateUpperBound(0, questions);
    if (bound <= settings_.tolerance) return;
    char percent[32];
    std::snprintf(percent, sizeof percent, "%.1f%%", bound * 100);
    out_.push_back(absl::StrCat("no difference in ", questions,
                                " questions still leaves a loss rate of up to ", percent,
                                " (at 95%), more than the tolerance: ask more of them"));
  }

  // A cache that knew the plan's chunks before: what it serves may come from an earlier run.
  void WarnWarm() {
    if (!candidate_.requests || !candidate_.requests->chunks_registered_by_stores) return;
    if (candidate_.arm.store_failures > 0) return;  // those registered none
    if (auto warm = WarmStart(plan_, *candidate_.requests->chunks_registered_by_stores))
      out_.push_back("candidate: " + *warm);
  }

  // The server looks up what it is sent, so more than the prompts hold came from somebody else.
  void WarnOthers() {
    if (!summary_.engagement.measured || !plan_.padding) return;
    if (candidate_.requests && candidate_.requests->sent_again() > 0) return;  // was looked up again
    const double looked_up = candidate_.arm.counters->requested_tokens;
    const auto sent = static_cast<double>(plan_.padding->prompt_tokens);
    if (looked_up <= sent) return;
    out_.push_back(absl::StrCat("the blend server looked up ", static_cast<int64_t>(looked_up),
                                " tokens during the pass, its prompts have ", plan_.padding->prompt_tokens,
                                ": the counters hold other requests too, give it no other work"));
  }

  void WarnUnrated() {
    if (judge_ == nullptr || judge_->unrated + judge_->not_asked == 0) return;
    std::string text = absl::StrCat(kUnrated, judge_->unrated, judge_->unrated == 1 ? " answer" : " answers");
    if (judge_->not_asked > 0)
      absl::StrAppend(&text, " and was not asked about ", judge_->not_asked, " more, as it stayed silent");
    if (!judge_->problem.empty()) absl::StrAppend(&text, "; its last problem: ", judge_->problem);
    out_.push_back(std::move(text));
  }

  // Counters that could not be read after a question.
  void WarnUnread() {
    if (!summary_.engagement.measured) return;
    int64_t unread = 0;
    std::string first;
    for (const Answer& answer : candidate_.answers) {
      if (answer.counters) continue;
      if (unread++ == 0) first = answer.request_id;
    }
    if (unread == 0) return;
    const std::optional<std::string> last = LastRead(candidate_);
    out_.push_back(absl::StrCat(
        "the counters could not be read after ", unread, unread == 1 ? " question" : " questions", " (first ",
        first, "): their tokens count with the next reading",
        last ? absl::StrCat("; the last was after ", *last, ", and what came later is not counted")
             : std::string()));
  }

  const Plan& plan_;
  const std::vector<Pass>& passes_;
  const Pass& candidate_;
  const Summary& summary_;
  const VerdictSettings& settings_;
  const JudgeTable* judge_;
  std::vector<std::string> out_;
};

}  // namespace

std::optional<std::string> NothingToLose(const Summary& s) {
  if (s.num_questions <= s.unscored_questions) return std::nullopt;
  if (s.candidate.figures.mean_score - s.candidate.figures.delta != 0) return std::nullopt;
  return "reference_1 scores 0 on every question, so nothing can be lost: the verdict says nothing about "
         "reuse";
}

bool IsOfTheMoment(std::string_view warning) {
  return warning.ends_with("ignored") || warning.starts_with(kUnrated);
}

std::vector<std::string> WarningsOf(const Plan& plan, const std::vector<Pass>& passes, const Pass& candidate,
                                    const Summary& summary, const VerdictSettings& settings,
                                    const JudgeTable* judge) {
  return Warner(plan, passes, candidate, summary, settings, judge).Run();
}

}  // namespace poolmark::quality
