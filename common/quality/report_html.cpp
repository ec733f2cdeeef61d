#include "common/quality/report_html.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "absl/strings/str_cat.h"
#include "common/base/html.h"
#include "common/base/json.h"
#include "common/quality/counter_checks.h"
#include "common/quality/engagement.h"
#include "common/quality/report_text.h"

namespace poolmark::quality {
namespace {

constexpr char kStyle[] = R"(
:root { color-scheme: light dark; --ink: #1c2430; --soft: #5b6675; --line: #d8dee6; --card: #f6f8fa; --paper: #ffffff;
  --good: #1a7f4b; --bad: #b42318; --warn: #a15c07; --bar: #3b6fb6; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6eaf0; --soft: #9aa6b5; --line: #333c48; --card: #1b222c;
  --paper: #12171e; --good: #4cc38a; --bad: #ff8a80; --warn: #f0b45a; --bar: #7fa8e0; } }
body { font: 15px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper); margin: 0 auto; max-width: 62rem; padding: 2rem 1.2rem 4rem; }
h1 { font-size: 1.35rem; margin: 0 0 .2rem; } h2 { font-size: 1.05rem; margin: 2.2rem 0 .6rem; }
.verdict { font-size: 2rem; font-weight: 650; } .PASS { color: var(--good); } .FAIL { color: var(--bad); }
.UNDERPOWERED { color: var(--warn); } .INVALID { color: var(--bad); }
.soft { color: var(--soft); } .card { background: var(--card); border: 1px solid var(--line); border-radius: 8px; padding: 1rem 1.2rem; margin: .8rem 0; }
table { border-collapse: collapse; width: 100%; } th, td { text-align: left; padding: .35rem .7rem .35rem 0; border-bottom: 1px solid var(--line); vertical-align: top; }
th { font-weight: 600; color: var(--soft); } td.n, th.n { text-align: right; font-variant-numeric: tabular-nums; }
svg text { fill: var(--soft); font: 11px system-ui, sans-serif; } svg .axis { stroke: var(--line); } svg .mark { stroke: var(--ink); fill: var(--ink); }
svg .bar { fill: var(--bar); } svg .low { fill: var(--bad); } svg .limit { stroke: var(--warn); stroke-dasharray: 4 3; }
svg .better { fill: var(--good); } svg .strong { fill: var(--ink); font-weight: 600; }
td.share { width: 40%; vertical-align: middle; } td.share svg { width: 100%; height: .8em; display: block; }
.answer { white-space: pre-wrap; overflow-wrap: anywhere; } code { font-size: .9em; } .wide { overflow-x: auto; }
.facts { display: flex; flex-wrap: wrap; gap: .2rem 1.6rem; margin: .4rem 0 0; } .facts div { overflow-wrap: anywhere; }
.facts dt { display: inline; color: var(--soft); } .facts dd { display: inline; margin: 0 0 0 .4rem; }
.card th { width: 7.5rem; } .tag { display: inline-block; border: 1px solid var(--line); border-radius: 99px; padding: 0 .6rem; font-size: .85em; color: var(--bad); }
.note { margin: .3rem 0 0; padding-left: .7rem; border-left: 3px solid var(--warn); }
)";

// A foreign text as it is read, line by line: neither HTML nor marks that turn or hide what stands beside
// them.
std::string Safe(std::string_view text) {
  std::string out;
  for (;;) {
    const size_t end = text.find('\n');
    out += EscapeHtml(Printable(text.substr(0, end)));
    if (end == text.npos) return out;
    out += '\n';
    text.remove_prefix(end + 1);
  }
}

// Model output is cut in the page, between two characters; the files hold it whole.
std::string Short(std::string_view text) {
  constexpr size_t kMost = 600;
  if (text.size() <= kMost) return Safe(text);
  size_t end = kMost;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xc0) == 0x80) --end;
  return Safe(text.substr(0, end)) +
         absl::StrCat(" <span class=\"soft\">[", text.size() - end, " bytes more]</span>");
}

