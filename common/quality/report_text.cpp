#include "common/quality/report_text.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "common/base/json.h"

namespace poolmark::quality {
namespace {

std::string PlusMinus(const PairedComparison& figures) {
  return figures.standard_error ? absl::StrCat(" +- ", Fixed3(2 * *figures.standard_error))
                                : " (no standard error)";
}

template <class T>
const T* Find(const PerArm<T>& values, const std::string& label) {
  for (const auto& [key, value] : values) {
    if (key == label) return &value;
  }
  return nullptr;
}

std::string Padded(std::string text, size_t width) {
  if (text.size() < width) text.append(width - text.size(), ' ');
  return text;
}

void ArmLine(const Analysis& analysis, const std::string& label, double mean, const PairedComparison* against,
             std::string* out) {
  const Summary& s = analysis.summary;
  const bool scored = s.num_questions > s.unscored_questions;
  absl::StrAppend(out, "  ", Padded(Printable(label), 12),
                  scored ? " mean " + Fixed3(mean) : std::string(" not scored"));
  if (against != nullptr && scored)
    absl::StrAppend(out, "  delta ", Fixed3(against->delta), PlusMinus(*against));
  if (const ArmCounts* counts = Find(s.arm_counts, label)) {
    absl::StrAppend(out, "  answered ", counts->answered, ", empty ", counts->empty, ", abstained ",
                    counts->abstained);
  }
  const std::optional<RequestTotals>* totals = Find(analysis.statistics.requests, label);
  if (totals != nullptr && *totals && (*totals)->failed > 0)
    absl::StrAppend(out, ", ", (*totals)->failed, " requests failed");
  if (totals != nullptr && *totals && (*totals)->sent_again > 0)
    absl::StrAppend(out, ", sent again ", (*totals)->sent_again);
  absl::StrAppend(out, "\n");
}

// "(no complete answer)", or how the request failed where the pass kept that.
std::string WhyEmpty(const LoadedDirectory& directory, const std::string& label, const Sample* sample) {
  for (const Pass& pass : directory.passes) {
    if (pass.arm.label != label || !pass.requests || sample == nullptr) continue;
    for (const TroubledRequest& request : pass.requests->troubled) {
      if (request.request_id == sample->request_id && !request.successful)
        return absl::StrCat("(the request failed: ", Printable(request.problem), ")");
    }
  }
  return "(no complete answer)";
}

std::string EngagementLine(const Summary& s) {
  const Engagement& e = s.engagement;
  if (!e.measured) return "  reuse: not measured\n";
  std::string out = absl::StrCat("  reuse: ", Percent(e.blend_share),
                                 " of looked-up tokens blended, lowest window ", Percent(e.min_window_share));
  if (e.gate == "reuse") {
    absl::StrAppend(&out, "; reused over expected ", e.reuse_ratio ? Fixed3(*e.reuse_ratio) : "none",
                    ", lowest window ", e.min_window_reuse_ratio ? Fixed3(*e.min_window_reuse_ratio) : "none",
                    " (at least ", Fixed3(s.verdict_settings.min_reuse_ratio), " needed)");
  } else {
    absl::StrAppend(&out, " (at least ", Percent(s.verdict_settings.min_blend_share), " needed)");
    if (s.reuse && s.reuse->observed_over_expected)
      absl::StrAppend(&out, "; reused over expected ", Fixed3(*s.reuse->observed_over_expected));
  }
  return out + "\n";
}

}  // namespace

std::string Fixed3(double value) {
  char buffer[64];
  std::snprintf(buffer, sizeof buffer, "%.3f", value == 0 ? 0.0 : value);
  return buffer;
}

std::string PValue(double p) {
  return p < 0.001 ? "below 0.001" : Fixed3(p);
}

std::string Percent(double share) {
  char buffer[64];
  std::snprintf(buffer, sizeof buffer, "%.1f%%", share * 100);
  return buffer;
}

std::string SummaryText(const Analysis& analysis) {
  const Summary& s = analysis.summary;
  const ExtraStatistics& x = analysis.statistics;
  std::string out =
      absl::StrCat(std::string(VerdictName(s.verdict)), ": candidate ", Fixed3(s.candidate.figures.delta),
                   PlusMinus(s.candidate.figures), " against reference_1, tolerance ",
                   Fixed3(s.verdict_settings.tolerance), ", ", s.num_questions - s.unscored_questions, " of ",
                   s.num_questions, " questions, metric ", s.verdict_settings.metric, "\n");
  for (const std::string& reason : s.invalid_reasons)
    absl::StrAppend(&out, "  INVALID because ", Printable(reason), "\n");
  if (s.verdict == Verdict::kUnderpowered) {
    absl::StrAppend(
        &out, "  too few questions to tell",
        s.samples_needed > 0 ? absl::StrCat(": about ", s.samples_needed, " would settle it") : std::string(),
        "\n");
  }
  ArmLine(analysis, "reference_1", s.candidate.figures.mean_score - s.candidate.figures.delta, nullptr, &out);
  for (const ArmComparison& other : s.others)
    ArmLine(analysis, other.label, other.figures.mean_score, &other.figures, &out);
  ArmLine(analysis, "candidate", s.candidate.figures.mean_score, &s.candidate.figures, &out);
  if (x.questions > 0)
    absl::StrAppend(&out, "  lost ", x.losses, ", won ", x.wins, " (sign test p ", PValue(x.sign_test_p),
                    "); loss rate at most ", Percent(x.loss_rate_upper_95), " at 95%",
                    s.reference_flip_rate
                        ? absl::StrCat("; reference flips ", Percent(*s.reference_flip_rate))
                        : std::string("; one reference pass, noise unknown"),
                    "\n");
  out += EngagementLine(s);
  std::string tags;
  for (const auto& [tag, count] : s.loss_tags) {
    if (tag != "none" && tag != "candidate_higher")
      absl::StrAppend(&tags, tags.empty() ? "" : ", ", Printable(tag), " ", count);
  }
  if (!tags.empty()) absl::StrAppend(&out, "  losses: ", tags, "\n");
  if (x.judged_twice > 0) {
    absl::StrAppend(&out, "  judge: the two prompts disagree on ", x.judge_disagreements, " of ",
                    x.judged_twice, " answers\n");
  }
  for (const std::string& warning : analysis.warnings)
    absl::StrAppend(&out, "  warning: ", Printable(warning), "\n");
  return out;
}

std::string PrintableStart(std::string_view text, size_t most_bytes) {
  if (most_bytes == 0 || text.size() <= most_bytes) return Printable(text);
  size_t end = most_bytes;
  // Not within a character.
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xc0) == 0x80) --end;
  return absl::StrCat(Printable(text.substr(0, end)), " ... (", text.size() - end,
                      " bytes more; whole in a pipe or file)");
}

