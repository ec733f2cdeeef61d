// The sections about what the numbers rest on: plan, sources, files.
#include <algorithm>
#include <map>

#include "common/base/units.h"
#include "common/report/drawing.h"
#include "common/report/format.h"
#include "common/report/sections.h"
#include "common/report/text.h"

namespace poolmark::report {

std::string PlanSection(const Recomputed& job) {
  std::string out;
  for (const auto& stack : job.directory.job.stacks) {
    out += "<h3>" + EscapeHtml(stack.name) + " <small>" + EscapeHtml(stack.strategy) + "</small> " +
           (stack.simulated ? Badge("simulated", "warn") : "") +
           (stack.name == job.directory.job.baseline ? " " + Badge("baseline", "") : "") + "</h3>";
    const std::string drawing = DrawPlan(job.directory.plan, stack.name);
    out += drawing.empty() ? "<p class=\"soft\">The plan of this stack is not in the directory.</p>"
                           : "<div class=\"scroll\" role=\"region\" tabindex=\"0\" aria-label=\"Plan of " +
                                 EscapeHtml(stack.name) + "\">" + drawing + "</div>" +
                                 PlanTable(job.directory.plan, stack.name);
  }
  return out;
}

std::string SourcesSection(const Recomputed& job) {
  if (!job.directory.manifest)
    return "<p class=\"bad\">There is no readable manifest: no source of any number is recorded.</p>";
  const auto& manifest = *job.directory.manifest;
  std::string out;
  std::vector<std::vector<std::string>> rows;
  for (const auto& measure : manifest.measures)
    rows.push_back({EscapeHtml(measure.measure), EscapeHtml(measure.source), EscapeHtml(measure.detail)});
  if (!rows.empty())
    out += "<h3>Measures</h3>" + Table("Sources of the measures", {"Measure", "Source", "Detail"}, rows);
  rows.clear();
  for (const auto& machine : manifest.machines) {
    for (const auto& tool : machine.tools) {
      rows.push_back(
          {EscapeHtml(machine.name), EscapeHtml(tool.measure), EscapeHtml(tool.name + " " + tool.version),
           tool.sha256.empty() ? "–" : "<code>" + EscapeHtml(tool.sha256.substr(0, 16)) + "</code>",
           tool.pinned ? "pinned" : "own reader", EscapeHtml(tool.fallback_reason)});
    }
    if (!machine.tools_missing.empty())
      rows.push_back({EscapeHtml(machine.name), EscapeHtml(machine.tools_missing),
                      Badge("no tool recorded", "bad"), "–", "–", ""});
  }
  out += "<h3>Tools on each machine</h3>" +
         Table("Tools", {"Machine", "Counters", "Tool", "SHA-256", "Kind", "Why not the exporter"}, rows);
  rows.clear();
  for (const auto& machine : manifest.machines) {
    std::string gpus, nics;
    for (const auto& gpu : machine.gpus)
      gpus += (gpus.empty() ? "" : "<br>") + EscapeHtml(gpu.vendor + " " + gpu.model + ", driver " +
                                                        gpu.driver + ", " + FormatBytes(gpu.memory_bytes));
    for (const auto& nic : machine.nics)
      nics += (nics.empty() ? "" : "<br>") +
              EscapeHtml(nic.device + " " + nic.driver + ", " +
                         (!nic.speed_mbit           ? "speed not told by the driver"
                          : *nic.speed_mbit >= 1000 ? std::to_string(*nic.speed_mbit / 1000) + " Gbit/s"
                                                    : std::to_string(*nic.speed_mbit) + " Mbit/s") +
                         ", MTU " + std::to_string(nic.mtu));
    rows.push_back({EscapeHtml(machine.name), EscapeHtml(machine.address),
                    EscapeHtml(machine.os + ", " + machine.kernel),
                    EscapeHtml(machine.cpu + ", " + std::to_string(machine.cores) + " cores, " +
                               FormatBytes(machine.memory_bytes)),
                    gpus.empty() ? "none" : gpus, nics.empty() ? "–" : nics,
                    EscapeHtml(machine.agent_version)});
  }
  out +=
      "<h3>Machines</h3>" +
      Table("Machines",
            {"Machine", "Address", "System", "Processor and memory", "GPUs", "Network cards", "Agent"}, rows);
  rows.clear();
  for (const auto& engine : manifest.engines) {
    rows.push_back({EscapeHtml(engine.process), EscapeHtml(engine.machine),
                    EscapeHtml(engine.name + " " + engine.version) +
                        (engine.simulated ? " " + Badge("simulated", "warn") : ""),
                    EscapeHtml(engine.model), EscapeHtml(engine.role),
                    "<code>" + EscapeHtml(engine.image.empty() ? engine.digest.substr(0, 16) : engine.image) +
                        "</code>"});
  }
  out += "<h3>Engines, caches and routers</h3>" +
         Table("Engines", {"Process", "Machine", "Program", "Model", "Role", "Image or digest"}, rows);
  rows.clear();
  for (const auto& series : manifest.series) {
    rows.push_back({"<code>" + EscapeHtml(series.series) + "</code>", EscapeHtml(series.figure),
                    EscapeHtml(series.dialect + " " + series.version),
                    series.confirmed ? Badge("confirmed", "good") : Badge("unconfirmed", "warn"),
                    EscapeHtml(series.evidence)});
  }
  if (!rows.empty())
    out += "<h3>Series read</h3>" +
           Table("Series", {"Series", "For", "Of", "Seen on a live engine", "Evidence"}, rows);
  rows.clear();
  for (const auto& device : manifest.switches) {
    const std::string state = device.ignored     ? "ignored"
                              : !device.readable ? "cannot be read"
                              : device.read      ? "read by " + device.reader + " every " +
                                                  std::to_string(device.interval_seconds) + " s"
                                            : "not read";
    rows.push_back(
        {EscapeHtml(device.name), EscapeHtml(device.os), EscapeHtml(state),
         device.clock_offset_seconds ? EscapeHtml(FormatValue(*device.clock_offset_seconds, "s")) : "–",
         EscapeHtml(device.problem)});
  }
  if (!rows.empty())
    out += "<h3>Switches</h3>" +
           Table("Switches", {"Switch", "System", "State", "Clock offset", "Problem"}, rows);
  return out;
}

std::string FilesSection(const Recomputed& job) {
  std::string out =
      "<p>This page was computed from the files beside it. <code>poolmark report DIR</code> computes it "
      "again.</p>";
  std::vector<std::string> problems, differences;
  for (const auto& problem : job.problems) problems.push_back(problem.path + ": " + problem.message);
  for (const auto& one : job.differences)
    differences.push_back(one.file + ": " + one.path + " is " + one.stored + ", computed again it is " +
                          one.computed);
  out += Box("bad", "Files that could not be read or were changed", problems);
  out += Box("warn", "Stored figures that differ from what the files give", differences);
  if (problems.empty() && differences.empty())
    out += "<p class=\"good\">" + EscapeHtml(FollowsText(job)) + "</p>";
  return out;
}

}  // namespace poolmark::report