std::string Number(double value) {
  return Fixed3(value);
}

class Page {
 public:
  Page(const LoadedDirectory& directory, const Analysis& analysis)
      : d_(directory), a_(analysis), s_(analysis.summary) {}

  std::string Build() {
    absl::StrAppend(&out_,
                    "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta "
                    "name=\"viewport\" content=\"width=device-width\">",
                    "<title>Answer quality: ", std::string(VerdictName(s_.verdict)), "</title><style>",
                    kStyle, "</style></head><body>\n");
    Head();
    Deltas();
    Windows();
    Losses();
    Questions();
    Arms();
    out_ += "</body></html>\n";
    return std::move(out_);
  }

 private:
  void Head() {
    std::string verdict(VerdictName(s_.verdict));
    const Settings& plan = d_.plan.settings;
    out_ += "<h1>Does reused KV still give right answers?</h1><dl class=\"facts\">";
    const std::string metric = s_.verdict_settings.judge_model
                                   ? absl::StrCat("judge (", *s_.verdict_settings.judge_model, ")")
                                   : s_.verdict_settings.metric;
    const std::pair<const char*, std::string> facts[] = {{"model", plan.model},
                                                         {"data set", plan.dataset},
                                                         {"questions", absl::StrCat(s_.num_questions)},
                                                         {"scenario", plan.scenario},
                                                         {"metric", metric},
                                                         {"plan", s_.plan_fingerprint},
                                                         {"run", s_.run_fingerprint}};
    for (const auto& [name, value] : facts)
      absl::StrAppend(&out_, "<div><dt>", name, "</dt><dd>", Safe(value), "</dd></div>");
    absl::StrAppend(&out_, "</dl>\n<div class=\"card\"><div class=\"verdict ", verdict, "\">", verdict,
                    "</div><div>", Why(), "</div>");
    for (const std::string& reason : s_.invalid_reasons)
      absl::StrAppend(&out_, "<div>&bull; ", Safe(reason), "</div>");
    for (const std::string& warning : a_.warnings)
      absl::StrAppend(&out_, "<div class=\"soft note\">", Safe(warning), "</div>");
    out_ += "</div>\n";
  }

  std::string Why() const {
    const PairedComparison& c = s_.candidate.figures;
    std::string tolerance = Number(s_.verdict_settings.tolerance);
    std::string delta = Number(c.delta);
    std::string twice = c.standard_error ? Number(2 * *c.standard_error) : "unknown";
    switch (s_.verdict) {
      case Verdict::kPass:
        return absl::StrCat("The candidate's delta of ", delta, " is not beyond the tolerance of ", tolerance,
                            ", and the noise (2 SE = ", twice, ") is small enough to tell.");
      case Verdict::kFail:
        return absl::StrCat("The candidate's delta of ", delta, " is beyond both the tolerance of ",
                            tolerance, " and the noise (2 SE = ", twice, ").");
      case Verdict::kUnderpowered:
        return absl::StrCat("The noise (2 SE = ", twice, ") is larger than the tolerance of ", tolerance, ".",
                            s_.samples_needed > 0
                                ? absl::StrCat(" About ", s_.samples_needed, " questions would settle it.")
                                : std::string());
      case Verdict::kInvalid:
        return "This run cannot be judged:";
    }
    return "";
  }

