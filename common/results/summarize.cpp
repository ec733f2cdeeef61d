#include "common/results/summarize.h"

#include <algorithm>
#include <map>

#include "common/results/comparisons.h"
#include "common/results/figures.h"
#include "common/results/layout.h"
#include "common/results/requests_file.h"
#include "common/stats/publication.h"

namespace poolmark::results {
namespace {

SummaryFigure FigureOf(const std::string& name, const std::string& unit,
                       const std::vector<std::vector<NamedFigure>>& all, const std::vector<bool>& counts) {
  SummaryFigure out;
  out.unit = unit;
  std::vector<double> values;
  std::string missing;
  for (size_t i = 0; i < all.size(); ++i) {
    const auto at = std::find_if(all[i].begin(), all[i].end(),
                                 [&](const NamedFigure& figure) { return figure.name == name; });
    const Measured<double> value =
        at == all[i].end() ? Measured<double>(NotMeasured{"not among this repeat's figures"}) : at->value;
    out.repeats.push_back(value);
    if (!counts[i]) continue;
    if (value.has_value())
      values.push_back(*value);
    else
      missing = value.reason();
  }
  const auto interval = stats::MeanInterval(values);
  if (!interval) {
    out.mean = NotMeasured{missing.empty() ? "no repeat counts" : missing};
    return out;
  }
  out.n = interval->n;
  out.mean = interval->mean;
  out.deviation = interval->deviation;
  out.low = interval->low();
  out.high = interval->high();
  return out;
}

void AddOnce(const std::vector<std::string>& from, std::vector<std::string>* to) {
  for (const auto& text : from) {
    if (std::find(to->begin(), to->end(), text) == to->end()) to->push_back(text);
  }
}

// Engines that were not read in the repeats that count.
std::vector<std::string> UnreadIn(const std::vector<const RepeatFile*>& repeats) {
  std::vector<std::string> unread;
  for (const RepeatFile* repeat : repeats) {
    if (!repeat->figures.valid) continue;
    for (const stats::EngineFacts& engine : repeat->facts.engines) {
      if (engine.unreadable.empty() || engine.role == stats::EngineFacts::Role::kDecode) continue;
      unread.push_back("repeat " + std::to_string(repeat->facts.repeat) + ": " + engine.process + " (" +
                       engine.unreadable + ")");
    }
  }
  return unread;
}

// Pairs whose network path was not judged in the repeats that count: that they are valid says nothing of it.
std::vector<std::string> UnjudgedIn(const std::vector<const RepeatFile*>& repeats) {
  std::vector<std::string> unjudged;
  for (const RepeatFile* repeat : repeats) {
    if (!repeat->figures.valid) continue;
    for (const stats::PathEvidence& path : repeat->facts.evidence.paths) {
      const stats::PathJudgement judged = stats::JudgePath(path);
      if (judged.verdict != stats::PathVerdict::kNotMeasured) continue;
      unjudged.push_back("repeat " + std::to_string(repeat->facts.repeat) + ": " + judged.detail);
    }
  }
  return unjudged;
}

SummaryPoint PointOf(const ManifestFile& manifest, const std::vector<const RepeatFile*>& repeats) {
  SummaryPoint out;
  const RepeatFile& first = *repeats.front();
  out.point = first.facts.point;
  out.strategy = first.facts.strategy;
  out.shape = first.facts.shape;
  out.simulated = first.facts.simulated;
  std::vector<std::vector<NamedFigure>> figures;
  std::vector<bool> counts;
  uint64_t valid = 0;
  for (const RepeatFile* repeat : repeats) {
    figures.push_back(FiguresOf(*repeat));
    counts.push_back(repeat->figures.valid);
    valid += repeat->figures.valid ? 1 : 0;
    out.simulated = out.simulated || repeat->facts.simulated;
    for (const stats::EngineFacts& engine : repeat->facts.engines)
      out.engine_cache = out.engine_cache || !engine.has_gpu;
    if (out.measured_line.empty() || repeat->figures.valid) out.measured_line = repeat->figures.measured_line;
    out.repeats.push_back(
        {repeat->facts.repeat, repeat->facts.cycle, repeat->figures.valid,
         RepeatDir(out.point.stack, out.point.workload, out.point.level, repeat->facts.repeat),
         repeat->figures.reasons, repeat->figures.warnings, repeat->figures.notes});
    AddOnce(repeat->figures.warnings, &out.warnings);
    AddOnce(repeat->figures.notes, &out.notes);
  }
  out.valid = valid > 0;
  out.preliminary = valid > 0 && valid < 3;
  out.diagnostic = valid == 0;
  if (out.diagnostic) counts.assign(counts.size(), true);
  for (const auto& list : figures) {
    for (const NamedFigure& figure : list) {
      if (!out.figures.contains(figure.name))
        out.figures[figure.name] = FigureOf(figure.name, figure.unit, figures, counts);
    }
  }
  out.held_back_by =
      HeldBackBy(manifest, out.point.stack, out.valid, out.simulated, UnreadIn(repeats), UnjudgedIn(repeats));
  out.publishable = out.held_back_by.empty();
  return out;
}

}  // namespace

std::vector<std::string> HeldBackBy(const ManifestFile& manifest, const std::string& stack, bool valid,
                                    bool simulated, std::vector<std::string> unread,
                                    std::vector<std::string> unjudged) {
  stats::PublicationFacts facts;
  facts.unread = std::move(unread);
  facts.unjudged = std::move(unjudged);
  facts.valid = valid;
  facts.simulated = simulated;
  std::vector<std::pair<std::string, std::string>> engines;  // dialect and version of this stack
  for (const auto& engine : manifest.engines) {
    if (engine.stack == stack) engines.emplace_back(engine.dialect, engine.version);
    if (engine.stack == stack && engine.simulated) facts.simulated = true;
  }
  for (const auto& machine : manifest.machines)
    facts.machines.push_back({machine.name, machine.tools_missing, machine.tools.size()});
  for (const auto& series : manifest.series) {
    const bool ours =
        engines.empty() ||
        std::find(engines.begin(), engines.end(), std::pair(series.dialect, series.version)) != engines.end();
    if (ours)
      facts.series.push_back(
          {series.figure, series.dialect, series.version, series.series, series.confirmed});
  }
  for (const auto& device : manifest.switches) {
    std::vector<std::string> unconfirmed;
    for (const auto& field : device.fields) {
      if (!field.confirmed) unconfirmed.push_back(field.field);
    }
    facts.switches.push_back({device.name, device.cabled, device.ignored, device.readable,
                              device.found_after_end, device.read, unconfirmed});
  }
  return stats::HeldBack(facts);
}

RequestsOf RequestsIn(std::string directory) {
  return [directory = std::move(directory)](const RepeatFile& repeat) {
    std::vector<PairedRequest> out;
    const auto& point = repeat.facts.point;
    const std::string path = directory + "/" +
                             RepeatDir(point.stack, point.workload, point.level, repeat.facts.repeat) + "/" +
                             std::string(kRequestsFile);
    // What cannot be read is named where the repeat's own figures are computed.
    if (!ComputeRepeat(repeat.facts, path, &out).ok()) out.clear();
    return out;
  };
}

SummaryFile Summarize(const JobFile& job, const ManifestFile& manifest,
                      const std::vector<RepeatFile>& repeats, const RequestsOf& requests) {
  SummaryFile out;
  out.job_id = job.job_id;
  out.state = job.state;
  out.baseline = job.baseline;
  std::map<PointId, std::vector<const RepeatFile*>> points;
  for (const RepeatFile& repeat : repeats) points[repeat.facts.point].push_back(&repeat);
  bool all_valid = !points.empty(), all_publishable = !points.empty();
  for (auto& [id, list] : points) {
    std::sort(list.begin(), list.end(),
              [](const auto* a, const auto* b) { return a->facts.repeat < b->facts.repeat; });
    out.points.push_back(PointOf(manifest, list));
    all_valid = all_valid && out.points.back().valid;
    all_publishable = all_publishable && out.points.back().publishable;
    AddOnce(out.points.back().held_back_by, &out.held_back_by);
  }
  // A job that ended early keeps its valid points, but not every check that applies to it passed.
  const bool ended_early = job.state == "FAILED" || job.state == "CANCELLED" || job.state == "REFUSED";
  out.verdict = points.empty() ? "NO_RESULT" : !all_valid ? "INVALID" : ended_early ? "INCOMPLETE" : "VALID";
  out.publishable = all_publishable && !ended_early;
  if (ended_early) out.held_back_by.push_back("the job did not run to its end");
  if (job.baseline.empty()) {
    out.notes.push_back("The job names no baseline: its results are compared with nothing.");
  } else {
    out.comparisons = Compare(job.baseline, repeats, requests);
  }
  return out;
}

}  // namespace poolmark::results
