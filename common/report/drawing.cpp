#include "common/report/drawing.h"

#include <algorithm>
#include <cstdio>
#include <map>
#include <nlohmann/json.hpp>

#include "common/base/json.h"
#include "common/base/units.h"
#include "common/report/charts.h"
#include "common/report/format.h"
#include "common/report/rfc3339.h"

namespace poolmark::report {
namespace {

constexpr int kMachineWidth = 250, kGap = 110, kRow = 30, kTop = 64;

std::string Text(const Json& json, const char* key) {
  const auto at = json.find(key);
  return at != json.end() && at->is_string() ? at->get<std::string>() : "";
}

std::string Short(std::string text, size_t limit) {
  if (Width(text) <= limit) return text;
  return text.substr(0, limit - 1) + "…";
}

std::string N(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f", value);
  return text;
}

struct Box {
  std::string title, detail, style;
};

// Boxes of each machine: processes in the order of the plan, then tiers.
std::map<std::string, std::vector<Box>> BoxesOf(const Json& stack) {
  std::map<std::string, std::vector<Box>> boxes;
  const std::string prefix = Text(stack, "name") + ".";
  for (const Json& process : stack.value("processes", Json::array())) {
    std::string id = Text(process, "id");
    if (id.starts_with(prefix)) id.erase(0, prefix.size());
    std::string detail = Text(process, "role");
    const auto gpus = process.find("gpus");
    if (gpus != process.end() && gpus->is_array() && !gpus->empty())
      detail += ", " + std::to_string(gpus->size()) + " GPU" + (gpus->size() > 1 ? "s" : "");
    const auto ports = process.find("ports");
    if (ports != process.end() && ports->is_array() && !ports->empty())
      detail += ", port " + (*ports)[0].dump();
    boxes[Text(process, "machine")].push_back({id, detail, "process"});
  }
  for (const Json& tier : stack.value("tiers", Json::array())) {
    const auto bytes = tier.find("bytes");
    const std::string size =
        bytes != tier.end() && bytes->is_number_unsigned() ? FormatBytes(bytes->get<uint64_t>()) : "";
    std::string owner = Text(tier, "owner");
    if (owner.starts_with(prefix)) owner.erase(0, prefix.size());
    boxes[Text(tier, "machine")].push_back(
        {"tier: " + Text(tier, "source") + (size.empty() ? "" : " " + size), "held by " + owner, "tier"});
  }
  return boxes;
}

std::string Draw(const Json& plan, const Json& stack) {
  const auto boxes = BoxesOf(stack);
  std::vector<std::string> machines;
  for (const Json& machine : plan.value("machines", Json::array())) {
    const std::string name = Text(machine, "name");
    if (boxes.contains(name)) machines.push_back(name);
  }
  size_t most = 1;
  for (const auto& [name, list] : boxes) most = std::max(most, list.size());
  const int width = static_cast<int>(machines.size()) * (kMachineWidth + kGap) - kGap + 40;
  const int links_height = 30 + 16 * static_cast<int>(stack.value("links", Json::array()).size());
  const int bottom = kTop + static_cast<int>(most) * (kRow + 10) + 12;
  std::string svg = "<svg viewBox=\"0 0 " + std::to_string(std::max(width, 320)) + " " +
                    std::to_string(bottom + links_height) + "\" width=\"" +
                    std::to_string(std::max(width, 320)) + "\" role=\"img\" aria-label=\"Plan of stack " +
                    Escape(Text(stack, "name")) +
                    ": machines, processes, tiers and links\" style=\"max-width:100%;height:auto\">";
  svg +=
      "<defs><marker id=\"arrow\" viewBox=\"0 0 8 8\" refX=\"7\" refY=\"4\" markerWidth=\"7\" "
      "markerHeight=\"7\" orient=\"auto\"><path class=\"arrow\" d=\"M0,0 L8,4 L0,8 z\"/></marker></defs>";
  std::map<std::string, int> left;
  for (size_t i = 0; i < machines.size(); ++i) {
    const int x = 20 + static_cast<int>(i) * (kMachineWidth + kGap);
    left[machines[i]] = x;
    svg += "<rect class=\"frame\" x=\"" + std::to_string(x) + "\" y=\"16\" rx=\"6\" width=\"" +
           std::to_string(kMachineWidth) + "\" height=\"" + std::to_string(bottom - 20) + "\"/>";
    svg += "<text x=\"" + std::to_string(x + 12) + "\" y=\"38\" font-weight=\"600\">" +
           Escape(Short(machines[i], 28)) + (machines[i] == Text(plan, "head") ? " (head)" : "") + "</text>";
    int y = kTop - 8;
    for (const Box& box : boxes.at(machines[i])) {
      svg += "<g><title>" + Escape(box.title + ": " + box.detail) + "</title><rect class=\"" + box.style +
             "\" x=\"" + std::to_string(x + 12) + "\" y=\"" + std::to_string(y) + "\" rx=\"4\" width=\"" +
             std::to_string(kMachineWidth - 24) + "\" height=\"" + std::to_string(kRow + 4) + "\"/>";
      svg += "<text x=\"" + std::to_string(x + 20) + "\" y=\"" + std::to_string(y + 14) + "\">" +
             Escape(Short(box.title, 32)) + "</text>";
      svg += "<text class=\"soft\" x=\"" + std::to_string(x + 20) + "\" y=\"" + std::to_string(y + 28) +
             "\" font-size=\"10\">" + Escape(Short(box.detail, 38)) + "</text></g>";
      y += kRow + 10;
    }
  }
  int y = bottom + 14;
  for (const Json& link : stack.value("links", Json::array())) {
    const auto from = left.find(Text(link, "from")), to = left.find(Text(link, "to"));
    if (from == left.end() || to == left.end()) continue;
    const int middle = kMachineWidth / 2;
    svg += "<g><title>KV travels from " + Escape(from->first) + " to " + Escape(to->first) + " over " +
           Escape(Text(link, "path")) + "</title>";
    svg += "<line class=\"link\" x1=\"" + std::to_string(from->second + middle) + "\" y1=\"" +
           std::to_string(y) + "\" x2=\"" + std::to_string(to->second + middle) + "\" y2=\"" +
           std::to_string(y) + "\" marker-end=\"url(#arrow)\"/>";
    svg += "<text x=\"" + N((from->second + to->second) / 2.0 + middle) + "\" y=\"" + std::to_string(y - 3) +
           "\" text-anchor=\"middle\" font-size=\"10\">KV over " + Escape(Text(link, "path")) + "</text></g>";
    y += 16;
  }
  return svg + "</svg>";
}

}  // namespace

std::string DrawPlan(const std::string& text, const std::string& name) {
  const auto plan = ParseJson(text, "plan.json");
  if (!plan.ok() || !plan->is_object()) return "";
  try {
    for (const Json& stack : plan->value("stacks", Json::array())) {
      if (stack.is_object() && Text(stack, "name") == name) return Draw(*plan, stack);
    }
  } catch (const nlohmann::json::exception&) {
    return "";  // a plan of another shape than ours: the tables beside the drawing still stand
  }
  return "";
}

std::vector<Step> StepsOf(const results::Directory& directory) {
  struct Raw {
    std::string row, label, kind, from, to;
  };
  std::vector<Raw> raw;
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
  for (const auto& [cycle, verify] : directory.verifies)
    raw.push_back({row(cycle), "Verify", verify.passed ? "" : "bad", verify.started, verify.ended});
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
    svg += "<text x=\"0\" y=\"" + std::to_string(y + 15) + "\">" + Escape(Short(rows[i], 26)) + "</text>";
    svg += "<line class=\"axis\" x1=\"" + std::to_string(kLeft) + "\" x2=\"" +
           std::to_string(kLeft + kWidth) + "\" y1=\"" + std::to_string(y + 22) + "\" y2=\"" +
           std::to_string(y + 22) + "\"/>";
    for (const Step& step : steps) {
      if (step.row != rows[i]) continue;
      const double x = kLeft + step.from / end * kWidth,
                   width = std::max(2.0, (step.to - step.from) / end * kWidth);
      svg += "<g><title>" + Escape(step.label + ": " + FormatValue(step.to - step.from, "s")) +
             "</title><rect class=\"step " + step.kind + "\" x=\"" + N(x) + "\" y=\"" +
             std::to_string(y + 3) + "\" width=\"" + N(width) + "\" height=\"16\" rx=\"2\"/></g>";
    }
  }
  for (int i = 0; i <= 5; ++i) {
    svg += "<text class=\"soft\" x=\"" + N(kLeft + kWidth * i / 5.0) + "\" y=\"" +
           std::to_string(height - 8) + "\" text-anchor=\"" +
           (i == 0   ? "start"
            : i == 5 ? "end"
                     : "middle") +
           "\">" + Escape(FormatValue(end * i / 5.0, "s")) + "</text>";
  }
  return svg + "</svg>";
}

}  // namespace poolmark::report