  // Deltas against reference_1 with two standard errors, on one axis.
  void Deltas() {
    std::vector<const ArmComparison*> arms{&s_.candidate};
    for (const ArmComparison& other : s_.others) arms.push_back(&other);
    double reach = std::max(s_.verdict_settings.tolerance, 0.01);
    for (const ArmComparison* arm : arms)
      reach = std::max(reach, std::abs(arm->figures.delta) + 2 * arm->figures.standard_error.value_or(0));
    reach *= 1.1;
    auto at = [&](double value) { return 430 + value / reach * 260; };
    auto x = [&](double value) { return Number(at(value)); };
    size_t height = 30 + 28 * arms.size() + 22;
    absl::StrAppend(&out_, "<h2>Against reference_1</h2><svg viewBox=\"0 0 700 ", height,
                    "\" width=\"100%\" role=\"img\" aria-label=\"Deltas with two standard errors\">");
    absl::StrAppend(&out_, "<line class=\"axis\" x1=\"430\" x2=\"430\" y1=\"10\" y2=\"", height - 22, "\"/>");
    const double tolerance = s_.verdict_settings.tolerance;
    for (double limit : {-tolerance, tolerance}) {
      absl::StrAppend(&out_, "<line class=\"limit\" x1=\"", x(limit), "\" x2=\"", x(limit),
                      "\" y1=\"10\" y2=\"", height - 22, "\"/>");
    }
    absl::StrAppend(&out_, "<text x=\"430\" y=\"", height - 6,
                    "\" text-anchor=\"middle\">no difference, with the tolerance of ", Number(tolerance),
                    " dashed</text>");
    // The ends of the axis, so that lengths can be read.
    for (double end : {-reach, reach}) {
      absl::StrAppend(&out_, "<text x=\"", x(end), "\" y=\"", height - 6, "\" text-anchor=\"",
                      end < 0 ? "start" : "end", "\">", Number(end), "</text>");
    }
    size_t y = 30;
    for (const ArmComparison* arm : arms) {
      double se = 2 * arm->figures.standard_error.value_or(0);
      absl::StrAppend(&out_, "<text class=\"strong\" x=\"0\" y=\"", y + 4, "\">", Safe(arm->label),
                      "</text><text x=\"78\" y=\"", y + 4, "\">", Number(arm->figures.delta),
                      arm->figures.standard_error ? absl::StrCat(" \u00b1 ", Number(se)) : std::string(),
                      "</text><line class=\"mark\" x1=\"", x(arm->figures.delta - se), "\" x2=\"",
                      x(arm->figures.delta + se), "\" y1=\"", y, "\" y2=\"", y,
                      "\"/><circle class=\"mark\" cx=\"", x(arm->figures.delta), "\" cy=\"", y,
                      "\" r=\"4\"/>");
      y += 28;
    }
    out_ +=
        "</svg>\n<table><tr><th>pass</th><th class=\"n\">mean</th><th class=\"n\">delta</th><th "
        "class=\"n\">2 SE</th><th class=\"n\">answered</th><th class=\"n\">empty</th><th "
        "class=\"n\">abstained</th></tr>";
    MeanRow("reference_1", s_.candidate.figures.mean_score - s_.candidate.figures.delta, nullptr);
    for (const ArmComparison& other : s_.others)
      MeanRow(other.label, other.figures.mean_score, &other.figures);
    MeanRow("candidate", s_.candidate.figures.mean_score, &s_.candidate.figures);
    const ExtraStatistics& x_ = a_.statistics;
    absl::StrAppend(&out_, "</table><p>", x_.losses, " lost, ", x_.wins, " won of ", x_.questions,
                    " scored; exact sign test p ", PValue(x_.sign_test_p), "; loss rate at most ",
                    Percent(x_.loss_rate_upper_95), " (95 %)",
                    s_.reference_flip_rate
                        ? absl::StrCat("; reference_2 flips ", Percent(*s_.reference_flip_rate))
                        : std::string("; one reference pass, so the noise floor is unknown"),
                    ".</p>\n");
  }

