#include "common/quality/analyze.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/quality/counter_checks.h"
#include "common/quality/digests.h"
#include "common/quality/engagement.h"
#include "common/quality/scoring.h"
#include "common/quality/warnings.h"

namespace poolmark::quality {
namespace {

template <class T>
T& Slot(PerArm<T>& values, const std::string& label) {
  for (auto& [key, value] : values) {
    if (key == label) return value;
  }
  return values.emplace_back(label, T{}).second;
}

// Scores of one pass, question by question.
using Scores = std::vector<std::optional<double>>;

const JudgeRating* RatingOf(const VerdictSettings& settings, const JudgeTable& judge, const Sample& sample,
                            const std::string& answer) {
  if (sample.answers.empty()) return nullptr;
  auto found =
      judge.by_key.find(JudgeKey(*settings.judge_model, sample.question, answer, sample.answers.front()));
  return found == judge.by_key.end() ? nullptr : &found->second;
}

std::optional<double> ScoreOf(const VerdictSettings& settings, const JudgeTable* judge, const Sample& sample,
                              const std::string& answer) {
  if (answer.empty()) return 0.0;  // a missing answer scores 0 under every metric
  if (settings.metric == "match") return Matches(answer, sample.answers) ? 1.0 : 0.0;
  if (settings.metric == "f1") return BestF1(answer, sample.answers);
  const JudgeRating* rating = RatingOf(settings, *judge, sample, answer);
  return rating == nullptr ? std::nullopt : rating->score();
}

// Another string from the prompt: a whole-word phrase of a passage or of the question that is no gold
// (decision Q5).
bool IsWrongValue(const Sample& sample, const std::string& answer) {
  std::string phrase = Phrase(answer);
  if (phrase.empty()) return false;
  for (const std::string& gold : sample.answers) {
    if (Phrase(gold) == phrase) return false;
  }
  if (HoldsPhrase(Phrase(sample.question), phrase)) return true;
  return std::any_of(sample.documents.begin(), sample.documents.end(),
                     [&](const std::string& text) { return HoldsPhrase(Phrase(text), phrase); });
}

std::optional<std::string> LossTag(const Sample& sample, const std::string& answer,
                                   std::optional<double> candidate, std::optional<double> reference) {
  if (!candidate || !reference) return std::nullopt;
  if (*candidate == *reference) return "none";
  if (*candidate > *reference) return "candidate_higher";
  if (answer.empty()) return "empty";
  if (IsAbstention(answer)) return "abstention";
  return IsWrongValue(sample, answer) ? "wrong_value" : "wording";
}

RowReuse ReuseOf(const Sample& sample, const std::optional<Counters>& counters) {
  RowReuse reuse;
  reuse.expected_tokens = sample.expected_reused_tokens;
  if (!counters) return reuse;
  reuse.prefix_tokens = counters->prefix();
  reuse.blended_tokens = counters->non_prefix_hit_tokens;
  if (*reuse.prefix_tokens == 0 && *reuse.blended_tokens == 0) {
    reuse.kind = "none";
  } else {
    reuse.kind = *reuse.prefix_tokens > *reuse.blended_tokens ? "prefix" : "blended";
  }
  return reuse;
}

std::vector<EvidencePlace> EvidenceOf(const Sample& sample) {
  std::vector<EvidencePlace> out;
  for (const PassageRecord& p : sample.passages) {
    if (p.is_evidence) out.push_back({p.passage_id, p.origin, p.stored_position, p.measured_position});
  }
  std::stable_sort(out.begin(), out.end(),
                   [](const auto& a, const auto& b) { return a.measured_position < b.measured_position; });
  return out;
}

// The whole computation; holds references to the inputs while it runs.
class Analyzer {
 public:
  Analyzer(const LoadedDirectory& directory, const VerdictSettings& settings, const JudgeTable* judge)
      : path_(directory.path),
        plan_(directory.plan),
        passes_(directory.passes),
        settings_(settings),
        judge_(judge) {
    out_.warnings = directory.warnings;
  }

  Result<Analysis> Run() {
    POOLMARK_RETURN_IF_ERROR(CheckMetric());
    POOLMARK_RETURN_IF_ERROR(FindArms());
    ScoreAll();
    BuildRows();
    POOLMARK_RETURN_IF_ERROR(Describe());
    Compare();
    Reuse();
    out_.summary.engagement = EngagementOf(plan_, passes_[candidate_], settings_);
    Decide();
    Extra();
    for (std::string& warning :
         WarningsOf(plan_, passes_, passes_[candidate_], out_.summary, settings_, judge_))
      out_.warnings.push_back(std::move(warning));
    return std::move(out_);
  }

