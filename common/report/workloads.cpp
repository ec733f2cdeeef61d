#include "common/report/workloads.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "common/base/json.h"
#include "common/report/charts.h"
#include "common/report/format.h"
#include "common/report/sections.h"
#include "common/results/layout.h"
#include "common/workload/stored_settings.h"

namespace poolmark::report {
namespace {

using results::JobWorkload;
using Names = std::map<std::string, std::string>;

Result<Json> OptionsOf(const JobWorkload& workload) {
  return ParseJson(workload.options, "the settings of workload " + workload.name);
}

Result<workload::WorkloadSpec> SpecOf(const JobWorkload& workload) {
  POOLMARK_ASSIGN_OR_RETURN(const Json options, OptionsOf(workload));
  return workload::ParseStored(options);
}

// Those that are shown otherwise than they are called.
Names ScaledNames(const results::JobFile& job) {
  Names out;
  for (const JobWorkload& workload : job.workloads) {
    const std::string shown = ShownName(workload);
    if (shown != workload.name) out[workload.name] = shown;
  }
  return out;
}

void Rename(const Names& names, std::string* name) {
  if (const auto at = names.find(*name); at != names.end()) *name = at->second;
}

void Rename(const Names& names, std::vector<results::RepeatFile>* repeats) {
  for (auto& repeat : *repeats) Rename(names, &repeat.facts.point.workload);
}

void Rename(const Names& names, std::vector<results::SummaryPoint>* points) {
  for (auto& point : *points) Rename(names, &point.point.workload);
}

std::string InOrder(const std::vector<std::string>& list) {
  std::string out;
  for (const auto& item : list) out += (out.empty() ? "" : ", ") + item;
  return out;
}

std::string InputOf(const JobWorkload& workload) {
  return workload.input.empty() ? "too big to keep" : workload.input;
}

}  // namespace

Ratio TokenScaleOf(const JobWorkload& workload) {
  if (const auto used = workload::StoredScale(workload.options)) return *used;
  const auto stored = ParseRatio(workload.token_scale);
  return stored.ok() ? workload::Reduced(*stored) : Ratio{};
}

std::string ShownName(const JobWorkload& workload) {
  return workload::ScaledName(workload.name, TokenScaleOf(workload));
}

std::string ShownName(const results::JobFile& job, const std::string& workload) {
  for (const JobWorkload& one : job.workloads) {
    if (one.name == workload) return ShownName(one);
  }
  return workload;
}

std::optional<Recomputed> WithScaledNames(const Recomputed& job) {
  const Names names = ScaledNames(job.directory.job);
  if (names.empty()) return std::nullopt;
  Recomputed out = job;
  for (auto& workload : out.directory.job.workloads) Rename(names, &workload.name);
  Rename(names, &out.directory.repeats);
  Rename(names, &out.repeats);
  Rename(names, &out.summary.points);
  for (auto& one : out.summary.comparisons) Rename(names, &one.workload);
  for (const auto& [stored, shown] : names) out.stored_names[shown] = stored;
  return out;
}

std::optional<JobComparison> WithScaledNames(const JobComparison& comparison) {
  // What is compared has the same scale in all jobs.
  std::optional<JobComparison> out;
  for (size_t i = 0; i < comparison.jobs.size(); ++i) {
    const Names names = ScaledNames(comparison.jobs[i].job);
    if (names.empty()) continue;
    if (!out) out = comparison;
    Rename(names, &out->jobs[i].points);
    Rename(names, &out->jobs[i].repeats);
    for (auto& workload : out->jobs[i].job.workloads) Rename(names, &workload.name);
    if (i > 0) continue;
    for (auto& one : out->comparisons) Rename(names, &one.workload);
  }
  return out;
}

std::string StoredDirectory(const Recomputed& job, const results::RepeatFile& repeat) {
  results::PointId point = repeat.facts.point;
  Rename(job.stored_names, &point.workload);
  return results::RepeatDir(point.stack, point.workload, point.level, repeat.facts.repeat);
}

void CheckTokenScales(const results::JobFile& job, std::vector<Difference>* differences) {
  for (size_t i = 0; i < job.workloads.size(); ++i) {
    const JobWorkload& workload = job.workloads[i];
    const auto used = workload::StoredScale(workload.options);
    if (!used) continue;  // told where they were needed
    const auto stored = ParseRatio(workload.token_scale);
    if (stored.ok() && workload::Reduced(*stored) == *used) continue;
    differences->push_back({std::string(results::kJobFile),
                            "workloads[" + std::to_string(i) + "].token_scale", workload.token_scale,
                            FormatRatio(*used)});
  }
}

std::vector<std::string> ReplayNotesOf(const JobWorkload& workload) {
  const auto spec = SpecOf(workload);
  return spec.ok() ? workload::ReplayNotes(*spec) : std::vector<std::string>();
}

std::string ReplayBox(const JobWorkload& workload) {
  return Box("warn", kScaledLoad, ReplayNotesOf(workload));
}

std::string WorkloadsSection(const Recomputed& job) {
  std::string out;
  for (const JobWorkload& workload : job.directory.job.workloads) {
    std::vector<std::vector<std::string>> rows;
    const auto row = [&](const std::string& name, const std::string& value, const std::string& source) {
      rows.push_back({EscapeHtml(name), EscapeHtml(value), EscapeHtml(source)});
    };
    std::vector<std::string> levels;
    for (const std::string& level : workload.levels) levels.push_back(LevelTitle(level));
    row("load levels", InOrder(levels), "job file");
    const auto options = OptionsOf(workload);
    const auto settings = options.ok() ? workload::SettingsOf(*options)
                                       : Result<std::vector<workload::Setting>>(options.status());
    if (settings.ok()) {
      for (const auto& setting : *settings)
        row(setting.name, setting.value, setting.written ? "job file" : "default");
    }
    if (!workload.input_sha256.empty()) {
      row("input", InputOf(workload), "results directory");
      row("input, SHA-256", workload.input_sha256, "taken at submission");
    }
    out += "<h3>" + EscapeHtml(workload.name) + " <small>workload, " + EscapeHtml(workload.shape) +
           "</small></h3>";
    out += ReplayBox(workload);
    if (!settings.ok())
      out += "<p class=\"bad\">The settings cannot be read: " +
             EscapeHtml(std::string(settings.status().message())) + "</p>";
    out += Table("Settings of workload " + workload.name, {"Setting", "Value", "From"}, rows);
  }
  if (out.empty()) return "<p class=\"soft\">The job has no workload.</p>";
  return "<p>With these, the inputs and the job's seed " + std::to_string(job.directory.job.seed) +
         " another run sends the same; docs/workloads.md says what each means.</p>" + out;
}

std::vector<std::string> WorkloadLines(const results::JobFile& job) {
  std::vector<std::string> out;
  for (const JobWorkload& workload : job.workloads) {
    std::string line = "workload " + workload.name + ": " + workload.shape;
    const auto options = OptionsOf(workload);
    const auto settings = options.ok() ? workload::SettingsOf(*options)
                                       : Result<std::vector<workload::Setting>>(options.status());
    if (settings.ok()) {
      for (const auto& setting : *settings) line += ", " + setting.name + " " + setting.value;
    } else {
      line += ", its settings cannot be read";
    }
    if (!workload.input_sha256.empty())
      line += ", input " + InputOf(workload) + " (SHA-256 " + workload.input_sha256 + ")";
    out.push_back(std::move(line));
  }
  return out;
}

}  // namespace poolmark::report
