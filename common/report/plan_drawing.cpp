// The plan of one stack as machines, processes, tiers and links; the same as a table.
#include <algorithm>
#include <cstdio>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "common/base/json.h"
#include "common/base/units.h"
#include "common/report/drawing.h"
#include "common/report/format.h"
#include "common/report/sections.h"

namespace poolmark::report {
namespace {

constexpr int kMachineWidth = 236, kGap = 46, kRow = 34, kTop = 56;
// More links between pairs are drawn as one bus for each path.
constexpr size_t kMaxLinks = 6;

std::string Text(const Json& json, const char* key) {
  const auto at = json.find(key);
  return at != json.end() && at->is_string() ? at->get<std::string>() : "";
}

std::string N(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%g", value);
  return text;
}

struct Item {
  std::string title, detail, style;
};
struct Link {
  std::string path, from, to;
  bool both = false;
};
struct Layout {
  std::string name, head;
  std::vector<std::string> machines;
  std::map<std::string, std::vector<Item>> boxes;  // processes in the order of the plan, then tiers
  std::vector<Link> links;                         // both directions of a pair as one
};

std::string Without(std::string id, const std::string& prefix) {
  return id.starts_with(prefix) ? id.substr(prefix.size()) : id;
}

std::string ProcessDetail(const Json& process, const std::string& entry) {
  std::string detail = Text(process, "role");
  const auto gpus = process.find("gpus");
  if (gpus != process.end() && gpus->is_array() && !gpus->empty())
    detail += ", " + std::to_string(gpus->size()) + " GPU" + (gpus->size() > 1 ? "s" : "");
  const auto ports = process.find("ports");
  if (ports != process.end() && ports->is_array() && !ports->empty())
    detail += ", port " + (*ports)[0].dump();
  if (!entry.empty() && Text(process, "url") == entry) detail += ", entry of the load";
  return detail;
}

Layout LayOut(const Json& plan, const Json& stack) {
  Layout out;
  out.name = Text(stack, "name");
  out.head = Text(plan, "head");
  const std::string prefix = out.name + ".";
  for (const Json& process : stack.value("processes", Json::array()))
    out.boxes[Text(process, "machine")].push_back(
        {Without(Text(process, "id"), prefix), ProcessDetail(process, Text(stack, "entry_url")), "process"});
  for (const Json& tier : stack.value("tiers", Json::array())) {
    const auto bytes = tier.find("bytes");
    const std::string size =
        bytes != tier.end() && bytes->is_number_unsigned() ? " " + FormatBytes(bytes->get<uint64_t>()) : "";
    out.boxes[Text(tier, "machine")].push_back(
        {"tier: " + Text(tier, "source") + size, "held by " + Without(Text(tier, "owner"), prefix), "tier"});
  }
  for (const Json& machine : plan.value("machines", Json::array())) {
    if (out.boxes.contains(Text(machine, "name"))) out.machines.push_back(Text(machine, "name"));
  }
  for (const Json& json : stack.value("links", Json::array())) {
    const Link link = {Text(json, "path"), Text(json, "from"), Text(json, "to")};
    const auto known = [&](const std::string& name) {
      return std::find(out.machines.begin(), out.machines.end(), name) != out.machines.end();
    };
    if (!known(link.from) || !known(link.to)) continue;
    const auto back = std::find_if(out.links.begin(), out.links.end(), [&](const Link& one) {
      return one.path == link.path && one.from == link.to && one.to == link.from;
    });
    if (back != out.links.end()) {
      back->both = true;
    } else {
      out.links.push_back(link);
    }
  }
  return out;
}

std::string SvgText(double x, double y, const std::string& text, const std::string& attributes = "") {
  return "<text x=\"" + N(x) + "\" y=\"" + N(y) + "\"" + attributes + ">" + EscapeHtml(text) + "</text>";
}

std::string Machine(const Layout& plan, const std::string& name, int x, int bottom) {
  std::string svg = "<rect class=\"frame\" x=\"" + std::to_string(x) + "\" y=\"8\" rx=\"6\" width=\"" +
                    std::to_string(kMachineWidth) + "\" height=\"" + std::to_string(bottom - 8) + "\"/>";
  svg +=
      SvgText(x + 12, 31, Shortened(name, 26) + (name == plan.head ? " (head)" : ""), " font-weight=\"600\"");
  int y = kTop - 12;
  for (const Item& box : plan.boxes.at(name)) {
    svg += "<g><title>" + EscapeHtml(box.title + ": " + box.detail) + "</title><rect class=\"" + box.style +
           "\" x=\"" + std::to_string(x + 10) + "\" y=\"" + std::to_string(y) + "\" rx=\"4\" width=\"" +
           std::to_string(kMachineWidth - 20) + "\" height=\"" + std::to_string(kRow) + "\"/>" +
           SvgText(x + 18, y + 14, Shortened(box.title, 28)) +
           SvgText(x + 18, y + 28, Shortened(box.detail, 34), " class=\"soft small\"") + "</g>";
    y += kRow + 6;
  }
  return svg;
}

std::string Line(double x1, double y1, double x2, double y2, const std::string& markers) {
  return "<line class=\"link\" x1=\"" + N(x1) + "\" y1=\"" + N(y1) + "\" x2=\"" + N(x2) + "\" y2=\"" + N(y2) +
         "\"" + markers + "/>";
}

// Links below the machines: a line for each pair, or a bus for each path where there are many.
std::string Links(const Layout& plan, int bottom, int* height) {
  std::map<std::string, double> middle;
  for (size_t i = 0; i < plan.machines.size(); ++i)
    middle[plan.machines[i]] = 16 + static_cast<double>(i) * (kMachineWidth + kGap) + kMachineWidth / 2.0;
  const std::string id = "arrow-" + std::to_string(std::hash<std::string>()(plan.name));
  const std::string end = " marker-end=\"url(#" + id + ")\"", start = " marker-start=\"url(#" + id + ")\"";
  std::string svg =
      "<defs><marker id=\"" + id +
      "\" viewBox=\"0 0 8 8\" refX=\"7\" refY=\"4\" markerWidth=\"7\" markerHeight=\"7\" "
      "orient=\"auto-start-reverse\"><path class=\"arrow\" d=\"M0,0 L8,4 L0,8 z\"/></marker></defs>";
  double y = bottom + 26;
  if (plan.links.size() <= kMaxLinks) {
    for (const Link& link : plan.links) {
      const double from = middle[link.from], to = middle[link.to];
      svg += "<g><title>KV travels " + std::string(link.both ? "between " : "from ") + EscapeHtml(link.from) +
             (link.both ? " and " : " to ") + EscapeHtml(link.to) + " over " + EscapeHtml(link.path) +
             "</title>";
      svg += Line(from, bottom, from, y, link.both ? start : "") + Line(from, y, to, y, "") +
             Line(to, y, to, bottom, end);
      svg +=
          SvgText((from + to) / 2, y - 4, "KV over " + link.path, " text-anchor=\"middle\" class=\"small\"") +
          "</g>";
      y += 22;
    }
  } else {
    std::map<std::string, std::pair<std::set<std::string>, std::set<std::string>>>
        paths;  // senders, receivers
    for (const Link& link : plan.links) {
      auto& [senders, receivers] = paths[link.path];
      senders.insert(link.from);
      receivers.insert(link.to);
      if (link.both) {
        senders.insert(link.to);
        receivers.insert(link.from);
      }
    }
    for (const auto& [path, ends] : paths) {
      double left = 1e9, right = 0;
      std::string drops;
      for (const auto& machine : plan.machines) {
        const bool sends = ends.first.contains(machine), receives = ends.second.contains(machine);
        if (!sends && !receives) continue;
        const double x = middle[machine];
        left = std::min(left, x);
        right = std::max(right, x);
        drops += Line(x, y, x, bottom, receives ? end : "");
      }
      svg += "<g><title>KV travels over " + EscapeHtml(path) + " between " +
             std::to_string(plan.links.size()) + " pairs of machines</title>" + drops +
             Line(left, y, right, y, "") +
             SvgText((left + right) / 2, y - 4,
                     "KV over " + path + ", " + std::to_string(plan.links.size()) + " pairs of machines",
                     " text-anchor=\"middle\" class=\"small\"") +
             "</g>";
      y += 22;
    }
  }
  *height = static_cast<int>(plan.links.empty() ? bottom + 10 : y);
  return svg;
}

std::string Draw(const Layout& plan) {
  size_t most = 1;
  for (const auto& [name, list] : plan.boxes) most = std::max(most, list.size());
  const int bottom = kTop - 12 + static_cast<int>(most) * (kRow + 6) + 6;
  int height = 0;
  const std::string links = Links(plan, bottom, &height);
  const std::string width = std::to_string(
      std::max<int>(280, static_cast<int>(plan.machines.size()) * (kMachineWidth + kGap) - kGap + 32));
  std::string svg = "<svg viewBox=\"0 0 " + width + " " + std::to_string(height) + "\" width=\"" + width +
                    "\" height=\"" + std::to_string(height) + "\" role=\"img\" aria-label=\"Plan of stack " +
                    EscapeHtml(plan.name) +
                    ": machines, processes, tiers and links; the table below says the same\">";
  for (size_t i = 0; i < plan.machines.size(); ++i)
    svg += Machine(plan, plan.machines[i], 16 + static_cast<int>(i) * (kMachineWidth + kGap), bottom);
  return svg + links + "</svg>";
}

// The stack of that name laid out; nothing for a plan of another shape than ours.
std::optional<Layout> Find(const std::string& text, const std::string& name) {
  const auto plan = ParseJson(text, "plan.json");
  if (!plan.ok() || !plan->is_object()) return std::nullopt;
  try {
    for (const Json& stack : plan->value("stacks", Json::array())) {
      if (stack.is_object() && Text(stack, "name") == name) return LayOut(*plan, stack);
    }
  } catch (const nlohmann::json::exception&) {
    return std::nullopt;
  }
  return std::nullopt;
}

}  // namespace

std::string DrawPlan(const std::string& plan_json, const std::string& stack) {
  const auto plan = Find(plan_json, stack);
  return plan ? Draw(*plan) : "";
}

std::string PlanTable(const std::string& plan_json, const std::string& stack) {
  const auto plan = Find(plan_json, stack);
  if (!plan) return "";
  std::vector<std::vector<std::string>> rows;
  for (const auto& machine : plan->machines) {
    for (const Item& box : plan->boxes.at(machine))
      rows.push_back({EscapeHtml(machine), EscapeHtml(box.title), EscapeHtml(box.detail)});
  }
  for (const Link& link : plan->links)
    rows.push_back({EscapeHtml(link.from + (link.both ? " ↔ " : " → ") + link.to), "link",
                    EscapeHtml("KV over " + link.path)});
  return "<details><summary>This plan as a table</summary>" +
         Table("Plan of " + stack, {"Machine", "Process or tier", "What it does"}, rows) + "</details>";
}

}  // namespace poolmark::report
