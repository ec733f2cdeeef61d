#include "controller/steps/sample_facts.h"

#include <algorithm>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "common/base/time_format.h"
#include "common/prom/simulated.h"
#include "common/results/sample_changes.h"
#include "controller/steps/counters.h"

namespace poolmark::controller {
namespace {

using results::ChangeOf;
using results::kSettle;
using results::SourceChange;

double Seconds(Nanoseconds time) {
  return static_cast<double>(time.count()) / 1e9;
}

bool IsReadBetween(const std::vector<Nanoseconds>& times, Nanoseconds from, Nanoseconds to) {
  return std::any_of(times.begin(), times.end(), [&](Nanoseconds at) { return at >= from && at <= to; });
}

// Gauges that say how full an engine's own cache is, 0 … 1, by engine.
bool IsUsage(const std::string& name) {
  return name == "vllm:kv_cache_usage_perc" || name == "vllm:gpu_cache_usage_perc" ||
         name == "sglang:token_usage" || name == "llamacpp:kv_cache_usage_ratio" ||
         name == "trtllm_kv_cache_utilization";
}
// The last reading of a gauge of this source.
std::optional<double> LastOf(const results::SampleLog& log, const std::string& source,
                             std::string_view name) {
  for (const results::SampleSeries& series : log.series) {
    if (series.source != source || series.name != name) continue;
    auto values = log.values.find(series.id);
    if (values != log.values.end() && !values->second.empty()) return values->second.back().value;
  }
  return std::nullopt;
}

// vLLM says its cache's size in labels of one gauge (vllm:cache_config_info), SGLang and TensorRT-LLM in
// gauges; llama.cpp holds as many tokens as its context, which is in its command line.
Measured<double> CapacityOf(const results::SampleLog& log, const PlannedProcess& process) {
  const std::string& source = process.spec.id();
  for (const results::SampleSeries& series : log.series) {
    if (series.source != source || !series.name.ends_with("cache_config_info")) continue;
    auto number = [&](const char* label, double* out) {
      auto found = series.labels.find(label);
      return found != series.labels.end() && absl::SimpleAtod(found->second, out);
    };
    double tokens = 0, blocks = 0, block = 0;
    if (number("kv_cache_size_tokens", &tokens) && tokens > 0) return tokens;
    if (number("num_gpu_blocks", &blocks) && number("block_size", &block) && blocks * block > 0)
      return blocks * block;
  }
  if (auto tokens = LastOf(log, source, "sglang:max_total_num_tokens"); tokens && *tokens > 0) return *tokens;
  const auto blocks = LastOf(log, source, "trtllm_kv_cache_max_blocks");
  const auto block = LastOf(log, source, "trtllm_kv_cache_tokens_per_block");
  if (blocks && block && *blocks * *block > 0) return *blocks * *block;
  if (process.dialect == "llama-cpp") {
    for (int i = 0; i + 1 < process.spec.argv_size(); ++i) {
      double tokens = 0;
      const bool context = process.spec.argv(i) == "--ctx-size" || process.spec.argv(i) == "-c";
      if (context && absl::SimpleAtod(process.spec.argv(i + 1), &tokens) && tokens > 0) return tokens;
    }
  }
  return NotMeasured{"not exposed by this engine"};
}

bool IsPower(const std::string& unit, const std::string& name) {
  return unit == "watts" || unit == "W" || name.ends_with("_watts") || name.ends_with("_power_usage");
}

}  // namespace

SampleFacts ReadSampleFacts(const StackPlan& stack, const std::map<std::string, std::string>& files,
                            const std::map<std::string, std::string>& versions, const SampleWindow& window) {
  SampleFacts facts;
  const Nanoseconds end = window.drained + kSettle;
  for (const auto& [machine, path] : files) {
    auto log = results::ReadSamples(path);
    if (!log.ok()) {
      facts.notes.push_back(
          absl::StrCat("samples of ", machine, " cannot be read: ", std::string(log.status().message())));
    }
    for (const PlannedProcess& process : stack.processes) {
      if (process.machine != machine || !IsEngine(process)) continue;
      stats::EngineFacts engine = EngineFactsOf(stack, process);
      if (auto version = versions.find(process.spec.id()); version != versions.end())
        engine.version = version->second;
      if (!log.ok()) {
        engine.unreadable = "the machine's samples cannot be read";
      } else {
        SourceChange change = ChangeOf(*log, process.spec.id(), window.from, end);
        engine.deltas = std::move(change.deltas);
        engine.reset = change.reset;
        if (const auto scrapes = log->scrapes.find(process.spec.id()); scrapes != log->scrapes.end()) {
          const auto after = std::upper_bound(scrapes->second.begin(), scrapes->second.end(), window.from);
          if (after != scrapes->second.begin()) engine.counters_from = Seconds(*(after - 1));
          // M7: counters are read after the drain. A page that failed before it leaves values of some earlier
          // moment, which must not stand for the end.
          if (!IsReadBetween(scrapes->second, window.drained, end)) {
            const auto until =
                std::lower_bound(scrapes->second.begin(), scrapes->second.end(), window.drained);
            engine.unreadable =
                absl::StrCat("its counters could not be read after the load; the last reading is from ",
                             until == scrapes->second.begin()
                                 ? std::string("before it")
                                 : absl::StrCat(FormatDuration(std::chrono::floor<std::chrono::seconds>(
                                                    std::max(*(until - 1), Nanoseconds(0)))),
                                                " into it"));
          }
        }
        if (!change.read) engine.unreadable = "no counter of this engine was sampled";
        if (const PlannedProcess* cache = CacheOf(stack, process))
          engine.cache = ChangeOf(*log, cache->spec.id(), window.from, end).deltas;
        for (const results::SampleSeries& series : log->series) {
          if (series.source == process.spec.id() && series.name.ends_with("cache_config_info"))
            facts.cache_config[process.spec.id()] = series.labels;
          if (series.source != process.spec.id() || !IsUsage(series.name)) continue;
          auto values = log->values.find(series.id);
          if (values == log->values.end()) continue;
          // Between two changes a gauge keeps its value: weigh each by the time it stood.
          double sum = 0, time = 0, peak = 0;
          for (size_t i = 0; i < values->second.size(); ++i) {
            const Nanoseconds begin = std::max(values->second[i].at, window.from);
            const Nanoseconds until =
                std::min(i + 1 < values->second.size() ? values->second[i + 1].at : window.to, window.to);
            if (until <= begin) continue;
            sum += values->second[i].value * Seconds(until - begin);
            time += Seconds(until - begin);
            peak = std::max(peak, values->second[i].value);
          }
          results::CacheFacts cache;
          cache.process = process.spec.id();
          cache.machine = machine;
          cache.series = series.name;
          cache.capacity_tokens = CapacityOf(*log, process);
          if (time > 0) {
            cache.usage_mean = sum / time;
            cache.usage_peak = peak;
          } else {
            cache.usage_mean = NotMeasured{"no reading in the window"};
            cache.usage_peak = cache.usage_mean;
          }
          facts.caches.push_back(std::move(cache));
        }
      }
      // An engine that says how much it can hold and not how full it is still has a working set ratio.
      const bool listed = std::any_of(facts.caches.begin(), facts.caches.end(),
                                      [&](const auto& cache) { return cache.process == process.spec.id(); });
      if (log.ok() && !listed) {
        if (auto capacity = CapacityOf(*log, process); capacity.has_value()) {
          results::CacheFacts cache;
          cache.process = process.spec.id();
          cache.machine = machine;
          cache.capacity_tokens = capacity;
          cache.usage_mean = NotMeasured{"not exposed by this engine"};
          cache.usage_peak = cache.usage_mean;
          facts.caches.push_back(std::move(cache));
        }
      }
      facts.engines.push_back(std::move(engine));
    }
    if (!log.ok()) continue;
    if (!log->truncated.empty())
      facts.notes.push_back(absl::StrCat("samples of ", machine, " end early: ", log->truncated));
    for (const results::SampleResetRecord& reset : log->resets) {
      if (reset.at < Nanoseconds(0) || reset.at > end || reset.source == "node") continue;
      stats::ResetEvidence evidence;
      evidence.machine = machine;
      evidence.process = reset.source;
      for (const results::SampleSeries& series : log->series) {
        if (series.id == reset.series) evidence.series = series.name;
      }
      evidence.at = absl::StrCat(FormatDuration(std::chrono::floor<std::chrono::milliseconds>(reset.at)),
                                 " into the load: ", reset.reason);
      facts.resets.push_back(std::move(evidence));
    }
    for (const results::SampleSeries& series : log->series) {
      if (!prom::IsSimulatedSeries(series.name)) continue;
      facts.simulated = facts.simulated ||
                        std::any_of(stack.processes.begin(), stack.processes.end(),
                                    [&](const auto& process) { return process.spec.id() == series.source; });
    }
    std::vector<Nanoseconds> times;
    for (const auto& [id, values] : log->values) {
      for (const stats::Sample& sample : values) times.push_back(sample.at);
    }
    std::sort(times.begin(), times.end());
    Nanoseconds longest{0};
    for (const stats::Gap& gap :
         stats::GapsIn(times, Nanoseconds(0), window.drained, std::chrono::seconds(2))) {
      longest = std::max(longest, gap.to - gap.from);
    }
    facts.longest_gap[machine] = longest;
    for (const results::SampleSeries& series : log->series) {
      const bool net = series.name == "node_network_transmit_bytes_total";
      const bool rdma = series.name == "node_infiniband_port_data_transmitted_bytes_total";
      auto device = series.labels.find("device");
      auto values = log->values.find(series.id);
      if ((!net && !rdma) || device == series.labels.end() || values == log->values.end()) continue;
      // Bytes that were sent after the last reading are in no counter: then it is not known what went where.
      const auto scrapes = log->scrapes.find(series.source);
      if (scrapes == log->scrapes.end() || !IsReadBetween(scrapes->second, window.drained, end)) continue;
      stats::CounterChange change = stats::ChangeOver(values->second, window.from, end, false);
      if (!change.change.has_value()) continue;
      facts.sent_by_device[machine][absl::StrCat(net ? "net:" : "rdma:", device->second)] += *change.change;
    }
    for (const results::SampleSeries& series : log->series) {
      if (!IsPower(series.unit, series.name)) continue;
      auto values = log->values.find(series.id);
      if (values == log->values.end()) continue;
      results::PowerSeries power;
      power.machine = machine;
      power.kind = series.source == "bmc" ? "bmc"
                   : series.name.find("gpu") != std::string::npos || series.name.starts_with("DCGM_")
                       ? "gpu"
                       : "telemetry";
      power.series = series.name;
      for (const auto& [label, value] : series.labels) absl::StrAppend(&power.series, ",", label, "=", value);
      for (const stats::Sample& sample : values->second)
        power.watts.emplace_back(Seconds(sample.at), sample.value);
      facts.power.push_back(std::move(power));
    }
  }
  return facts;
}

}  // namespace poolmark::controller
