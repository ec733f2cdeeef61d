#include "common/report/compare.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "common/base/json.h"
#include "common/report/command_lines.h"
#include "common/report/compare_parts.h"
#include "common/report/format.h"
#include "common/report/sections.h"

namespace poolmark::report {
namespace {

using results::Directory;
using results::RepeatFile;

constexpr double kLineRateTolerance = 0.25;

std::string Joined(std::vector<std::string> list) {
  std::sort(list.begin(), list.end());
  std::string out;
  for (const auto& item : list) out += (out.empty() ? "" : ", ") + item;
  return out;
}

std::string Once(std::vector<std::string> list) {
  std::sort(list.begin(), list.end());
  list.erase(std::unique(list.begin(), list.end()), list.end());
  return Joined(std::move(list));
}

// What the machines have of something, each kind once.
template <class Of>
std::string Kinds(const results::ManifestFile& manifest, const Of& of) {
  std::vector<std::string> list;
  for (const auto& machine : manifest.machines) list.push_back(of(machine));
  return Once(std::move(list));
}

std::string Machines(const results::ManifestFile& manifest) {
  std::vector<std::string> list;
  for (const auto& machine : manifest.machines) {
    std::map<std::string, int> gpus;
    for (const auto& gpu : machine.gpus) ++gpus[gpu.model];
    std::string text = machine.cpu + " " + std::to_string(machine.cores) + " cores";
    if (const uint64_t gib = (machine.memory_bytes + (1u << 29)) >> 30; gib > 0)
      text += ", " + std::to_string(gib) + " GiB";
    for (const auto& [model, count] : gpus) text += " + " + std::to_string(count) + " x " + model;
    list.push_back(text);
  }
  return Joined(list);
}

// Cards of each machine by kind and speed. Left out: those whose driver tells no speed, and software ones,
// which come and go with whatever else runs there.
std::string Networks(const results::ManifestFile& manifest) {
  std::vector<std::string> list;
  for (const auto& machine : manifest.machines) {
    std::map<std::string, int> cards;
    for (const auto& nic : machine.nics) {
      const bool software = nic.driver == "veth" || nic.driver == "bridge" || nic.driver == "tun" ||
                            nic.driver == "bonding" || nic.driver == "dummy" || nic.driver.empty();
      if (!nic.speed_mbit || software) continue;
      ++cards[FormatValue(static_cast<double>(*nic.speed_mbit) * 1e-3, "Gbit/s") + " " + nic.driver +
              (nic.rdma ? " with RDMA" : "")];
    }
    std::string text;
    for (const auto& [card, count] : cards)
      text += (text.empty() ? "" : " + ") + std::to_string(count) + " x " + card;
    if (!text.empty()) list.push_back(text);
  }
  return Joined(list);
}

// By path, the slowest pair of machines: "tcp" and its bits per second.
std::map<std::string, double> LineRates(const Directory& directory) {
  std::map<std::string, double> out;
  if (!directory.preflight) return out;
  for (const auto& rate : directory.preflight->line_rates) {
    if (!rate.bits_per_second.has_value()) continue;
    const auto at = out.try_emplace(rate.path, *rate.bits_per_second).first;
    at->second = std::min(at->second, *rate.bits_per_second);
  }
  return out;
}

void CompareNetworks(const Directory& first, const Directory& other, const CompareOptions& options,
                     Differences* differences) {
  differences->Same("network cards", Networks(*first.manifest), Networks(*other.manifest),
                    !options.allow_machines);
  const auto a = LineRates(first), b = LineRates(other);
  for (const auto& [path, rate] : a) {
    const auto at = b.find(path);
    if (at == b.end()) continue;
    // Measured anew by each job: what the same network gives twice is no difference.
    if (std::abs(at->second - rate) > kLineRateTolerance * std::max(at->second, rate))
      differences->Same("line rate over " + path, FormatValue(rate * 1e-9, "Gbit/s"),
                        FormatValue(at->second * 1e-9, "Gbit/s"), false);
  }
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
  const auto same = [&](const char* what, const auto& of) {
    differences->Same(what, Kinds(*first.manifest, of), Kinds(*other.manifest, of), false);
  };
  using Machine = results::ManifestMachine;
  same("operating system", [](const Machine& machine) { return machine.os; });
  same("kernel", [](const Machine& machine) { return machine.kernel; });
  same("GPU driver", [](const Machine& machine) {
    std::vector<std::string> drivers;
    for (const auto& gpu : machine.gpus) drivers.push_back(gpu.driver);
    return Once(std::move(drivers));
  });
  same("network card driver and firmware", [](const Machine& machine) {
    std::vector<std::string> cards;
    for (const auto& nic : machine.nics) {
      if (nic.speed_mbit || nic.rdma) cards.push_back(nic.driver + " " + nic.firmware);
    }
    return Once(std::move(cards));
  });
}

std::string BlockTokens(const Recomputed& job, const std::string& stack) {
  for (const auto& repeat : job.repeats) {
    if (repeat.facts.point.stack == stack) return std::to_string(repeat.facts.reuse.block_tokens);
  }
  return "";
}

// With what the programs of two stacks were started, as far as the two jobs' lines differ.
void CompareCommandLines(const Recomputed& first, const Recomputed& other, const std::string& left,
                         const std::string& right, const std::string& name, Differences* differences) {
  if (!first.directory.manifest || !other.directory.manifest) return;
  auto a = CommandLines(*first.directory.manifest, left, first.directory.job.job_id);
  auto b = CommandLines(*other.directory.manifest, right, other.directory.job.job_id);
  std::set<std::string> roles;
  for (const auto* lines : {&a, &b}) {
    for (const auto& [role, words] : *lines) roles.insert(role);
  }
  for (const std::string& role : roles) {
    const auto only = [](const std::set<std::string>& these, const std::set<std::string>& those) {
      std::string out;
      for (const std::string& word : these) {
        if (!those.contains(word)) out += (out.empty() ? "" : " ") + word;
      }
      return out.empty() ? std::string("without them") : out;
    };
    differences->Same(name + "command line of " + role, only(a[role], b[role]), only(b[role], a[role]),
                      false);
  }
}

// Stacks may differ: that is what is compared. It is said in what.
void CompareStacks(const Recomputed& first, const Recomputed& other, Differences* differences) {
  const auto find = [](const Recomputed& job, const std::string& name) -> const results::JobStack* {
    const auto& stacks = job.directory.job.stacks;
    const auto at =
        std::find_if(stacks.begin(), stacks.end(), [&](const auto& stack) { return stack.name == name; });
    return at == stacks.end() ? nullptr : &*at;
  };
  for (const auto& [left, right] : StackPairs(first, other)) {
    const results::JobStack *a = find(first, left), *b = find(other, right);
    if (a == nullptr || b == nullptr) continue;
    const std::string name = "stack " + left + (left == right ? "" : " and " + right) + ": ";
    differences->Same(name + "strategy", a->strategy, b->strategy, false);
    differences->Same(name + "definition (digest)", a->digest, b->digest, false);
    differences->Same(name + "KV path", a->path, b->path, false);
    differences->Same(name + "KV compression", a->compression, b->compression, false);
    differences->Same(name + "GPU vendor", a->vendor, b->vendor, false);
    differences->Same(name + "engines", a->simulated ? "simulated" : "real",
                      b->simulated ? "simulated" : "real", false);
    differences->Same(name + "block tokens", BlockTokens(first, left), BlockTokens(other, right), false);
    CompareCommandLines(first, other, left, right, name, differences);
  }
}

// Goodput is of the same limits in both, or no figure of it is compared.
void CompareSlos(const std::vector<RepeatFile>& first, const std::vector<RepeatFile>& other,
                 Differences* differences, std::vector<std::string>* unlike) {
  if (first.empty() || other.empty()) return;
  const auto limits = [](const stats::Slo& slo) {
    return "TTFT " + FormatValue(slo.ttft_seconds, "s") + ", time per output token " +
           FormatValue(slo.tpot_seconds, "s");
  };
  for (const stats::Slo& left : first.front().facts.slos) {
    for (const stats::Slo& right : other.front().facts.slos) {
      if (left.name != right.name ||
          (left.ttft_seconds == right.ttft_seconds && left.tpot_seconds == right.tpot_seconds))
        continue;
      differences->Same("limits of " + left.name, limits(left), limits(right), false);
      unlike->push_back(left.name);
    }
  }
}

ComparedJob Describe(const std::string& directory, const Recomputed& job) {
  const auto& file = job.directory.job;
  ComparedJob out;
  out.job = file;
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

bool IsMarked(const JobComparison& comparison, size_t index) {
  const results::SummaryComparison& whole = comparison.comparisons[index];
  for (const auto& [job, name] :
       {std::pair{size_t{0}, &whole.baseline}, {comparison.candidate_jobs[index], &whole.candidate}}) {
    // Its points are called by the stack alone.
    results::SummaryComparison one = whole;
    one.baseline = one.candidate = name->substr(comparison.jobs[job].job_id.size() + 1);
    if (IsMarked(comparison.jobs[job].points, one)) return true;
  }
  return false;
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
    out.damaged = out.damaged || !job.problems.empty() || !job.differences.empty();
    for (const auto& problem : job.problems)
      out.notes.push_back(directory + ": " + problem.path + ": " + problem.message);
    if (!job.differences.empty())
      out.notes.push_back(directory + ": " + std::to_string(job.differences.size()) +
                          " stored figures do not follow from the files; the comparison uses those that do "
                          "(poolmark report " +
                          directory + " names them)");
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
    if (first.directory.manifest && jobs[i].directory.manifest)
      CompareNetworks(first.directory, jobs[i].directory, options, &differences);
    CompareStacks(first, jobs[i], &differences);
    std::vector<std::string> unlike_slos;
    CompareSlos(first.repeats, jobs[i].repeats, &differences, &unlike_slos);
    const PointCoverage points = CoverPoints(first, jobs[i]);
    if (const auto unlike = UnlikePoints(first, jobs[i], points)) out.unlike.push_back(*unlike);
    if (!out.refused()) ComparePoints(first, jobs[i], points, &out);
    std::erase_if(out.comparisons, [&](const auto& one) {
      return one.figure.starts_with("goodput") &&
             std::any_of(unlike_slos.begin(), unlike_slos.end(),
                         [&](const std::string& slo) { return one.figure.ends_with("." + slo); });
    });
    out.candidate_jobs.resize(out.comparisons.size(), i);
  }
  if (out.refused()) {
    out.complete = false;
    out.comparisons.clear();
    out.candidate_jobs.clear();
    return out;
  }
  for (size_t i = 0; i < out.comparisons.size(); ++i) {
    if (!IsMarked(out, i)) continue;
    out.notes.push_back(
        "* a mean of this change includes the load generator's own delay: its machine was too slow for the "
        "load.");
    break;
  }
  out.notes.push_back(
      "The jobs ran at different times: changes of the machines between them are in the comparison. Stacks "
      "of one job alternate instead.");
  return out;
}

}  // namespace poolmark::report
