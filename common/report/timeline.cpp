// The timeline of the steps.
#include <algorithm>
#include <cstdio>
#include <functional>
#include <map>
#include <set>

#include "common/report/charts.h"
#include "common/report/drawing.h"
#include "common/report/format.h"
#include "common/report/rfc3339.h"

namespace poolmark::report {
namespace {

std::string Tenths(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f", value);
  return text;
}

struct Raw {
  std::string row, label, kind, from, to;
};

// A launch is not recorded itself: it lies between the end of what came before it and its verification.
void AddLaunches(const results::Directory& directory, std::vector<Raw>* raw,
                 const std::function<std::string(int)>& row) {
  std::string before = directory.preflight ? directory.preflight->ended : "";
  std::set<int> cycles;
  for (const auto& [cycle, verify] : directory.verifies) cycles.insert(cycle);
  for (const auto& [cycle, teardown] : directory.teardowns) cycles.insert(cycle);
  for (const int cycle : cycles) {
    const auto verify = directory.verifies.find(cycle);
    const auto teardown = directory.teardowns.find(cycle);
    const bool launched = verify != directory.verifies.end();
    if (!before.empty())
      raw->push_back({row(cycle), launched ? "Launch" : "Launch, not completed", launched ? "launch" : "bad",
                      before, launched ? verify->second.started : teardown->second.started});
    before = teardown == directory.teardowns.end() ? "" : teardown->second.ended;
  }
}

}  // namespace

std::vector<Step> StepsOf(const results::Directory& directory) {
  std::vector<Raw> raw;
  const auto& job = directory.job;
  if (!job.submitted.empty() && !job.started.empty())
    raw.push_back({"Job", "Plan, and waiting for the machines", "", job.submitted, job.started});
  if (directory.preflight) {
    raw.push_back({"Job", "Preflight", directory.preflight->passed ? "" : "bad", directory.preflight->started,
                   directory.preflight->ended});
  }
  std::map<int, std::string> stacks;
  for (const auto& [cycle, verify] : directory.verifies) stacks[cycle] = verify.stack;
  for (const auto& [cycle, teardown] : directory.teardowns) stacks[cycle] = teardown.stack;
  const auto row = [&](int cycle) {
    return "Cycle " + std::to_string(cycle) + (stacks[cycle].empty() ? "" : ", " + stacks[cycle]);
  };
  AddLaunches(directory, &raw, row);
  for (const auto& [cycle, verify] : directory.verifies)
    raw.push_back({row(cycle), "Verify", verify.passed ? "verify" : "bad", verify.started, verify.ended});
  for (const auto& repeat : directory.repeats) {
    const auto& facts = repeat.facts;
    raw.push_back({row(facts.cycle),
                   facts.point.workload + ", " + LevelTitle(facts.point.level) + ", repeat " +
                       std::to_string(facts.repeat),
                   repeat.figures.valid ? "measure" : "bad", facts.started, facts.ended});
  }
  for (const auto& [cycle, teardown] : directory.teardowns) {
    raw.push_back({row(cycle), "Tear down", teardown.outcome == "CLEAN" ? "down" : "bad", teardown.started,
                   teardown.ended});
  }
  std::vector<Step> steps;
  for (const Raw& one : raw) {
    const auto from = ParseRfc3339(one.from), to = ParseRfc3339(one.to);
    if (from && to && *to >= *from) steps.push_back({one.row, one.label, one.kind, *from, *to});
  }
  if (steps.empty()) return steps;
  const double origin = std::min_element(steps.begin(), steps.end(), [](const Step& a, const Step& b) {
                          return a.from < b.from;
                        })->from;
  for (Step& step : steps) {
    step.from -= origin;
    step.to -= origin;
  }
  return steps;
}

std::string DrawTimeline(const std::vector<Step>& steps) {
  if (steps.empty()) return "";
  std::vector<std::string> rows;
  double end = 1;
  for (const Step& step : steps) {
    if (std::find(rows.begin(), rows.end(), step.row) == rows.end()) rows.push_back(step.row);
    end = std::max(end, step.to);
  }
  constexpr int kLeft = 170, kWidth = 760, kHeight = 26;
  const int height = static_cast<int>(rows.size()) * kHeight + 34;
  std::string svg = "<svg viewBox=\"0 0 " + std::to_string(kLeft + kWidth + 20) + " " +
                    std::to_string(height) +
                    "\" role=\"img\" aria-label=\"Timeline of the steps\" "
                    "style=\"width:100%;min-width:34rem;height:auto\">";
  for (size_t i = 0; i < rows.size(); ++i) {
    const int y = static_cast<int>(i) * kHeight + 6;
    svg += "<text x=\"0\" y=\"" + std::to_string(y + 15) + "\">" + EscapeHtml(Shortened(rows[i], 26)) +
           "</text>";
    svg += "<line class=\"axis\" x1=\"" + std::to_string(kLeft) + "\" x2=\"" +
           std::to_string(kLeft + kWidth) + "\" y1=\"" + std::to_string(y + 22) + "\" y2=\"" +
           std::to_string(y + 22) + "\"/>";
    for (const Step& step : steps) {
      if (step.row != rows[i]) continue;
      const double x = kLeft + step.from / end * kWidth,
                   width = std::max(2.0, (step.to - step.from) / end * kWidth);
      svg += "<g><title>" + EscapeHtml(step.label + ": " + FormatValue(step.to - step.from, "s")) +
             "</title><rect class=\"step " + step.kind + "\" x=\"" + Tenths(x) + "\" y=\"" +
             std::to_string(y + 3) + "\" width=\"" + Tenths(width) + "\" height=\"16\" rx=\"2\"/></g>";
    }
  }
  for (int i = 0; i <= 5; ++i) {
    svg += "<text class=\"soft\" x=\"" + Tenths(kLeft + kWidth * i / 5.0) + "\" y=\"" +
           std::to_string(height - 8) + "\" text-anchor=\"" +
           (i == 0   ? "start"
            : i == 5 ? "end"
                     : "middle") +
           "\">" + EscapeHtml(i == 0 ? "0 s" : FormatValue(end * i / 5.0, "s")) + "</text>";
  }
  return svg + "</svg>";
}

}  // namespace poolmark::report
