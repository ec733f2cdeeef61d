#include "common/results/sample_check.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "common/base/files.h"
#include "common/results/fact_compare.h"
#include "common/results/layout.h"
#include "common/results/sample_changes.h"
#include "common/results/transfers.h"

namespace poolmark::results {
namespace {

// Machines whose samples some of the facts were taken from, and those that were listened to.
std::set<std::string> SampledMachines(const RepeatFacts& facts) {
  std::set<std::string> out;
  for (const auto& silence : facts.evidence.silences) out.insert(silence.machine);
  for (const auto& engine : facts.engines) {
    if (engine.unreadable.empty()) out.insert(engine.machine);
  }
  for (const auto& cache : facts.caches) out.insert(cache.machine);
  for (const auto& power : facts.power) out.insert(power.machine);
  for (const auto& link : facts.links) out.insert(link.machine);
  return out;
}

// The engines as the facts name them, where no plan tells.
PlanStack StackOf(const RepeatFacts& facts) {
  PlanStack out;
  for (const stats::EngineFacts& engine : facts.engines) {
    PlanProcess process;
    process.id = engine.process;
    process.role = "engine";
    process.machine = engine.machine;
    process.dialect = engine.dialect;
    out.processes.push_back(std::move(process));
  }
  return out;
}

// Processes that began anew by the samples, of which the evidence says nothing.
void CheckResets(const RepeatFacts& facts, const SampleLog& log, Nanoseconds end, SampleCheck* out) {
  std::set<std::string> said;
  for (const SampleResetRecord& reset : log.resets) {
    if (reset.at < Nanoseconds(0) || reset.at > end || reset.source == "node") continue;
    const auto& told = facts.evidence.resets;
    const bool there =
        std::any_of(told.begin(), told.end(), [&](const auto& one) { return one.process == reset.source; });
    if (there || !said.insert(reset.source).second) continue;
    out->reasons.push_back({stats::Reason::kCounterBackwards,
                            reset.source +
                                ": its counters began anew by the samples, evidence.resets says "
                                "nothing of it: " +
                                reset.reason});
  }
}

}  // namespace

Result<SampleCheck> CompareWithSamples(const RepeatFacts& facts, const Witnesses& witnesses,
                                       const std::string& directory) {
  SampleCheck out;
  const auto not_judged = [&](const std::string& why) {
    if (facts.evidence.interrupted.empty()) out.reasons.push_back({stats::Reason::kNotJudged, why});
  };
  SampledFacts sampled;
  const SampleWindow window{FromSeconds(facts.measured_from), FromSeconds(facts.measured_to),
                            FromSeconds(facts.drain_end)};
  const PlanStack stack = witnesses.stack != nullptr ? *witnesses.stack : StackOf(facts);
  for (const std::string& machine : SampledMachines(facts)) {
    const std::string name = SamplesFile(machine);
    const std::string path = JoinPath(directory, name);
    if (!FileExists(path)) {
      out.problems.push_back("not computed again: " + name + " is missing");
      not_judged(name + " is missing: what was sampled is not known");
      continue;
    }
    const auto log = ReadSamples(path);
    if (!log.ok() && ErrorOf(log.status()).code == "schema_version") return log.status();
    if (!log.ok()) {
      out.problems.push_back("not computed again: " + std::string(log.status().message()));
      not_judged(name + " cannot be read: what was sampled is not known");
      continue;
    }
    if (!log->truncated.empty()) out.problems.push_back(name + " ends early: " + log->truncated);
    CheckResets(facts, *log, window.drained + kSettle, &out);
    AddSampleFacts(stack, machine, log, {}, window, nullptr, &sampled.facts);
    sampled.machines.insert(machine);
  }
  CompareFacts(facts, witnesses, std::move(sampled), &out.problems);
  return out;
}

}  // namespace poolmark::results