 private:
  Status CheckMetric() const {
    const std::string& metric = settings_.metric;
    if (metric != "match" && metric != "f1" && metric != "judge")
      return InvalidInput("verdict_metric",
                          absl::StrCat("is '", metric, "', one of match, f1, judge is needed"));
    if (metric == "judge" && !settings_.judge_model)
      return InvalidInput("judge_model", "is missing, the metric judge needs it");
    if (metric == "judge" && judge_ == nullptr) return Internal("", "no judge ratings were given");
    return absl::OkStatus();
  }

  Status FindArms() {
    auto index = [&](const std::string& label) {
      for (size_t i = 0; i < passes_.size(); ++i) {
        if (passes_[i].arm.label == label) return std::optional(i);
      }
      return std::optional<size_t>();
    };
    std::optional<size_t> reference = index("reference_1");
    std::optional<size_t> candidate = index("candidate");
    if (!reference || !candidate) {
      return Precondition(
          Directory(path_).File(absl::StrCat("arm_", reference ? "candidate" : "reference_1", ".json")),
          "is missing: that pass has not finished",
          "run it into this directory first; analyze compares the candidate with reference_1");
    }
    reference_ = *reference;
    candidate_ = *candidate;
    second_reference_ = index("reference_2");
    return absl::OkStatus();
  }

  void ScoreAll() {
    size_t n = plan_.samples.size();
    scores_.assign(passes_.size(), Scores(n));
    scored_.assign(n, true);
    for (size_t i = 0; i < n; ++i) {
      for (size_t a = 0; a < passes_.size(); ++a) {
        const std::string& answer = passes_[a].answers[i].answer;
        // Most arms give the same answer: score it once.
        bool same = a > 0 && answer == passes_[a - 1].answers[i].answer;
        scores_[a][i] = same ? scores_[a - 1][i] : ScoreOf(settings_, judge_, plan_.samples[i], answer);
        if (!scores_[a][i]) scored_[i] = false;
      }
    }
  }

  void BuildRows() {
    for (size_t i = 0; i < plan_.samples.size(); ++i) {
      const Sample& sample = plan_.samples[i];
      Row row;
      row.qid = sample.qid;
      row.gold = sample.answers;
      if (settings_.metric == "judge") row.match.emplace();
      for (size_t a = 0; a < passes_.size(); ++a) {
        const std::string& label = passes_[a].arm.label;
        const std::string& answer = passes_[a].answers[i].answer;
        row.scores.emplace_back(label, scores_[a][i]);
        row.answers.emplace_back(label, answer);
        if (row.match)
          row.match->emplace_back(label, !answer.empty() && Matches(answer, sample.answers) ? 1.0 : 0.0);
      }
      const Answer& candidate = passes_[candidate_].answers[i];
      // Where the pass was not measured, counters of a question are told (Directory::Load) and not taken.
      static const std::optional<Counters> kNone;
      const std::optional<Counters>& counters =
          passes_[candidate_].arm.engagement_measured ? candidate.counters : kNone;
      row.loss_tag = LossTag(sample, candidate.answer, scores_[candidate_][i], scores_[reference_][i]);
      if (second_reference_ && scores_[reference_][i] && scores_[*second_reference_][i]) {
        row.reference_flipped = *scores_[reference_][i] != *scores_[*second_reference_][i];
      }
      // A look-up that the server records late lands here with another question's: a share is 0 to 1.
      if (counters) row.blend_share = std::clamp(counters->blend_share(), 0.0, 1.0);
      row.reuse = ReuseOf(sample, counters);
      row.evidence = EvidenceOf(sample);
      out_.rows.push_back(std::move(row));
    }
  }