bool IsShown(const Row& row, const ShowOptions& options) {
  if (!options.qid.empty()) return row.qid == options.qid;
  const bool lost = row.loss_tag && *row.loss_tag != "none" && *row.loss_tag != "candidate_higher";
  return lost || options.all;
}

std::string ShowText(const std::vector<Row>& rows, const LoadedDirectory& directory,
                     const ShowOptions& options) {
  std::string out;
  auto shown_text = [&](std::string_view text) { return PrintableStart(text, options.most_bytes); };
  std::map<std::string, size_t> index;
  for (size_t i = 0; i < directory.plan.samples.size(); ++i) index[directory.plan.samples[i].qid] = i;
  int64_t shown = 0;
  for (const Row& row : rows) {
    if (!IsShown(row, options)) continue;
    ++shown;
    auto found = index.find(row.qid);
    const Sample* sample = found == index.end() ? nullptr : &directory.plan.samples[found->second];
    absl::StrAppend(
        &out, Printable(row.qid),
        sample != nullptr ? absl::StrCat(" (", Printable(sample->request_id), ")") : std::string(), "  ",
        Printable(row.loss_tag.value_or("not scored")), "\n");
    if (sample != nullptr) absl::StrAppend(&out, "  question   ", shown_text(sample->question), "\n");
    for (const std::string& gold : row.gold) absl::StrAppend(&out, "  gold       ", shown_text(gold), "\n");
    size_t width = 9;
    for (const auto& [label, answer] : row.answers) width = std::max(width, Printable(label).size());
    for (const auto& [label, answer] : row.answers) {
      const std::optional<double>* score = Find(row.scores, label);
      absl::StrAppend(&out, "  ", Padded(Printable(label), width + 2),
                      score != nullptr && *score ? Fixed3(**score) : std::string("-    "), "  ",
                      answer.empty() ? WhyEmpty(directory, label, sample) : shown_text(answer), "\n");
      if (!options.responses || sample == nullptr) continue;
      for (const Pass& pass : directory.passes) {
        if (pass.arm.label == label)
          absl::StrAppend(&out, std::string(width + 4, ' '),
                          "response: ", shown_text(pass.answers[found->second].response), "\n");
      }
    }
    for (const EvidencePlace& e : row.evidence) {
      absl::StrAppend(&out, "  evidence   ", Printable(e.passage_id), " ", Printable(e.origin),
                      ", stored at ", e.stored_position, ", measured at ", e.measured_position, "\n");
    }
    if (row.evidence.empty()) out += "  evidence   none found in the passages\n";
    if (row.reuse.kind) {
      absl::StrAppend(&out, "  reuse      ", Printable(*row.reuse.kind), ": ",
                      static_cast<int64_t>(row.reuse.prefix_tokens.value_or(0)), " prefix, ",
                      static_cast<int64_t>(row.reuse.blended_tokens.value_or(0)), " blended");
      if (row.reuse.expected_tokens) absl::StrAppend(&out, " of ", *row.reuse.expected_tokens, " expected");
      out += "\n";
    }
    out += "\n";
  }
  if (shown == 0)
    return options.qid.empty() ? "no question was lost\n"
                               : absl::StrCat("no question '", Printable(options.qid), "'\n");
  return out;
}