  void MeanRow(const std::string& label, double mean, const PairedComparison* figures) {
    absl::StrAppend(
        &out_, "<tr><td>", Safe(label), "</td><td class=\"n\">", Number(mean), "</td><td class=\"n\">",
        figures != nullptr ? Number(figures->delta) : std::string(), "</td><td class=\"n\">",
        figures != nullptr && figures->standard_error ? Number(2 * *figures->standard_error) : std::string(),
        "</td>");
    for (const auto& [name, counts] : s_.arm_counts) {
      if (name == label)
        absl::StrAppend(&out_, "<td class=\"n\">", counts.answered, "</td><td class=\"n\">", counts.empty,
                        "</td><td class=\"n\">", counts.abstained, "</td>");
    }
    out_ += "</tr>";
  }

  // One bar for each window of ten questions, and the limit where there is one.
  void WindowBars(const std::vector<double>& shares, std::optional<double> limit, const char* name,
                  const char* what) {
    const double highest =
        std::max(1.0, shares.empty() ? 0.0 : *std::max_element(shares.begin(), shares.end()));
    auto y = [&](double share) { return 130 - share / highest * 115; };
    absl::StrAppend(&out_, "<svg viewBox=\"0 0 700 155\" width=\"100%\" role=\"img\" aria-label=\"", name,
                    " per window of ten questions\">");
    const double width = 640.0 / static_cast<double>(std::max<size_t>(shares.size(), 1));
    for (size_t i = 0; i < shares.size(); ++i) {
      absl::StrAppend(&out_, "<rect class=\"", limit && shares[i] < *limit ? "low" : "bar", "\" x=\"",
                      Number(40 + width * static_cast<double>(i)), "\" width=\"",
                      Number(std::max(width - 2, 0.5)), "\" y=\"", Number(y(shares[i])), "\" height=\"",
                      Number(130 - y(shares[i])), "\"><title>window ", i + 1, ": ", Number(shares[i]),
                      "</title></rect>");
    }
    out_ +=
        "<line class=\"axis\" x1=\"40\" x2=\"680\" y1=\"15\" y2=\"15\"/>"
        "<line class=\"axis\" x1=\"40\" x2=\"680\" y1=\"130\" y2=\"130\"/>";
    if (limit) {
      absl::StrAppend(&out_, "<line class=\"limit\" x1=\"40\" x2=\"680\" y1=\"", Number(y(*limit)),
                      "\" y2=\"", Number(y(*limit)), "\"/><text x=\"0\" y=\"", Number(y(*limit) + 4), "\">",
                      Number(*limit), "</text>");
    }
    absl::StrAppend(
        &out_, "<text x=\"0\" y=\"", Number(y(highest) + 4), "\">", Number(highest),
        "</text><text x=\"0\" y=\"134\">0</text><text x=\"40\" y=\"148\">windows of ten questions, in plan "
        "order; ",
        what, "</text></svg>\n");
  }

  void Windows() {
    const Engagement& e = s_.engagement;
    out_ += "<h2>Was KV reused?</h2>";
    const Pass* candidate = nullptr;
    for (const Pass& pass : d_.passes) {
      if (pass.arm.label == "candidate") candidate = &pass;
    }
    if (!e.measured || candidate == nullptr) {
      out_ += "<p>Not measured: the candidate ran without --capture-blend-metrics.</p>\n";
      return;
    }
    if (e.gate == "reuse") {
      WindowBars(ReuseWindows(d_.plan, *candidate), s_.verdict_settings.min_reuse_ratio, "Reuse ratio",
                 "reused over expected tokens");
      WindowBars(BlendWindows(*candidate), std::nullopt, "Blend share",
                 "share of looked-up tokens served by blending, which decides nothing in this scenario");
    } else {
      WindowBars(BlendWindows(*candidate), s_.verdict_settings.min_blend_share, "Blend share",
                 "share of looked-up tokens served by blending");
    }
    absl::StrAppend(&out_, "<p>Blend share ", Percent(e.blend_share), " over the pass, ",
                    Percent(e.min_window_share), " in the lowest window",
                    e.reuse_ratio ? absl::StrCat("; reuse ratio ", Number(*e.reuse_ratio)) : std::string(),
                    "; ", e.stale_chunks, " stale chunks. ",
                    !ImpossibleCounters(*candidate).empty() ? "These counters cannot be believed."
                    : e.engaged                             ? "The gate was met."
                                                            : "The gate was not met.",
                    "</p>\n");
    if (!s_.reuse || s_.reuse->groups.empty()) return;
    out_ +=
        "<table><tr><th>served mostly by</th><th class=\"n\">questions</th><th class=\"n\">delta</th><th "
        "class=\"n\">2 SE</th></tr>";
    for (const ReuseGroup& g : s_.reuse->groups) {
      absl::StrAppend(&out_, "<tr><td>", Safe(g.kind), "</td><td class=\"n\">", g.questions,
                      "</td><td class=\"n\">", Number(g.figures.delta), "</td><td class=\"n\">",
                      g.figures.standard_error ? Number(2 * *g.figures.standard_error) : std::string(),
                      "</td></tr>");
    }
    out_ += "</table>\n";
  }