  // What is copied from plan and arms.
  Status Describe() {
    Summary& s = out_.summary;
    POOLMARK_ASSIGN_OR_RETURN(s.run_fingerprint,
                              RunFingerprint(plan_.settings_json, plan_.prompts_digest, settings_));
    s.plan_fingerprint = plan_.plan_fingerprint;
    s.settings_json = plan_.settings_json;
    s.verdict_settings = settings_;
    s.blend_metrics_url = passes_[candidate_].arm.blend_metrics_url;
    s.num_questions = static_cast<int64_t>(plan_.samples.size());
    s.num_store_requests = static_cast<int64_t>(plan_.store_requests.size());
    s.padding = plan_.padding;
    for (const Pass& pass : passes_) {
      const std::string& label = pass.arm.label;
      s.arms.push_back(pass.arm);
      if (pass.arm.role == "reference") ++s.reference_repeats;
      s.store_failures.emplace_back(label, pass.arm.store_failures);
      ArmCounts counts;
      for (const Answer& answer : pass.answers) {
        if (answer.answer.empty()) {
          ++counts.empty;
          continue;
        }
        ++counts.answered;
        if (IsAbstention(answer.answer)) ++counts.abstained;
      }
      s.arm_counts.emplace_back(label, counts);
    }
    int64_t passages = 0;
    int64_t earlier = 0;
    for (const Sample& sample : plan_.samples) {
      if (sample.evidence_source == "dataset") ++s.evidence_dataset;
      if (sample.evidence_source == "answer_string") ++s.evidence_answer_string;
      if (sample.evidence_source == "none") ++s.evidence_none;
      for (const PassageRecord& p : sample.passages) {
        ++passages;
        if (!p.measured_earlier_in.empty()) ++earlier;
      }
    }
    if (passages > 0) s.measured_earlier_share = static_cast<double>(earlier) / static_cast<double>(passages);
    return absl::OkStatus();
  }

  // Scores of arm `a` over the questions every pass was scored on and `keep` accepts.
  template <class Keep>
  std::vector<double> Values(size_t a, const Keep& keep) const {
    std::vector<double> out;
    for (size_t i = 0; i < scored_.size(); ++i) {
      if (scored_[i] && keep(i)) out.push_back(*scores_[a][i]);
    }
    return out;
  }

  void Compare() {
    Summary& s = out_.summary;
    auto all = [](size_t) { return true; };
    std::vector<double> reference = Values(reference_, all);
    s.unscored_questions = s.num_questions - static_cast<int64_t>(reference.size());
    for (size_t a = 0; a < passes_.size(); ++a) {
      if (a == reference_) continue;
      ArmComparison comparison{passes_[a].arm.label, ComparePaired(Values(a, all), reference)};
      if (a == candidate_) {
        s.candidate = std::move(comparison);
      } else {
        s.others.push_back(std::move(comparison));
      }
    }
    int64_t pairs = 0;
    int64_t flips = 0;
    for (const Row& row : out_.rows) {
      if (row.loss_tag) ++Slot(s.loss_tags, *row.loss_tag);
      if (row.reference_flipped) {
        ++pairs;
        if (*row.reference_flipped) ++flips;
      }
    }
    if (second_reference_) {
      s.reference_flip_rate = pairs > 0 ? static_cast<double>(flips) / static_cast<double>(pairs) : 0.0;
    }
  }

  void Reuse() {
    const Arm& candidate = passes_[candidate_].arm;
    if (!candidate.counters) return;
    ReuseSummary reuse;
    reuse.expected_tokens = ExpectedTokens(plan_);
    reuse.observed_prefix_tokens = candidate.counters->prefix();
    reuse.observed_blended_tokens = candidate.counters->non_prefix_hit_tokens;
    reuse.observed_tokens = candidate.counters->reused();
    if (reuse.expected_tokens && *reuse.expected_tokens > 0) {
      reuse.observed_over_expected = reuse.observed_tokens / static_cast<double>(*reuse.expected_tokens);
    }
    for (const char* kind : {"prefix", "blended", "none"}) {
      auto in_group = [&](size_t i) { return out_.rows[i].reuse.kind == kind; };
      std::vector<double> scores = Values(candidate_, in_group);
      if (scores.empty()) continue;
      reuse.groups.push_back(
          {kind, static_cast<int64_t>(scores.size()), ComparePaired(scores, Values(reference_, in_group))});
    }
    out_.summary.reuse = std::move(reuse);
  }

