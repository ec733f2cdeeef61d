// Keys are those that vllm/benchmarks/serve.py (vllm-project/vllm) writes with --save-result --save-detailed.
#include <algorithm>
#include <cmath>
#include <ctime>
#include <map>
#include <nlohmann/json.hpp>

#include "common/load/accumulator.h"
#include "common/load/export_data.h"
#include "common/load/summary.h"

namespace poolmark::load {
namespace {

double SecondsOf(int64_t nanoseconds) {
  return static_cast<double>(nanoseconds) / 1e9;
}

void AddStatistics(const char* name, std::vector<double> nanoseconds, Json* json) {
  const std::string suffix = std::string(name) + "_ms";
  const bool any = !nanoseconds.empty();
  const Distribution d = Distribute(nanoseconds);
  double square = 0;
  for (const double value : nanoseconds) square += std::pow(value / 1e6 - d.mean, 2);
  const auto put = [&](const char* statistic, double value) {
    (*json)[statistic + suffix] = any ? Json(value) : Json(nullptr);
  };
  put("mean_", d.mean);
  put("median_", d.p50);
  put("std_", std::sqrt(square / static_cast<double>(std::max<size_t>(1, nanoseconds.size()))));
  put("p50_", d.p50);
  put("p90_", d.p90);
  put("p95_", d.p95);
  put("p99_", d.p99);
}

// "20260131-235959", as its file names and `date` have it.
std::string Date(int64_t wall) {
  const time_t seconds = wall / 1'000'000'000;
  tm local{};
  localtime_r(&seconds, &local);
  char text[32];
  strftime(text, sizeof text, "%Y%m%d-%H%M%S", &local);
  return text;
}

// What the load was, in its words. A closed loop is an unlimited rate below a limit of concurrency.
void AddTraffic(const Json& load, Json* json) {
  const Json& level = load.at("load");
  (*json)["request_rate"] = "inf";
  (*json)["burstiness"] = 1.0;
  (*json)["max_concurrency"] = level.contains("concurrency") ? level["concurrency"] : Json(nullptr);
  if (!level.contains("rate")) return;
  const auto rate = level["rate"].get<std::string>();
  char* end = nullptr;
  const double plain = std::strtod(rate.c_str(), &end);
  (*json)["request_rate"] = *end == 0 ? Json(plain) : Json(rate);
  const auto arrivals = level.at("arrivals").get<std::string>();
  // Its burstiness is the gamma shape; equal gaps would be an infinite one.
  if (arrivals == "gamma") {
    const auto cv = level.at("cv").get<double>();
    (*json)["burstiness"] = 1 / (cv * cv);
  }
  if (arrivals == "constant") (*json)["burstiness"] = nullptr;
}

// The most requests that were under way at one instant, and the most output tokens in one second.
struct Peaks {
  uint64_t concurrent = 0;
  double tokens = 0;
};
Peaks PeaksOf(const std::vector<const RequestRecord*>& records) {
  Peaks peaks;
  std::vector<std::pair<int64_t, int>> edges;
  std::map<int64_t, double> seconds;
  for (const RequestRecord* r : records) {
    if (!r->was_sent()) continue;
    edges.emplace_back(r->started, 1);
    edges.emplace_back(r->end, -1);
    if (r->outcome != Outcome::kOk) continue;
    for (const OutputEvent& event : r->events) seconds[event.at / 1'000'000'000] += event.tokens;
  }
  std::sort(edges.begin(), edges.end());
  int64_t now = 0;
  for (const auto& [at, step] : edges) {
    now += step;
    peaks.concurrent = std::max(peaks.concurrent, static_cast<uint64_t>(std::max<int64_t>(0, now)));
  }
  for (const auto& [second, tokens] : seconds) peaks.tokens = std::max(peaks.tokens, tokens);
  return peaks;
}

}  // namespace

Result<std::string> VllmResult(const ExportData& data) {
  std::vector<const RequestRecord*> records;
  for (const RequestRecord& r : data.records) {
    if (!data.warm(r)) records.push_back(&r);
  }
  const Json& load = data.load();
  Json json = {{"date", Date(data.started_wall)},
               {"backend", load.at("api") == "chat" ? "openai-chat" : "openai"},
               {"label", "poolmark"},
               {"model_id", load.at("model")},
               {"tokenizer_id", nullptr},  // none was used: lengths are the server's own counts
               {"num_prompts", records.size()}};
  json["endpoint_type"] = json["backend"];
  AddTraffic(load, &json);
  Json input_lens = Json::array(), output_lens = Json::array(), ttfts = Json::array(), itls = Json::array(),
       latencies = Json::array(), queue_times = Json::array(), errors = Json::array(), starts = Json::array();
  std::vector<double> ttft, tpot, itl, latency;
  int64_t input = 0, output = 0;
  uint64_t completed = 0;
  for (const RequestRecord* record : records) {
    const RequestRecord& r = *record;
    const bool ok = r.outcome == Outcome::kOk;
    Json gaps = Json::array();
    for (size_t i = 1; ok && i < r.events.size(); ++i) {
      const auto gap = static_cast<double>(r.events[i].at - r.events[i - 1].at);
      gaps.push_back(gap / 1e9);
      itl.push_back(gap);
    }
    input_lens.push_back(r.input_tokens.value_or(r.planned_input_tokens));
    output_lens.push_back(ok ? r.output_tokens.value_or(0) : 0);
    ttfts.push_back(ok ? SecondsOf(*r.first_output - r.latency_start()) : 0.0);
    itls.push_back(gaps);
    latencies.push_back(ok ? SecondsOf(*r.last_output - r.latency_start()) : 0.0);
    queue_times.push_back(r.intended.has_value() ? SecondsOf(r.started - *r.intended) : 0.0);
    errors.push_back(ok ? "" : std::string(OutcomeName(r.outcome)) + ": " + r.error);
    starts.push_back(SecondsOf(r.started));
    if (!ok) continue;
    ++completed;
    input += r.input_tokens.value_or(r.planned_input_tokens);
    output += r.output_tokens.value_or(0);
    ttft.push_back(static_cast<double>(*r.first_output - r.latency_start()));
    latency.push_back(static_cast<double>(*r.last_output - r.latency_start()));
    if (const auto time = TimePerOutputToken(r)) tpot.push_back(*time);
  }
  const Peaks peaks = PeaksOf(records);
  const double seconds = std::max(data.window_s, 1e-9);
  json.update({{"duration", data.window_s},
               {"completed", completed},
               {"failed", records.size() - completed},
               {"total_input_tokens", input},
               {"total_output_tokens", output},
               {"request_throughput", static_cast<double>(completed) / seconds},
               {"request_goodput",
                data.json.contains("goodput") ? data.json["goodput"].at("per_second") : Json(nullptr)},
               {"output_throughput", static_cast<double>(output) / seconds},
               {"total_token_throughput", static_cast<double>(input + output) / seconds},
               {"max_output_tokens_per_s", peaks.tokens},
               {"max_concurrent_requests", peaks.concurrent},
               {"input_lens", input_lens},
               {"output_lens", output_lens},
               {"ttfts", ttfts},
               {"itls", itls},
               {"latencies", latencies},
               {"queue_times", queue_times},
               {"start_times", starts},
               {"errors", errors}});
  AddStatistics("ttft", ttft, &json);
  AddStatistics("tpot", tpot, &json);
  AddStatistics("itl", itl, &json);
  AddStatistics("e2el", latency, &json);
  return DumpJson(json);
}

}  // namespace poolmark::load
