// The section about how the job ran: timeline of the steps, preflight, what proved that the pool works, and
// what tear-down saw gone.
#include <algorithm>
#include <map>

#include "common/base/units.h"
#include "common/report/drawing.h"
#include "common/report/format.h"
#include "common/report/rfc3339.h"
#include "common/report/sections.h"

namespace poolmark::report {
namespace {

std::string OutcomeStyle(const std::string& outcome) {
  return outcome == "pass"                                ? "good"
         : outcome == "fail"                              ? "bad"
         : outcome == "note" || outcome == "not_measured" ? "warn"
                                                          : "";
}

// "tokens_through_router" -> "tokens through router".
std::string Words(std::string id) {
  std::replace(id.begin(), id.end(), '_', ' ');
  return id;
}

std::string TimeBetween(const std::string& from, const std::string& to) {
  const auto a = ParseRfc3339(from), b = ParseRfc3339(to);
  return a && b && *b >= *a ? FormatValue(*b - *a, "s") : "–";
}

// Failures first, then notes, then what passed, then what did not apply.
std::string CheckTable(const std::string& label, std::vector<results::CheckEntry> checks) {
  const auto weight = [](const results::CheckEntry& check) {
    return check.outcome == "fail"                                      ? 0
           : check.outcome == "note" || check.outcome == "not_measured" ? 1
           : check.outcome == "pass"                                    ? 2
                                                                        : 3;
  };
  std::stable_sort(checks.begin(), checks.end(),
                   [&](const auto& a, const auto& b) { return weight(a) < weight(b); });
  std::vector<std::vector<std::string>> rows;
  for (const auto& check : checks) {
    rows.push_back({EscapeHtml(Words(check.id)), EscapeHtml(check.machine.empty() ? "pool" : check.machine),
                    Badge(Words(check.outcome), OutcomeStyle(check.outcome)), EscapeHtml(check.expected),
                    EscapeHtml(check.observed), EscapeHtml(check.outcome == "fail" ? check.hint : "")});
  }
  return Table(label, {"Check", "Machine", "Outcome", "Expected", "Observed", "What to do"}, rows);
}

// "18 passed, 2 notes, 9 did not apply".
std::string Counted(const std::vector<results::CheckEntry>& checks) {
  std::map<std::string, int> counts;
  for (const auto& check : checks) ++counts[check.outcome];
  std::string out;
  for (const auto& [outcome, words] : {std::pair{"fail", "failed"},
                                       {"pass", "passed"},
                                       {"note", "with a note"},
                                       {"not_measured", "not measured"},
                                       {"skipped", "did not apply"}}) {
    if (counts.contains(outcome))
      out += (out.empty() ? "" : ", ") + std::to_string(counts[outcome]) + " " + words;
  }
  return out.empty() ? "none" : out;
}

std::string LineRateTable(const results::PreflightRecord& preflight) {
  if (preflight.line_rates.empty()) return "";
  double best = 0;
  for (const auto& rate : preflight.line_rates) {
    if (rate.bits_per_second.has_value()) best = std::max(best, *rate.bits_per_second);
  }
  std::vector<std::vector<std::string>> rows;
  for (const auto& rate : preflight.line_rates) {
    const auto latency = [](const Measured<double>& value) {
      return value.has_value() ? FormatValue(*value * 1e-6, "s") : std::string("–");
    };
    std::string cell;
    if (rate.bits_per_second.has_value()) {
      cell = "<span class=\"share\" aria-hidden=\"true\" style=\"width:" +
             std::to_string(best > 0 ? *rate.bits_per_second / best * 8 : 0) + "rem\"></span> " +
             EscapeHtml(FormatBitRate(*rate.bits_per_second));
    } else {
      cell = "<span class=\"none\">" + EscapeHtml(rate.bits_per_second.reason()) + "</span>";
    }
    rows.push_back({EscapeHtml(rate.from + " → " + rate.to), EscapeHtml(rate.path), cell,
                    EscapeHtml(rate.tool + " " + rate.tool_version),
                    std::to_string(rate.runs.size()) + " × " + std::to_string(rate.seconds) + " s",
                    EscapeHtml(latency(rate.latency_p50_us)), EscapeHtml(latency(rate.latency_p99_us))});
  }
  return "<h3>Line rate</h3>" +
         Table("Line rate", {"Machines", "Path", "Best run", "Tool", "Runs", "Latency P50", "P99"}, rows);
}

std::string Preflight(const results::PreflightRecord& preflight) {
  std::string out = "<h3>Preflight " +
                    (preflight.passed ? Badge("passed", "good")
                                      : Badge("failed: " + Words(preflight.failed_check), "bad")) +
                    "</h3>";
  out += "<details" + std::string(preflight.passed ? "" : " open") +
         "><summary>Checks: " + EscapeHtml(Counted(preflight.checks)) + "</summary>" +
         CheckTable("Preflight checks", preflight.checks) + "</details>" + Box("", "Notes", preflight.notes);
  return out + LineRateTable(preflight);
}

// One check with the counters that prove it.
std::string Proof(const results::CheckEntry& check, const results::VerifyRecord& verify) {
  std::string out = "<li class=\"" + OutcomeStyle(check.outcome) + "\"><p><strong>" +
                    EscapeHtml(Words(check.id)) + "</strong> " +
                    Badge(Words(check.outcome), OutcomeStyle(check.outcome)) + "</p>";
  if (!check.expected.empty()) out += "<p>" + EscapeHtml(check.expected) + "</p>";
  const auto proofs = verify.proofs.find(check.id);
  if (proofs == verify.proofs.end() || proofs->second.empty()) {
    out += "<p class=\"soft\">" + EscapeHtml(check.observed) + "</p>";
  } else {
    // Those that the check asks something of; the engine's other counters are folded away.
    std::string others;
    size_t count = 0;
    for (const auto& proof : proofs->second) {
      std::string line = "<p class=\"counter\"><span>" + EscapeHtml(proof.process) + " <code>" +
                         EscapeHtml(proof.series) + "</code></span><strong>" +
                         EscapeHtml(FormatValue(proof.before, "")) + " → " +
                         EscapeHtml(FormatValue(proof.after, "")) + "</strong></p>";
      if (proof.expected.empty()) {
        others += line;
        ++count;
      } else {
        out += line + "<p class=\"soft\">expected: " + EscapeHtml(proof.expected) + "</p>";
      }
    }
    if (count > 0)
      out += "<details><summary>" + std::to_string(count) + " more counters, before and after</summary>" +
             others + "</details>";
  }
  if (check.outcome == "fail" && !check.hint.empty())
    out += "<p class=\"soft\">" + EscapeHtml(check.hint) + "</p>";
  return out + "</li>";
}

// A stack is proven again at each launch. The first launch, or the one that failed, is shown; all are below.
std::string Verification(const std::map<int, results::VerifyRecord>& verifies) {
  if (verifies.empty()) return "";
  std::map<std::string, const results::VerifyRecord*> shown;
  std::vector<std::vector<std::string>> rows;
  std::string all;
  for (const auto& [cycle, verify] : verifies) {
    auto& one = shown[verify.stack];
    if (one == nullptr || (one->passed && !verify.passed)) one = &verify;
    rows.push_back(
        {std::to_string(cycle), EscapeHtml(verify.stack),
         verify.passed ? Badge("passed", "good") : Badge("failed: " + Words(verify.failed_check), "bad"),
         EscapeHtml(Counted(verify.checks)), EscapeHtml(TimeBetween(verify.started, verify.ended))});
    all += "<details><summary>Cycle " + std::to_string(cycle) + ", " + EscapeHtml(verify.stack) +
           "</summary><ul class=\"proof\">";
    for (const auto& check : verify.checks) all += Proof(check, verify);
    all += "</ul></details>";
  }
  std::string out = "<h3>What proved that each stack works</h3>";
  for (const auto& [stack, verify] : shown) {
    out +=
        "<h4>" + EscapeHtml(stack) + " <small>cycle " + std::to_string(verify->cycle) + "</small> " +
        (verify->passed ? Badge("passed", "good") : Badge("failed: " + Words(verify->failed_check), "bad")) +
        "</h4>";
    if (!verify->diagnosis.empty()) out += Box("bad", "Why", {verify->diagnosis});
    out += "<ul class=\"proof\">";
    for (const auto& check : verify->checks) out += Proof(check, *verify);
    out += "</ul>";
  }
  return out + "<details><summary>Every launch</summary>" +
         Table("Verification of every launch", {"Cycle", "Stack", "Outcome", "Checks", "Took"}, rows) + all +
         "</details>";
}

std::string TearDown(const std::map<int, results::TeardownRecord>& teardowns) {
  if (teardowns.empty()) return "";
  std::vector<std::vector<std::string>> rows;
  std::string left, items;
  for (const auto& [cycle, teardown] : teardowns) {
    rows.push_back({std::to_string(cycle), EscapeHtml(teardown.stack),
                    Badge(teardown.outcome, teardown.outcome == "CLEAN" ? "good" : "bad"),
                    EscapeHtml(teardown.cause), std::to_string(teardown.items.size()),
                    EscapeHtml(TimeBetween(teardown.started, teardown.ended))});
    left += Box("bad", "Left over after cycle " + std::to_string(cycle), teardown.leftovers);
    std::vector<std::vector<std::string>> list;
    for (const auto& item : teardown.items)
      list.push_back({EscapeHtml(item.name), EscapeHtml(item.machine), EscapeHtml(item.kind),
                      EscapeHtml(item.state) + (item.forced ? " <small>(forced)</small>" : ""),
                      EscapeHtml(item.proof)});
    if (!list.empty())
      items += "<details><summary>Items and proof, cycle " + std::to_string(cycle) + "</summary>" +
               Table("Tear-down of cycle " + std::to_string(cycle),
                     {"Item", "Machine", "Kind", "State", "Proof"}, list) +
               "</details>";
  }
  return "<h3>Tear-down</h3>" + left +
         Table("Tear-down", {"Cycle", "Stack", "Outcome", "Because", "Items", "Took"}, rows) + items;
}

}  // namespace

std::string StepsSection(const Recomputed& job) {
  const auto& directory = job.directory;
  std::string out;
  const auto steps = StepsOf(directory);
  if (!steps.empty()) {
    out += "<div class=\"scroll\" role=\"region\" tabindex=\"0\" aria-label=\"Timeline\">" +
           DrawTimeline(steps) + "</div>";
    out += "<ul class=\"legend\" aria-hidden=\"true\">";
    for (const auto& [kind, text] : {std::pair{"", "plan, preflight"},
                                     {"launch", "launch"},
                                     {"verify", "verify"},
                                     {"measure", "benchmark and measure"},
                                     {"down", "tear down"},
                                     {"bad", "failed or invalid"}})
      out += "<li><i class=\"step " + std::string(kind) + "\"></i>" + text + "</li>";
    out += "</ul>";
    std::vector<std::vector<std::string>> rows;
    for (const Step& step : steps)
      rows.push_back({EscapeHtml(step.row), EscapeHtml(step.label), EscapeHtml(FormatValue(step.from, "s")),
                      EscapeHtml(FormatValue(step.to - step.from, "s"))});
    out += "<details><summary>Times of the steps</summary>" +
           Table("Times of the steps", {"Row", "Step", "Begins", "Takes"}, rows) + "</details>";
  }
  if (directory.preflight) out += Preflight(*directory.preflight);
  out += Verification(directory.verifies) + TearDown(directory.teardowns);
  return out.empty() ? "<p class=\"soft\">No step was recorded.</p>" : out;
}

}  // namespace poolmark::report