  void Decide() {
    Summary& s = out_.summary;
    for (const auto& [label, failures] : s.store_failures) {
      if (failures > 0) {
        s.invalid_reasons.push_back(absl::StrCat("store_failures: ", failures, " of ", s.num_store_requests,
                                                 " store requests of ", label,
                                                 " failed, so not everything was cached"));
      }
    }
    std::optional<std::string> engagement =
        WhyNotEngaged(plan_, passes_[candidate_], s.engagement, settings_);
    if (engagement) s.invalid_reasons.push_back(*std::move(engagement));
    if (s.unscored_questions * 20 > s.num_questions) {
      s.invalid_reasons.push_back(absl::StrCat("unscored: ", s.unscored_questions, " of ", s.num_questions,
                                               " questions have no score in some pass, more than 5%"));
    }
    if (judge_ != nullptr && judge_->insane) {
      s.invalid_reasons.push_back(absl::StrCat("judge_sanity: ", *judge_->insane));
    }
    const Pass& candidate = passes_[candidate_];
    if (const std::vector<std::string> problems = ImpossibleCounters(candidate);
        s.engagement.measured && !problems.empty())
      s.invalid_reasons.push_back(absl::StrCat("impossible_counters: ", absl::StrJoin(problems, "; "),
                                               ": what the metrics page told cannot be believed"));
    if (std::optional<std::string> reset = CounterReset(candidate))
      s.invalid_reasons.push_back(*std::move(reset));
    if (!s.invalid_reasons.empty()) return;
    quality::Decision decision =
        quality::Decide(s.candidate.figures.delta, s.candidate.figures.standard_error,
                        s.num_questions - s.unscored_questions, settings_.tolerance);
    s.verdict = decision.verdict;
    s.samples_needed = decision.samples_needed;
  }

  void Extra() {
    ExtraStatistics& x = out_.statistics;
    double noise = 0;
    int64_t noise_pairs = 0;
    for (size_t i = 0; i < scored_.size(); ++i) {
      if (!scored_[i]) continue;
      ++x.questions;
      double reference = *scores_[reference_][i];
      if (*scores_[candidate_][i] < reference) ++x.losses;
      if (*scores_[candidate_][i] > reference) ++x.wins;
      for (size_t a = 0; a < passes_.size(); ++a) {
        if (a == reference_ || passes_[a].arm.role != "reference") continue;
        noise += std::abs(*scores_[a][i] - reference);
        ++noise_pairs;
      }
    }
    if (noise_pairs > 0) x.reference_noise = noise / static_cast<double>(noise_pairs);
    x.sign_test_p = SignTest(x.losses, x.wins);
    x.loss_rate_upper_95 = RateUpperBound(x.losses, x.questions);
    const PairedComparison& figures = out_.summary.candidate.figures;
    if (figures.standard_error) {
      x.delta_low_95 = figures.delta - 1.96 * *figures.standard_error;
      x.delta_high_95 = figures.delta + 1.96 * *figures.standard_error;
    }
    for (const Pass& pass : passes_) {
      std::optional<RequestTotals> totals;
      if (pass.requests)
        totals = RequestTotals{pass.requests->requests, pass.requests->sent_again(), pass.requests->failed()};
      x.requests.emplace_back(pass.arm.label, totals);
    }
    if (judge_ != nullptr) Disagreements();
  }

  // Of the two prompts, over the answers of these passes: the cache may hold others', also of other judges.
  void Disagreements() {
    ExtraStatistics& x = out_.statistics;
    std::set<const JudgeRating*> counted;
    for (size_t i = 0; i < plan_.samples.size(); ++i) {
      for (const Pass& pass : passes_) {
        const std::string& answer = pass.answers[i].answer;
        if (answer.empty()) continue;
        const JudgeRating* rating = RatingOf(settings_, *judge_, plan_.samples[i], answer);
        if (rating == nullptr || !rating->answer_first || !rating->reference_first) continue;
        if (!counted.insert(rating).second) continue;
        ++x.judged_twice;
        if (*rating->answer_first != *rating->reference_first) ++x.judge_disagreements;
        x.judge_order_bias += *rating->answer_first - *rating->reference_first;
      }
    }
    if (x.judged_twice > 0) x.judge_order_bias /= static_cast<double>(x.judged_twice);
  }

  const std::string& path_;
  const Plan& plan_;
  const std::vector<Pass>& passes_;
  const VerdictSettings& settings_;
  const JudgeTable* judge_;
  size_t reference_ = 0;
  size_t candidate_ = 0;
  std::optional<size_t> second_reference_;
  std::vector<Scores> scores_;  // [pass][question]
  std::vector<bool> scored_;    // by every pass
  Analysis out_;
};

}  // namespace

std::optional<double> JudgeRating::score() const {
  if (cached_score) return cached_score;
  if (answer_first && reference_first) return (*answer_first + *reference_first) / 2;
  return answer_first ? answer_first : reference_first;
}

Result<Analysis> Analyze(const LoadedDirectory& directory, const VerdictSettings& settings,
                         const JudgeTable* judge) {
  return Analyzer(directory, settings, judge).Run();
}

}  // namespace poolmark::quality