  static bool Lost(const Row& row) {
    return row.loss_tag && *row.loss_tag != "none" && *row.loss_tag != "candidate_higher";
  }

  void Losses() {
    // What a tag says, in words; lost ones in the colour of losses.
    static const std::map<std::string, std::pair<const char*, const char*>> kMeanings = {
        {"none", {"bar", "same score as reference_1"}},
        {"candidate_higher", {"better", "the candidate scores higher"}},
        {"empty", {"low", "no complete answer"}},
        {"abstention", {"low", "said that the passages lack the answer"}},
        {"wrong_value", {"low", "answered with another text of the prompt"}},
        {"wording", {"low", "anything else"}}};
    int64_t most = 1;
    for (const auto& [tag, count] : s_.loss_tags) most = std::max(most, count);
    out_ += "<h2>Losses</h2><table>";
    for (const auto& [tag, count] : s_.loss_tags) {
      auto found = kMeanings.find(tag);
      absl::StrAppend(&out_, "<tr><td>", Safe(tag), "</td><td class=\"soft\">",
                      found == kMeanings.end() ? "" : found->second.second, "</td><td class=\"n\">", count,
                      "</td><td class=\"share\"><svg viewBox=\"0 0 100 10\" preserveAspectRatio=\"none\" "
                      "aria-hidden=\"true\"><rect class=\"",
                      found == kMeanings.end() ? "bar" : found->second.first, "\" height=\"10\" width=\"",
                      Number(100.0 * static_cast<double>(count) / static_cast<double>(most)),
                      "\"/></svg></td></tr>");
    }
    out_ += "</table>\n";
    if (a_.statistics.judged_twice > 0) {
      absl::StrAppend(&out_, "<p>The judge's two prompts disagree on ", a_.statistics.judge_disagreements,
                      " of ", a_.statistics.judged_twice,
                      " answers (mean difference, answer first minus reference first: ",
                      Number(a_.statistics.judge_order_bias), ").</p>\n");
    }
    // Where the evidence stood in lost and in all questions.
    std::map<int64_t, std::pair<int64_t, int64_t>> by_shift;  // measured - stored position -> lost, all
    for (const Row& row : a_.rows) {
      for (const EvidencePlace& e : row.evidence) {
        auto& [lost, all] = by_shift[e.measured_position - e.stored_position];
        ++all;
        if (Lost(row)) ++lost;
      }
    }
    if (by_shift.empty()) return;
    out_ +=
        "<table><tr><th>evidence moved by (measured minus stored position)</th><th "
        "class=\"n\">passages</th><th class=\"n\">of lost questions</th></tr>";
    for (const auto& [shift, counts] : by_shift) {
      absl::StrAppend(&out_, "<tr><td>", shift, "</td><td class=\"n\">", counts.second,
                      "</td><td class=\"n\">", counts.first, "</td></tr>");
    }
    out_ += "</table>\n";
  }

