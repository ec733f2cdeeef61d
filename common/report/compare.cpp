#include "common/report/compare.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "common/base/json.h"
#include "common/report/charts.h"
#include "common/results/comparisons.h"
#include "common/results/summarize.h"

namespace poolmark::report {
namespace {

using results::Directory;
using results::RepeatFile;

class Differences {
 public:
  Differences(std::string directory, std::vector<Unlike>* out)
      : directory_(std::move(directory)), out_(*out) {}
  void Same(const std::string& what, const std::string& first, const std::string& other, bool refuses) {
    if (first != other)
      out_.push_back({directory_, what, first.empty() ? "(nothing)" : first,
                      other.empty() ? "(nothing)" : other, refuses});
  }

 private:
  std::string directory_;
  std::vector<Unlike>& out_;
};

std::string Joined(std::vector<std::string> list) {
  std::sort(list.begin(), list.end());
  std::string out;
  for (const auto& item : list) out += (out.empty() ? "" : ", ") + item;
  return out;
}

// Settings of a workload without what may differ: where the file lies.
std::map<std::string, std::string> Settings(const results::JobWorkload& workload) {
  std::map<std::string, std::string> out = {
      {"shape", workload.shape}, {"input", workload.input_sha256}, {"token_scale", workload.token_scale}};
  const auto json = ParseJson(workload.options, workload.name);
  if (!json.ok() || !json->is_object()) return out;
  for (const auto& [key, value] : json->items()) {
    if (key != "file" && key != "concurrency" && key != "rate" && key != "speedup" && key != "model")
      out[key] = value.dump();
  }
  return out;
}

void CompareWorkloads(const Directory& first, const Directory& other, Differences* differences) {
  for (const auto& left : first.job.workloads) {
    const auto right = std::find_if(other.job.workloads.begin(), other.job.workloads.end(),
                                    [&](const auto& one) { return one.name == left.name; });
    if (right == other.job.workloads.end()) continue;
    auto a = Settings(left), b = Settings(*right);
    for (const auto& [key, value] : a)
      differences->Same("workload " + left.name + ": " + key, value, b[key], true);
    for (const auto& [key, value] : b) {
      if (!a.contains(key)) differences->Same("workload " + left.name + ": " + key, "", value, true);
    }
  }
}

std::string Machines(const results::ManifestFile& manifest) {
  std::vector<std::string> list;
  for (const auto& machine : manifest.machines) {
    std::map<std::string, int> gpus;
    for (const auto& gpu : machine.gpus) ++gpus[gpu.model];
    std::string text = machine.cpu + " " + std::to_string(machine.cores) + " cores";
    for (const auto& [model, count] : gpus) text += " + " + std::to_string(count) + " x " + model;
    list.push_back(text);
  }
  return Joined(list);
}

std::string Engines(const results::ManifestFile& manifest, bool models) {
  std::vector<std::string> list;
  for (const auto& engine : manifest.engines) {
    const std::string text =
        models ? engine.model
               : engine.name + " " + engine.version + (engine.image.empty() ? "" : " " + engine.image);
    if (!text.empty() && std::find(list.begin(), list.end(), text) == list.end()) list.push_back(text);
  }
  return Joined(list);
}

void CompareManifests(const Directory& first, const Directory& other, const CompareOptions& options,
                      Differences* differences) {
  if (!first.manifest || !other.manifest)
    return differences->Same("manifest.json", first.manifest ? "there" : "missing",
                             other.manifest ? "there" : "missing", true);
  differences->Same("machines", Machines(*first.manifest), Machines(*other.manifest),
                    !options.allow_machines);
  differences->Same("model", Engines(*first.manifest, true), Engines(*other.manifest, true), true);
  differences->Same("engines", Engines(*first.manifest, false), Engines(*other.manifest, false), false);
}

void CompareWindows(const std::vector<RepeatFile>& first, const std::vector<RepeatFile>& other,
                    Differences* differences) {
  for (const RepeatFile& left : first) {
    for (const RepeatFile& right : other) {
      if (left.facts.point.workload != right.facts.point.workload ||
          left.facts.point.level != right.facts.point.level || !left.facts.held_load)
        continue;
      const std::string name = "workload " + left.facts.point.workload + ": ";
      differences->Same(name + "load duration", std::to_string(left.facts.load_seconds),
                        std::to_string(right.facts.load_seconds), true);
      differences->Same(name + "warm-up", std::to_string(left.facts.warm_up_seconds),
                        std::to_string(right.facts.warm_up_seconds), true);
      return;
    }
  }
}

std::vector<std::string> StackNames(const Recomputed& job) {
  std::vector<std::string> out;
  for (const auto& repeat : job.repeats) {
    if (std::find(out.begin(), out.end(), repeat.facts.point.stack) == out.end())
      out.push_back(repeat.facts.point.stack);
  }
  return out;
}

// Stacks of the same name; where each job has one stack only, those two.
std::vector<std::pair<std::string, std::string>> Pairs(const Recomputed& first, const Recomputed& other) {
  const auto left = StackNames(first), right = StackNames(other);
  std::vector<std::pair<std::string, std::string>> out;
  for (const auto& name : left) {
    if (std::find(right.begin(), right.end(), name) != right.end()) out.emplace_back(name, name);
  }
  if (out.empty() && left.size() == 1 && right.size() == 1) out.emplace_back(left[0], right[0]);
  return out;
}

std::vector<const RepeatFile*> Of(const Recomputed& job, const std::string& stack,
                                  const std::string& workload, const std::string& level) {
  std::vector<const RepeatFile*> out;
  for (const RepeatFile& repeat : job.repeats) {
    if (repeat.facts.point == results::PointId{stack, workload, level}) out.push_back(&repeat);
  }
  return out;
}

void ComparePoints(const Recomputed& first, const Recomputed& other, JobComparison* out) {
  for (const auto& [left, right] : Pairs(first, other)) {
    for (const std::string& workload : WorkloadsOf(first.summary)) {
      for (const std::string& level : LevelsOf(workload, first.summary)) {
        const auto a = Of(first, left, workload, level), b = Of(other, right, workload, level);
        auto list = results::ComparePoint(a, b, results::RequestsIn(first.directory.path),
                                          results::RequestsIn(other.directory.path));
        for (auto& one : list) {
          one.baseline = first.directory.job.job_id + ":" + left;
          one.candidate = other.directory.job.job_id + ":" + right;
          out->comparisons.push_back(std::move(one));
        }
      }
    }
  }
}

ComparedJob Describe(const std::string& directory, const Recomputed& job) {
  const auto& file = job.directory.job;
  ComparedJob out;
  out.directory = directory;
  out.job_id = file.job_id;
  out.started = file.started;
  out.state = file.state;
  out.verdict = job.summary.verdict;
  out.poolmark_version = file.poolmark_version;
  if (job.directory.manifest) {
    out.machines = Machines(*job.directory.manifest);
    out.engines = Engines(*job.directory.manifest, false);
  }
  out.publishable = job.summary.publishable;
  out.points = job.summary.points;
  out.repeats = job.repeats;
  return out;
}

}  // namespace

bool JobComparison::refused() const {
  return std::any_of(unlike.begin(), unlike.end(), [](const Unlike& one) { return one.refuses; });
}

Result<JobComparison> CompareDirectories(const std::vector<std::string>& directories,
                                         const CompareOptions& options) {
  if (directories.size() < 2)
    return InvalidInput("compare", "needs two results directories", "poolmark compare DIR DIR");
  JobComparison out;
  out.directories = directories;
  std::vector<Recomputed> jobs;
  for (const std::string& directory : directories) {
    POOLMARK_ASSIGN_OR_RETURN(Recomputed job, Recompute(directory));
    for (const auto& problem : job.problems)
      out.notes.push_back(directory + ": " + problem.path + ": " + problem.message);
    out.jobs.push_back(Describe(directory, job));
    jobs.push_back(std::move(job));
  }
  const Recomputed& first = jobs.front();
  for (size_t i = 1; i < jobs.size(); ++i) {
    Differences differences(directories[i], &out.unlike);
    const auto& a = first.directory.job;
    const auto& b = jobs[i].directory.job;
    differences.Same("starting_state", a.starting_state, b.starting_state, true);
    differences.Same("seed", std::to_string(a.seed), std::to_string(b.seed), true);
    differences.Same("slo", Joined(a.slo), Joined(b.slo), false);
    differences.Same("poolmark", a.poolmark_version, b.poolmark_version, false);
    CompareWorkloads(first.directory, jobs[i].directory, &differences);
    CompareManifests(first.directory, jobs[i].directory, options, &differences);
    CompareWindows(first.repeats, jobs[i].repeats, &differences);
    const size_t before = out.comparisons.size();
    if (!out.refused()) ComparePoints(first, jobs[i], &out);
    out.candidate_jobs.resize(out.comparisons.size(), i);
    if (!out.refused() && out.comparisons.size() == before) {
      out.unlike.push_back(
          {directories[i], "test points", "", "no stack, workload and load level in common", true});
    }
  }
  if (out.refused()) {
    out.comparisons.clear();
    out.candidate_jobs.clear();
  }
  out.notes.push_back(
      "The jobs ran at different times: changes of the machines between them are in the comparison. Stacks "
      "of one job alternate instead.");
  return out;
}

}  // namespace poolmark::report
