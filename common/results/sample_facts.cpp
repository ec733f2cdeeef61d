#include "common/results/sample_facts.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/base/time_format.h"
#include "common/prom/simulated.h"
#include "common/results/cache_facts.h"
#include "common/results/engine_facts.h"
#include "common/results/sample_changes.h"
#include "common/results/sample_readings.h"

namespace poolmark::results {
namespace {

const prom::Dialect* DialectOf(const prom::Catalogue* catalogue, const PlanProcess& process) {
  return catalogue == nullptr ? nullptr : catalogue->Find(process.dialect);
}

bool IsPower(const std::string& unit, const std::string& name) {
  return unit == "watts" || unit == "W" || name.ends_with("_watts") || name.ends_with("_power_usage");
}

// Every power series of the machine, also one without a reading: what was not read is missing, not nothing.
void AddPower(const SampleLog& log, const std::string& machine, std::vector<PowerSeries>* out) {
  for (const SampleSeries& series : log.series) {
    if (!IsPower(series.unit, series.name)) continue;
    PowerSeries power;
    power.machine = machine;
    power.kind = series.source == "bmc" ? "bmc"
                 : series.name.find("gpu") != std::string::npos || series.name.starts_with("DCGM_")
                     ? "gpu"
                     : "telemetry";
    power.series = series.name;
    for (const auto& [label, value] : series.labels) absl::StrAppend(&power.series, ",", label, "=", value);
    for (const stats::Sample& sample : ReadingsOf(log, series))
      power.watts.emplace_back(ToSeconds(sample.at), sample.value);
    out->push_back(std::move(power));
  }
}

}  // namespace

void AddSampleFacts(const PlanStack& stack, const std::string& machine, const Result<SampleLog>& log,
                    const std::map<std::string, std::string>& versions, const SampleWindow& window,
                    const prom::Catalogue* catalogue, SampleFacts* out) {
  SampleFacts& facts = *out;
  const Nanoseconds end = window.drained + kSettle;
  if (!log.ok()) {
    facts.notes.push_back(
        absl::StrCat("samples of ", machine, " cannot be read: ", std::string(log.status().message())));
  }
  for (const PlanProcess& process : stack.processes) {
    if (process.machine != machine || !process.is_engine()) continue;
    stats::EngineFacts engine = EngineFactsOf(stack, process);
    if (auto version = versions.find(process.id); version != versions.end()) engine.version = version->second;
    if (!log.ok()) {
      engine.unreadable = "the machine's samples cannot be read";
    } else {
      SourceChange change = ChangeOf(*log, process.id, window.from, end);
      engine.deltas = std::move(change.deltas);
      engine.reset = change.reset;
      if (const prom::Dialect* dialect = DialectOf(catalogue, process))
        prom::AddAbsent(*dialect, engine.version, &engine.deltas);
      engine.unreadable = WhyUnread(*log, process.id, window.from, window.drained);
      if (engine.unreadable.empty() && !change.read)
        engine.unreadable = "no counter of this engine was sampled";
      if (const auto scrapes = log->scrapes.find(process.id); scrapes != log->scrapes.end()) {
        const auto after = std::upper_bound(scrapes->second.begin(), scrapes->second.end(), window.from);
        if (after != scrapes->second.begin()) engine.counters_from = ToSeconds(*(after - 1));
      }
      if (const PlanProcess* cache = CacheOf(stack, process)) {
        // Hits of a part of the window would split the tokens of all of it.
        const std::string why = WhyUnread(*log, cache->id, window.from, window.drained);
        if (why.empty()) {
          engine.cache = ChangeOf(*log, cache->id, window.from, end).deltas;
        } else {
          facts.unread_caches[process.id] = absl::StrCat("cache server ", cache->id, ": ", why);
          facts.notes.push_back(facts.unread_caches[process.id]);
        }
      }
      for (const SampleSeries& series : log->series) {
        if (series.source == process.id && series.name.ends_with("cache_config_info"))
          facts.cache_config[process.id] = series.labels;
      }
    }
    facts.caches.push_back(log.ok() ? CacheFactsOf(*log, process, window.from, window.to, &facts.notes)
                                    : UnreadCache(process, "the machine's samples cannot be read"));
    facts.engines.push_back(std::move(engine));
  }
  if (!log.ok()) return;
  if (!log->truncated.empty())
    facts.notes.push_back(absl::StrCat("samples of ", machine, " end early: ", log->truncated));
  for (const SampleResetRecord& reset : log->resets) {
    if (reset.at < Nanoseconds(0) || reset.at > end || reset.source == "node") continue;
    stats::ResetEvidence evidence;
    evidence.machine = machine;
    evidence.process = reset.source;
    for (const SampleSeries& series : log->series) {
      if (series.id == reset.series) evidence.series = series.name;
    }
    evidence.at = absl::StrCat(FormatDuration(std::chrono::floor<std::chrono::milliseconds>(reset.at)),
                               " into the load: ", reset.reason);
    facts.resets.push_back(std::move(evidence));
  }
  for (const SampleSeries& series : log->series) {
    if (!prom::IsSimulatedSeries(series.name)) continue;
    facts.simulated =
        facts.simulated || std::any_of(stack.processes.begin(), stack.processes.end(),
                                       [&](const auto& process) { return process.id == series.source; });
  }
  std::vector<Nanoseconds> times;
  for (const auto& [source, scrapes] : log->scrapes)
    times.insert(times.end(), scrapes.begin(), scrapes.end());
  std::sort(times.begin(), times.end());
  Nanoseconds longest{0};
  for (const stats::Gap& gap :
       stats::GapsIn(times, Nanoseconds(0), window.drained, std::chrono::seconds(2))) {
    longest = std::max(longest, gap.to - gap.from);
  }
  facts.longest_gap[machine] = longest;
  for (const SampleSeries& series : log->series) {
    const bool net = series.name == "node_network_transmit_bytes_total";
    const bool rdma = series.name == "node_infiniband_port_data_transmitted_bytes_total";
    auto device = series.labels.find("device");
    auto values = log->values.find(series.id);
    if ((!net && !rdma) || device == series.labels.end() || values == log->values.end()) continue;
    // Bytes that were sent after the last reading are in no counter: then it is not known what went where.
    if (!WhyUnread(*log, series.source, window.from, window.drained).empty()) continue;
    stats::CounterChange change = stats::ChangeOver(values->second, window.from, end, false);
    if (!change.change.has_value()) continue;
    facts.sent_by_device[machine][absl::StrCat(net ? "net:" : "rdma:", device->second)] += *change.change;
  }
  AddPower(*log, machine, &facts.power);
}

SampleFacts ReadSampleFacts(const PlanStack& stack, const std::map<std::string, std::string>& files,
                            const std::map<std::string, std::string>& versions, const SampleWindow& window,
                            const prom::Catalogue* catalogue) {
  SampleFacts facts;
  for (const auto& [machine, path] : files)
    AddSampleFacts(stack, machine, ReadSamples(path), versions, window, catalogue, &facts);
  return facts;
}

}  // namespace poolmark::results
