#include "common/results/sample_changes.h"

#include <cmath>
#include <cstdio>
#include <map>

#include "common/base/files.h"
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

}  // namespace

SourceChange ChangeOf(const SampleLog& log, const std::string& source, Nanoseconds from, Nanoseconds to) {
  SourceChange result;
  for (const SampleSeries& series : log.series) {
    if (series.source != source || series.kind == "gauge") continue;
    auto values = log.values.find(series.id);
    if (values == log.values.end() || values->second.empty()) continue;
    // A series that appears later begins at 0: engines make series at their first event.
    stats::CounterChange change = stats::ChangeOver(values->second, from, to, true);
    result.reset = result.reset || change.reset;
    if (!change.change.has_value()) continue;
    result.read = true;
    const prom::Labels labels(series.labels.begin(), series.labels.end());
    for (const std::string& key : prom::KeysOf(series.name, labels)) result.deltas[key] += *change.change;
  }
  return result;
}

Result<std::vector<std::string>> CompareWithSamples(const RepeatFacts& facts, const std::string& directory) {
  std::vector<std::string> out;
  std::map<std::string, SampleLog> logs;
  for (const stats::EngineFacts& engine : facts.engines) {
    if (!engine.unreadable.empty() || out.size() >= kMaxLines) continue;
    auto log = logs.find(engine.machine);
    if (log == logs.end()) {
      const std::string path =
          JoinPath(JoinPath(directory, std::string(kSamplesDir)), engine.machine + ".jsonl.zst");
      if (!FileExists(path)) continue;
      POOLMARK_ASSIGN_OR_RETURN(SampleLog read, ReadSamples(path));
      log = logs.emplace(engine.machine, std::move(read)).first;
    }
    const stats::Deltas deltas =
        ChangeOf(log->second, engine.process, Time(facts.measured_from), Time(facts.drain_end) + kSettle)
            .deltas;
    for (const auto& [key, value] : engine.deltas) {
      const auto sampled = deltas.find(key);
      const bool same =
          sampled != deltas.end() &&
          std::abs(sampled->second - value) <= 1e-9 * std::max(std::abs(value), std::abs(sampled->second));
      if (same || out.size() >= kMaxLines) continue;
      out.push_back(engine.process + ": " + key + " rose by " + Number(value) + " by the facts, by " +
                    (sampled == deltas.end() ? "nothing" : Number(sampled->second)) + " by the samples");
    }
  }
  return out;
}

}  // namespace poolmark::results