  void Questions() {
    constexpr size_t kMost = 500;
    std::map<std::string, const Sample*> samples;
    for (const Sample& s : d_.plan.samples) samples[s.qid] = &s;
    size_t shown = 0;
    size_t lost = 0;
    out_ += "<h2>Lost questions</h2>\n";
    for (const Row& row : a_.rows) {
      if (!Lost(row) || ++lost > kMost) continue;
      ++shown;
      absl::StrAppend(&out_, "<div class=\"card\"><b>", Safe(row.qid), "</b> <span class=\"tag\">",
                      Safe(*row.loss_tag), "</span><div>", Short(samples[row.qid]->question),
                      "</div><table><tr><th>gold</th><td class=\"answer\">");
      for (size_t i = 0; i < row.gold.size(); ++i)
        absl::StrAppend(&out_, i > 0 ? " | " : "", Short(row.gold[i]));
      out_ += "</td></tr>";
      for (const auto& [label, answer] : row.answers) {
        absl::StrAppend(
            &out_, "<tr><th>", Safe(label), "</th><td class=\"answer\">",
            answer.empty() ? std::string("<span class=\"soft\">no complete answer</span>") : Short(answer),
            "</td></tr>");
      }
      for (const EvidencePlace& e : row.evidence) {
        absl::StrAppend(&out_, "<tr><th>evidence</th><td><code>", Safe(e.passage_id), "</code> ",
                        Safe(e.origin), ", stored at ", e.stored_position, ", measured at ",
                        e.measured_position, "</td></tr>");
      }
      out_ += "</table></div>\n";
    }
    if (lost == 0) out_ += "<p>None.</p>\n";
    if (lost > shown)
      absl::StrAppend(&out_, "<p class=\"soft\">", lost - shown, " more are in rows.jsonl.</p>\n");
  }

  void Arms() {
    out_ +=
        "<h2>Arms</h2><div "
        "class=\"wide\"><table><tr><th>pass</th><th>URL</th><th>engine</th><th>program</th><th>started</"
        "th><th>finished</th><th class=\"n\">failed stores</th><th class=\"n\">requests failed</th><th "
        "class=\"n\">sent again</th></tr>";
    for (const Arm& arm : s_.arms) {
      absl::StrAppend(&out_, "<tr><td>", Safe(arm.label), "</td><td>", Safe(arm.url), "</td><td>",
                      Safe(arm.engine_version.value_or("not reported")), "</td><td>",
                      Safe(arm.lmcache_version), "</td><td>", Safe(arm.started_at), "</td><td>",
                      Safe(arm.finished_at), "</td><td class=\"n\">", arm.store_failures, "</td>");
      for (const auto& [label, totals] : a_.statistics.requests) {
        if (label != arm.label) continue;
        for (int64_t RequestTotals::*member : {&RequestTotals::failed, &RequestTotals::sent_again}) {
          absl::StrAppend(&out_, "<td class=\"n\">",
                          totals ? absl::StrCat((*totals).*member) : std::string("not told"), "</td>");
        }
      }
      out_ += "</tr>";
    }
    out_ += "</table></div>\n";
    if (s_.padding && s_.padding->prompt_tokens > 0) {
      absl::StrAppend(&out_, "<p class=\"soft\">Padding: ", s_.padding->pad_tokens, " of ",
                      s_.padding->prompt_tokens, " prompt tokens (", Safe(s_.padding->filler),
                      "). Passages that an earlier question also held: ", Percent(s_.measured_earlier_share),
                      ".</p>\n");
    }
  }

  const LoadedDirectory& d_;
  const Analysis& a_;
  const Summary& s_;
  std::string out_;
};

}  // namespace

std::string ReportHtml(const LoadedDirectory& directory, const Analysis& analysis) {
  return Page(directory, analysis).Build();
}

}  // namespace poolmark::quality
