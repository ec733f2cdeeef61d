#include "common/results/summarize.h"

#include <algorithm>
#include <map>
#include <set>

#include "common/results/comparisons.h"
#include "common/results/figures.h"
#include "common/results/held_back.h"
#include "common/results/layout.h"

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
  }
  out.valid = valid > 0;
  out.preliminary = valid > 0 && valid < 3;
  out.diagnostic = valid == 0;
  if (out.diagnostic) counts.assign(counts.size(), true);
  // What weakens the figures, not what weakened a repeat that is left out of them.
  for (size_t i = 0; i < repeats.size(); ++i) {
    if (!counts[i]) continue;
    out.client_limited = out.client_limited || repeats[i]->facts.client_limited;
    AddOnce(repeats[i]->figures.warnings, &out.warnings);
    AddOnce(repeats[i]->figures.notes, &out.notes);
  }
  for (const auto& list : figures) {
    for (const NamedFigure& figure : list) {
      if (!out.figures.contains(figure.name))
        out.figures[figure.name] = FigureOf(figure.name, figure.unit, figures, counts);
    }
  }
  out.held_back_by = HeldBackBy(manifest, repeats, out.valid, out.simulated);
  out.publishable = out.held_back_by.empty();
  return out;
}

}  // namespace

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

std::vector<std::string> MissingRepeats(const JobFile& job, const std::vector<RepeatFile>& repeats) {
  std::vector<std::string> out;
  if (job.state != "SUCCEEDED" && job.state != "INVALID") return out;
  std::set<std::pair<PointId, int>> there;
  for (const RepeatFile& one : repeats) there.emplace(one.facts.point, one.facts.repeat);
  for (const JobStack& stack : job.stacks) {
    for (const JobWorkload& workload : job.workloads) {
      for (const std::string& level : workload.levels) {
        const PointId point{stack.name, workload.name, level};
        for (int repeat = 1; repeat <= job.repeats; ++repeat) {
          if (!there.contains({point, repeat}))
            out.push_back(RepeatDir(stack.name, workload.name, level, repeat));
          if (out.size() == kMostMissing) return out;
        }
      }
    }
  }
  return out;
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
  const std::vector<std::string> missing = MissingRepeats(job, repeats);
  out.verdict = points.empty()                    ? "NO_RESULT"
                : !all_valid                      ? "INVALID"
                : ended_early || !missing.empty() ? "INCOMPLETE"
                                                  : "VALID";
  out.publishable = all_publishable && !ended_early && missing.empty();
  if (ended_early) out.held_back_by.push_back("the job did not run to its end");
  if (!missing.empty())
    out.held_back_by.push_back(
        std::to_string(missing.size()) + (missing.size() == kMostMissing ? " or more" : "") +
        " repeats that the job ran are missing: " + missing.front() + (missing.size() > 1 ? ", …" : ""));
  if (job.baseline.empty()) {
    out.notes.push_back("The job names no baseline: its results are compared with nothing.");
  } else {
    out.comparisons = Compare(job.baseline, repeats, requests);
  }
  return out;
}

}  // namespace poolmark::results
