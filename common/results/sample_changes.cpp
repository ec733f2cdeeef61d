#include "common/results/sample_changes.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>
#include <set>

#include "common/base/files.h"
#include "common/base/time_format.h"
#include "common/prom/totals.h"
#include "common/results/layout.h"

namespace poolmark::results {
namespace {

constexpr size_t kMaxLines = 10;

std::string Number(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.15g", value);
  return text;
}

Nanoseconds Time(double seconds) {
  return Nanoseconds(std::llround(seconds * 1e9));
}

// Machines whose samples some of the facts were taken from, and those that were listened to.
std::set<std::string> SampledMachines(const RepeatFacts& facts) {
  std::set<std::string> out;
  for (const auto& silence : facts.evidence.silences) out.insert(silence.machine);
  for (const auto& engine : facts.engines) {
    if (engine.unreadable.empty()) out.insert(engine.machine);
  }
  for (const auto& cache : facts.caches) out.insert(cache.machine);
  for (const auto& link : facts.links) out.insert(link.machine);
  return out;
}

// A part of the prompt that an engine's version has and of which no child was sampled is 0 by the catalogue
// of the job: the samples do not contradict it, if other parts of that engine were counted.
void AllowAbsent(const stats::EngineFacts& engine, stats::Deltas* sampled) {
  if (engine.version.empty() || sampled->empty()) return;
  for (const auto& [key, value] : engine.deltas) {
    if (value == 0 && key.find('{') != std::string::npos) sampled->try_emplace(key, 0);
  }
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

SourceChange ChangeOf(const SampleLog& log, const std::string& source, Nanoseconds from, Nanoseconds to) {
  SourceChange result;
  prom::Adder adder;
  const auto scrapes = log.scrapes.find(source);
  const bool read_before =
      scrapes != log.scrapes.end() && !scrapes->second.empty() && scrapes->second.front() <= from;
  for (const SampleSeries& series : log.series) {
    if (series.source != source || series.kind == "gauge") continue;
    auto values = log.values.find(series.id);
    if (values == log.values.end() || values->second.empty()) continue;
    stats::CounterChange change = stats::ChangeOver(values->second, from, to, read_before);
    result.reset = result.reset || change.reset;
    if (!change.change.has_value()) continue;
    result.read = true;
    const prom::Labels labels(series.labels.begin(), series.labels.end());
    adder.Add(series.name, labels, series.adding ? *series.adding : prom::AddingOf(labels), *change.change);
  }
  result.deltas = adder.Take();
  return result;
}

std::string WhyUnread(const SampleLog& log, const std::string& source, Nanoseconds from,
                      Nanoseconds drained) {
  const auto scrapes = log.scrapes.find(source);
  if (scrapes == log.scrapes.end() || scrapes->second.empty()) return "its counters were never read";
  const std::vector<Nanoseconds>& times = scrapes->second;
  const auto into = [](Nanoseconds at) {
    return FormatDuration(std::chrono::floor<std::chrono::seconds>(std::max(at, Nanoseconds(0)))) +
           " into it";
  };
  if (times.front() > from)
    return "its counters could not be read before the measured window; the first reading is from " +
           into(times.front());
  const auto after = std::lower_bound(times.begin(), times.end(), drained);
  if (after != times.end() && *after <= drained + kSettle) return "";
  // A page that failed before leaves values of some earlier moment, which must not stand for the end.
  return "its counters could not be read after the load; the last reading is from " +
         (after == times.begin() ? std::string("before it") : into(*(after - 1)));
}

Result<SampleCheck> CompareWithSamples(const RepeatFacts& facts, const std::string& directory) {
  SampleCheck out;
  const auto not_judged = [&](const std::string& why) {
    if (facts.evidence.interrupted.empty()) out.reasons.push_back({stats::Reason::kNotJudged, why});
  };
  std::map<std::string, SampleLog> logs;
  for (const std::string& machine : SampledMachines(facts)) {
    const std::string name = SamplesFile(machine);
    const std::string path = JoinPath(directory, name);
    if (!FileExists(path)) {
      out.problems.push_back("not computed again: " + name + " is missing");
      not_judged(name + " is missing: what was sampled is not known");
      continue;
    }
    auto log = ReadSamples(path);
    if (!log.ok() && ErrorOf(log.status()).code == "schema_version") return log.status();
    if (!log.ok()) {
      out.problems.push_back("not computed again: " + std::string(log.status().message()));
      not_judged(name + " cannot be read: what was sampled is not known");
      continue;
    }
    if (!log->truncated.empty()) out.problems.push_back(name + " ends early: " + log->truncated);
    CheckResets(facts, *log, Time(facts.drain_end) + kSettle, &out);
    logs.emplace(machine, std::move(*log));
  }
  for (const stats::EngineFacts& engine : facts.engines) {
    const auto log = logs.find(engine.machine);
    if (!engine.unreadable.empty() || out.problems.size() >= kMaxLines || log == logs.end()) continue;
    stats::Deltas deltas =
        ChangeOf(log->second, engine.process, Time(facts.measured_from), Time(facts.drain_end) + kSettle)
            .deltas;
    AllowAbsent(engine, &deltas);
    for (const auto& [key, value] : engine.deltas) {
      const auto sampled = deltas.find(key);
      const bool same =
          sampled != deltas.end() &&
          std::abs(sampled->second - value) <= 1e-9 * std::max(std::abs(value), std::abs(sampled->second));
      if (same || out.problems.size() >= kMaxLines) continue;
      out.problems.push_back(
          engine.process + ": " + key + " rose by " + Number(value) + " by the facts, by " +
          (sampled == deltas.end() ? "nothing" : Number(sampled->second)) + " by the samples");
    }
    for (const auto& [key, value] : deltas) {
      if (value == 0 || engine.deltas.contains(key) || out.problems.size() >= kMaxLines) continue;
      // The sum over a series' labels, where the facts have its parts.
      const auto part = engine.deltas.lower_bound(key + "{");
      if (part != engine.deltas.end() && part->first.starts_with(key + "{")) continue;
      out.problems.push_back(engine.process + ": " + key + " rose by " + Number(value) +
                             " by the samples, the facts do not have it");
    }
  }
  return out;
}

}  // namespace poolmark::results
