#include "common/results/cache_facts.h"

#include <algorithm>
#include <map>
#include <optional>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "common/results/sample_readings.h"

namespace poolmark::results {
namespace {

constexpr double kWhole = 0.95;  // of a window: less is told

// Gauges that say how full an engine's own cache is, 0 … 1, by engine.
// An engine that shows two of them shows one cache twice: the first in this list counts.
constexpr std::string_view kUsage[] = {"vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc",
                                       "sglang:token_usage", "llamacpp:kv_cache_usage_ratio",
                                       "trtllm_kv_cache_utilization"};

std::vector<const SampleSeries*> UsageOf(const SampleLog& log, const std::string& source) {
  std::vector<const SampleSeries*> out;
  for (const std::string_view name : kUsage) {
    for (const SampleSeries& series : log.series) {
      if (series.source == source && series.name == name) out.push_back(&series);
    }
    if (!out.empty()) break;
  }
  return out;
}

// The rank whose own cache a series is of: engines that are copies of each other ("data parallel") keep one
// each, the parts of one engine ("tensor parallel") show the same one.
std::string RankOf(const SampleSeries& series) {
  for (const char* label : {"engine", "dp_rank"}) {
    if (const auto found = series.labels.find(label); found != series.labels.end()) return found->second;
  }
  return "";
}

double Total(const std::map<std::string, double>& by_rank) {
  double sum = 0;
  for (const auto& [rank, value] : by_rank) sum += value;
  return sum;
}

// The last readings of a gauge of this source, all ranks together; nothing without one.
std::optional<double> LastOf(const SampleLog& log, const std::string& source, std::string_view name) {
  std::map<std::string, double> by_rank;
  for (const SampleSeries& series : log.series) {
    if (series.source != source || series.name != name) continue;
    auto values = log.values.find(series.id);
    if (values == log.values.end() || values->second.empty()) continue;
    const double last = values->second.back().value;
    double& rank = by_rank.try_emplace(RankOf(series), last).first->second;
    rank = std::max(rank, last);
  }
  if (by_rank.empty()) return std::nullopt;
  return Total(by_rank);
}

// vLLM says its cache's size in labels of one gauge (vllm:cache_config_info), SGLang and TensorRT-LLM in
// gauges; llama.cpp holds as many tokens as its context, which is in its command line.
// `through`: the series that said it.
Measured<double> CapacityOf(const SampleLog& log, const PlanProcess& process, std::string* through) {
  const std::string& source = process.id;
  std::map<std::string, double> by_rank;
  for (const SampleSeries& series : log.series) {
    if (series.source != source || !series.name.ends_with("cache_config_info")) continue;
    auto number = [&](const char* label, double* out) {
      auto found = series.labels.find(label);
      return found != series.labels.end() && absl::SimpleAtod(found->second, out);
    };
    double tokens = 0, blocks = 0, block = 0;
    if (!number("kv_cache_size_tokens", &tokens) && number("num_gpu_blocks", &blocks) &&
        number("block_size", &block))
      tokens = blocks * block;
    if (!(tokens > 0)) continue;
    *through = series.name;
    by_rank[RankOf(series)] = tokens;
  }
  if (!by_rank.empty()) return Total(by_rank);
  constexpr std::string_view kTokens = "sglang:max_total_num_tokens", kBlocks = "trtllm_kv_cache_max_blocks",
                             kBlock = "trtllm_kv_cache_tokens_per_block";
  *through = kTokens;
  if (auto tokens = LastOf(log, source, kTokens); tokens && *tokens > 0) return *tokens;
  *through = absl::StrCat(std::string(kBlocks), ", ", std::string(kBlock));
  const auto blocks = LastOf(log, source, kBlocks), block = LastOf(log, source, kBlock);
  if (blocks && block && *blocks * *block > 0) return *blocks * *block;
  through->clear();
  if (process.dialect == "llama-cpp") {
    for (size_t i = 0; i + 1 < process.argv.size(); ++i) {
      double tokens = 0;
      const bool context = process.argv[i] == "--ctx-size" || process.argv[i] == "-c";
      if (context && absl::SimpleAtod(process.argv[i + 1], &tokens) && tokens > 0) return tokens;
    }
  }
  return NotMeasured{"not exposed by this engine"};
}

}  // namespace

CacheFacts UnreadCache(const PlanProcess& process, const std::string& why) {
  CacheFacts cache;
  cache.process = process.id;
  cache.machine = process.machine;
  cache.capacity_tokens = cache.usage_mean = cache.usage_peak = NotMeasured{why};
  return cache;
}

CacheFacts CacheFactsOf(const SampleLog& log, const PlanProcess& process, Nanoseconds from, Nanoseconds to,
                        std::vector<std::string>* notes) {
  CacheFacts cache = UnreadCache(process, "not exposed by this engine");
  std::string through;
  cache.capacity_tokens = CapacityOf(log, process, &through);
  cache.capacity_series = through;
  const auto usage = UsageOf(log, process.id);
  if (usage.empty()) return cache;
  cache.series = usage.front()->name;
  // Several of one name are ranks: copies of one cache, or caches of the same size.
  double mean = 0, peak = 0, covered = 0;
  for (const SampleSeries* series : usage) {
    const auto level = LevelIn(log, *series, from, to);
    if (!level.has_value()) {
      cache.usage_mean = cache.usage_peak = NotMeasured{level.reason()};
      return cache;
    }
    mean += (*level).mean / static_cast<double>(usage.size());
    peak = std::max(peak, (*level).peak);
    covered =
        series == usage.front() ? (*level).covered_seconds : std::min(covered, (*level).covered_seconds);
  }
  cache.usage_mean = mean;
  cache.usage_peak = peak;
  const double window = static_cast<double>((to - from).count()) / 1e9;
  if (covered < kWhole * window)
    notes->push_back(absl::StrCat("GPU KV usage of ", cache.process, " could be read for ", covered, " of ",
                                  window, " s of the window"));
  return cache;
}

}  // namespace poolmark::results
