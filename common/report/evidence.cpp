// The sections about how the job ran: steps, checks, plan, sources of the numbers, files.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "common/base/json.h"
#include "common/base/units.h"
#include "common/report/charts.h"
#include "common/report/drawing.h"
#include "common/report/format.h"
#include "common/report/sections.h"

namespace poolmark::report {
namespace {

std::string Outcome(const std::string& outcome) {
  return Badge(outcome, outcome == "pass"                                ? "good"
                        : outcome == "fail"                              ? "bad"
                        : outcome == "note" || outcome == "not_measured" ? "warn"
                                                                         : "");
}

std::vector<std::vector<std::string>> CheckRows(const std::vector<results::CheckEntry>& checks) {
  std::vector<std::vector<std::string>> rows;
  for (const auto& check : checks) {
    rows.push_back({Escape(check.id), Escape(check.machine.empty() ? "pool" : check.machine),
                    Outcome(check.outcome), Escape(check.expected), Escape(check.observed),
                    Escape(check.outcome == "fail" ? check.hint : "")});
  }
  return rows;
}

std::string Proofs(const results::VerifyRecord& verify) {
  std::vector<std::vector<std::string>> rows;
  for (const auto& [check, proofs] : verify.proofs) {
    for (const auto& proof : proofs) {
      rows.push_back({Escape(check), Escape(proof.process), "<code>" + Escape(proof.series) + "</code>",
                      Escape(FormatValue(proof.before, "")), Escape(FormatValue(proof.after, "")),
                      Escape(proof.expected)});
    }
  }
  return rows.empty() ? ""
                      : Table("Counters that prove it",
                              {"Check", "Process", "Series", "Before", "After", "Expected"}, rows);
}

std::string LineRates(const results::PreflightRecord& preflight) {
  if (preflight.line_rates.empty()) return "";
  std::vector<std::vector<std::string>> rows;
  for (const auto& rate : preflight.line_rates) {
    const auto latency = [](const Measured<double>& value) {
      return value.has_value() ? FormatValue(*value * 1e-6, "s") : std::string("–");
    };
    rows.push_back({Escape(rate.from + " → " + rate.to), Escape(rate.path),
                    Escape(rate.tool + " " + rate.tool_version),
                    rate.bits_per_second.has_value()
                        ? Escape(FormatBitRate(*rate.bits_per_second))
                        : "<span class=\"none\">" + Escape(rate.bits_per_second.reason()) + "</span>",
                    std::to_string(rate.runs.size()) + " × " + std::to_string(rate.seconds) + " s",
                    Escape(latency(rate.latency_p50_us)), Escape(latency(rate.latency_p99_us))});
  }
  return "<h3>Line rate</h3>" +
         Table("Line rate", {"Machines", "Path", "Tool", "Best run", "Runs", "Latency P50", "P99"}, rows);
}

}  // namespace

std::string StepsSection(const Recomputed& job) {
  const auto& directory = job.directory;
  std::string out;
  const auto steps = StepsOf(directory);
  if (!steps.empty()) {
    out += "<div class=\"scroll\" role=\"region\" tabindex=\"0\" aria-label=\"Timeline\">" +
           DrawTimeline(steps) + "</div>";
    std::vector<std::vector<std::string>> rows;
    for (const Step& step : steps)
      rows.push_back({Escape(step.row), Escape(step.label), Escape(FormatValue(step.from, "s")),
                      Escape(FormatValue(step.to - step.from, "s"))});
    out += "<details><summary>Times of the steps</summary>" +
           Table("Times of the steps", {"Row", "Step", "Begins", "Takes"}, rows) + "</details>";
  }
  if (directory.preflight) {
    out += "<h3>Preflight " +
           std::string(directory.preflight->passed
                           ? Badge("passed", "good")
                           : Badge("failed: " + directory.preflight->failed_check, "bad")) +
           "</h3>";
    out += Table("Preflight checks", {"Check", "Machine", "Outcome", "Expected", "Observed", "What to do"},
                 CheckRows(directory.preflight->checks));
    out += LineRates(*directory.preflight);
  }
  for (const auto& [cycle, verify] : directory.verifies) {
    out += "<h3>Verification, cycle " + std::to_string(cycle) + ", " + Escape(verify.stack) + " " +
           (verify.passed ? Badge("passed", "good") : Badge("failed: " + verify.failed_check, "bad")) +
           "</h3>";
    if (!verify.diagnosis.empty()) out += "<p>" + Escape(verify.diagnosis) + "</p>";
    out += "<details><summary>Checks and counters</summary>" +
           Table("Verification", {"Check", "Machine", "Outcome", "Expected", "Observed", "What to do"},
                 CheckRows(verify.checks)) +
           Proofs(verify) + "</details>";
  }
  for (const auto& [cycle, teardown] : directory.teardowns) {
    out += "<h3>Tear-down, cycle " + std::to_string(cycle) + " " +
           Badge(teardown.outcome, teardown.outcome == "CLEAN" ? "good" : "bad") + "</h3><p class=\"soft\">" +
           Escape(teardown.cause) + ". " + std::to_string(teardown.items.size()) + " items.</p>" +
           Box("bad", "Left over", teardown.leftovers);
    std::vector<std::vector<std::string>> rows;
    for (const auto& item : teardown.items)
      rows.push_back({Escape(item.name), Escape(item.machine), Escape(item.kind),
                      Escape(item.state) + (item.forced ? " <small>(forced)</small>" : ""),
                      Escape(item.proof)});
    if (!rows.empty())
      out += "<details><summary>Items and proof</summary>" +
             Table("Tear-down", {"Item", "Machine", "Kind", "State", "Proof"}, rows) + "</details>";
  }
  return out;
}

std::string PlanSection(const Recomputed& job) {
  std::string out;
  for (const auto& stack : job.directory.job.stacks) {
    out += "<h3>" + Escape(stack.name) + " <small>" + Escape(stack.strategy) + "</small> " +
           (stack.simulated ? Badge("simulated", "warn") : "") +
           (stack.name == job.directory.job.baseline ? " " + Badge("baseline", "") : "") + "</h3>";
    const std::string drawing = DrawPlan(job.directory.plan, stack.name);
    out += drawing.empty() ? "<p class=\"soft\">The plan of this stack is not in the directory.</p>"
                           : "<div class=\"scroll\" role=\"region\" tabindex=\"0\" aria-label=\"Plan of " +
                                 Escape(stack.name) + "\">" + drawing + "</div>";
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
    rows.push_back({Escape(measure.measure), Escape(measure.source), Escape(measure.detail)});
  if (!rows.empty())
    out += "<h3>Measures</h3>" + Table("Sources of the measures", {"Measure", "Source", "Detail"}, rows);
  rows.clear();
  for (const auto& machine : manifest.machines) {
    for (const auto& tool : machine.tools) {
      rows.push_back({Escape(machine.name), Escape(tool.measure), Escape(tool.name + " " + tool.version),
                      tool.sha256.empty() ? "–" : "<code>" + Escape(tool.sha256.substr(0, 16)) + "</code>",
                      tool.pinned ? "pinned" : "own reader", Escape(tool.fallback_reason)});
    }
    if (!machine.tools_missing.empty())
      rows.push_back({Escape(machine.name), Escape(machine.tools_missing), Badge("no tool recorded", "bad"),
                      "–", "–", ""});
  }
  out += "<h3>Tools on each machine</h3>" +
         Table("Tools", {"Machine", "Counters", "Tool", "SHA-256", "Kind", "Why not the exporter"}, rows);
  rows.clear();
  for (const auto& machine : manifest.machines) {
    std::string gpus, nics;
    for (const auto& gpu : machine.gpus)
      gpus += (gpus.empty() ? "" : "<br>") + Escape(gpu.vendor + " " + gpu.model + ", driver " + gpu.driver +
                                                    ", " + FormatBytes(gpu.memory_bytes));
    for (const auto& nic : machine.nics)
      nics += (nics.empty() ? "" : "<br>") +
              Escape(nic.device + " " + nic.driver + " " + std::to_string(nic.speed_mbit / 1000) +
                     " Gbit/s, MTU " + std::to_string(nic.mtu));
    rows.push_back({Escape(machine.name), Escape(machine.address), Escape(machine.os + ", " + machine.kernel),
                    Escape(machine.cpu + ", " + std::to_string(machine.cores) + " cores, " +
                           FormatBytes(machine.memory_bytes)),
                    gpus.empty() ? "none" : gpus, nics.empty() ? "–" : nics, Escape(machine.agent_version)});
  }
  out +=
      "<h3>Machines</h3>" +
      Table("Machines",
            {"Machine", "Address", "System", "Processor and memory", "GPUs", "Network cards", "Agent"}, rows);
  rows.clear();
  for (const auto& engine : manifest.engines) {
    rows.push_back(
        {Escape(engine.process), Escape(engine.machine),
         Escape(engine.name + " " + engine.version) +
             (engine.simulated ? " " + Badge("simulated", "warn") : ""),
         Escape(engine.model), Escape(engine.role),
         "<code>" + Escape(engine.image.empty() ? engine.digest.substr(0, 16) : engine.image) + "</code>"});
  }
  out += "<h3>Engines, caches and routers</h3>" +
         Table("Engines", {"Process", "Machine", "Program", "Model", "Role", "Image or digest"}, rows);
  rows.clear();
  for (const auto& series : manifest.series) {
    rows.push_back({"<code>" + Escape(series.series) + "</code>", Escape(series.figure),
                    Escape(series.dialect + " " + series.version),
                    series.confirmed ? Badge("confirmed", "good") : Badge("unconfirmed", "warn"),
                    Escape(series.evidence)});
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
        {Escape(device.name), Escape(device.os), Escape(state),
         device.clock_offset_seconds ? Escape(FormatValue(*device.clock_offset_seconds, "s")) : "–",
         Escape(device.problem)});
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
    out += "<p class=\"good\">Every stored figure and verdict follows from the files.</p>";
  return out;
}

}  // namespace poolmark::report