std::vector<std::string> WhyNotComparable(const Summary& a, const Summary& b, const Plan* a_plan,
                                          const Plan* b_plan) {
  std::vector<std::string> out;
  if (a.run_fingerprint == b.run_fingerprint) return out;
  auto differ = [&](const char* name, const std::string& left, const std::string& right) {
    if (left != right) out.push_back(absl::StrCat(name, ": ", left, " and ", right));
  };
  differ("verdict_metric", a.verdict_settings.metric, b.verdict_settings.metric);
  differ("judge_model", a.verdict_settings.judge_model.value_or("none"),
         b.verdict_settings.judge_model.value_or("none"));
  Result<Json> left = ParseJson(a.settings_json);
  Result<Json> right = ParseJson(b.settings_json);
  if (left.ok() && right.ok() && left->is_object() && right->is_object()) {
    Json keys = *left;
    keys.update(*right);
    for (const auto& [key, value] : keys.items()) {
      auto text = [&, name = key](const Json& settings) {
        auto at = settings.find(name);
        if (at == settings.end()) return std::string("absent");
        // Keys in the order of the fingerprint, which makes no difference of it.
        return at->is_string()
                   ? at->get<std::string>()
                   : nlohmann::json(*at).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
      };
      differ(key.c_str(), text(*left), text(*right));
    }
  }
  if (a_plan != nullptr && b_plan != nullptr)
    differ("prompts_digest", a_plan->prompts_digest, b_plan->prompts_digest);
  if (out.empty()) out.push_back("the prompts: data set, tokenizer or prompt text");
  return out;
}

CandidateChanges CompareCandidates(const std::vector<Row>& a_rows, const std::vector<Row>& b_rows) {
  std::map<std::string, const Row*> by_qid;
  for (const Row& row : a_rows) by_qid[row.qid] = &row;
  CandidateChanges out;
  std::vector<double> a_scores, b_scores;
  for (const Row& row : b_rows) {
    auto found = by_qid.find(row.qid);
    if (found == by_qid.end()) continue;
    const std::optional<double>* before = Find(found->second->scores, "candidate");
    const std::optional<double>* after = Find(row.scores, "candidate");
    const std::string* answer_before = Find(found->second->answers, "candidate");
    const std::string* answer_after = Find(row.answers, "candidate");
    if (before == nullptr || after == nullptr || !*before || !*after) continue;
    if (answer_before == nullptr || answer_after == nullptr) continue;
    a_scores.push_back(**before);
    b_scores.push_back(**after);
    if (**before != **after)
      out.changed.push_back({row.qid, **before, **after, *answer_before, *answer_after});
  }
  out.figures = ComparePaired(b_scores, a_scores);
  out.questions = static_cast<int64_t>(a_scores.size());
  return out;
}

std::string CompareText(const Summary& a, const std::vector<Row>& a_rows, const Summary& b,
                        const std::vector<Row>& b_rows) {
  std::string out;
  for (const auto& [name, s] : {std::pair("A", &a), std::pair("B", &b)}) {
    absl::StrAppend(&out, name, ": ", std::string(VerdictName(s->verdict)), ", candidate mean ",
                    Fixed3(s->candidate.figures.mean_score), ", delta ", Fixed3(s->candidate.figures.delta),
                    PlusMinus(s->candidate.figures), ", unscored ", s->unscored_questions, "\n");
  }
  const CandidateChanges changes = CompareCandidates(a_rows, b_rows);
  absl::StrAppend(&out, "B against A, candidates question by question: ", Fixed3(changes.figures.delta),
                  PlusMinus(changes.figures), " over ", changes.questions, " questions, ",
                  changes.changed.size(), " differ\n");
  for (const CandidateChange& change : changes.changed) {
    absl::StrAppend(&out, "  ", Printable(change.qid), "  ", Fixed3(change.a_score), " -> ",
                    Fixed3(change.b_score), "  '", Printable(change.a_answer), "' -> '",
                    Printable(change.b_answer), "'\n");
  }
  return out;
}

}  // namespace poolmark::quality
