// Names, units and nesting are those of AIPerf's own models (ai-dynamo/aiperf, src/aiperf/common/models:
// export_models.py and record_models.py); readers of GenAI-Perf's files take the same.
#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>

#include "common/base/time_format.h"
#include "common/base/version.h"
#include "common/load/accumulator.h"
#include "common/load/export_data.h"

namespace poolmark::load {
namespace {

constexpr double kToMs = 1e-6;

Json Value(double value, const char* unit) {
  return {{"value", value}, {"unit", unit}};
}

double Since(int64_t time, const RequestRecord& r) {
  return static_cast<double>(time - r.latency_start()) * kToMs;
}

std::vector<double> Gaps(const RequestRecord& r) {
  std::vector<double> gaps;
  for (size_t i = 1; i < r.events.size(); ++i)
    gaps.push_back(static_cast<double>(r.events[i].at - r.events[i - 1].at) * kToMs);
  return gaps;
}

// Of a request that succeeded: a failed one is an error and in no average.
Json Metrics(const RequestRecord& r) {
  Json metrics = Json::object();
  if (r.outcome != Outcome::kOk || !r.first_output.has_value()) return metrics;
  metrics["time_to_first_token"] = Value(Since(*r.first_output, r), "ms");
  if (r.first_answer_output.has_value())
    metrics["time_to_first_output_token"] = Value(Since(*r.first_answer_output, r), "ms");
  metrics["request_latency"] = Value(Since(*r.last_output, r), "ms");
  if (const auto time = TimePerOutputToken(r)) metrics["inter_token_latency"] = Value(*time * kToMs, "ms");
  metrics["inter_chunk_latency"] = {{"value", Gaps(r)}, {"unit", "ms"}};
  if (r.output_tokens.has_value())
    metrics["output_sequence_length"] = Value(static_cast<double>(*r.output_tokens), "tokens");
  if (r.input_tokens.has_value())
    metrics["input_sequence_length"] = Value(static_cast<double>(*r.input_tokens), "tokens");
  return metrics;
}

Json Error(const RequestRecord& r) {
  return {{"code", r.http_status == 0 ? Json(nullptr) : Json(r.http_status)},
          {"type", std::string(OutcomeName(r.outcome))},
          {"message", r.error}};
}

Json One(double value, const char* unit) {
  return {{"unit", unit}, {"avg", value}};
}

// Nothing where nothing was measured: the form leaves such metrics out.
void AddSpread(const char* name, const char* unit, std::vector<double> values, Json* json) {
  if (values.empty()) return;
  std::sort(values.begin(), values.end());
  const auto n = static_cast<double>(values.size());
  const double mean = std::accumulate(values.begin(), values.end(), 0.0) / n;
  double square = 0;
  for (const double value : values) square += (value - mean) * (value - mean);
  const auto percentile = [&](double share) {
    const double rank = share * (n - 1);
    const auto low = static_cast<size_t>(rank);
    const size_t high = std::min(low + 1, values.size() - 1);
    return values[low] + (values[high] - values[low]) * (rank - static_cast<double>(low));
  };
  (*json)[name] = {{"unit", unit},
                   {"avg", mean},
                   {"p1", percentile(0.01)},
                   {"p5", percentile(0.05)},
                   {"p10", percentile(0.1)},
                   {"p25", percentile(0.25)},
                   {"p50", percentile(0.5)},
                   {"p75", percentile(0.75)},
                   {"p90", percentile(0.9)},
                   {"p95", percentile(0.95)},
                   {"p99", percentile(0.99)},
                   {"min", values.front()},
                   {"max", values.back()},
                   {"std", std::sqrt(square / n)}};
}

}  // namespace

Result<std::string> AiperfLines(const ExportData& data) {
  std::string out;
  uint64_t number = 0;
  const auto prefix = data.load().at("request_id_prefix").get<std::string>();
  for (const RequestRecord& r : data.records) {
    const auto wall = [&](int64_t time) { return data.started_wall + time; };
    Json line = {{"metadata",
                  {{"session_num", number++},
                   // As the server saw it in X-Request-ID.
                   {"x_request_id", prefix + "-" + std::to_string(r.session) + "-" + std::to_string(r.turn)},
                   {"conversation_id", r.session_id},
                   {"turn_index", r.turn},
                   {"credit_issued_ns", wall(r.intended.value_or(r.started))},
                   {"request_start_ns", wall(r.started)},
                   {"request_ack_ns", r.first_byte.has_value() ? Json(wall(*r.first_byte)) : Json(nullptr)},
                   {"request_end_ns", wall(r.end)},
                   {"worker_id", "poolmark"},
                   {"record_processor_id", "poolmark"},
                   {"benchmark_phase", data.warm(r) ? "warmup" : "profiling"},
                   {"was_cancelled", r.outcome == Outcome::kCancelled}}},
                 {"metrics", Metrics(r)},
                 {"error", nullptr}};
    if (r.outcome != Outcome::kOk) line["error"] = Error(r);
    POOLMARK_ASSIGN_OR_RETURN(const std::string text, DumpJson(line));
    out += text + "\n";
  }
  return out;
}

Result<std::string> AiperfSummary(const ExportData& data) {
  std::vector<double> ttft, answer_ttft, latency, itl, per_user, gaps, osl, isl, error_isl;
  std::map<std::string, std::pair<Json, uint64_t>> errors;
  uint64_t ok = 0, failed = 0;
  int64_t end = data.window_start;
  for (const RequestRecord& r : data.records) {
    if (data.warm(r)) continue;
    end = std::max(end, r.end);
    if (r.outcome != Outcome::kOk) {
      ++failed;
      const Json error = Error(r);
      auto& [example, count] = errors[std::string(OutcomeName(r.outcome)) + std::to_string(r.http_status)];
      if (count++ == 0) example = error;
      error_isl.push_back(static_cast<double>(r.input_tokens.value_or(r.planned_input_tokens)));
      continue;
    }
    ++ok;
    ttft.push_back(Since(*r.first_output, r));
    if (r.first_answer_output.has_value()) answer_ttft.push_back(Since(*r.first_answer_output, r));
    latency.push_back(Since(*r.last_output, r));
    if (const auto time = TimePerOutputToken(r)) {
      itl.push_back(*time * kToMs);
      if (*time > 0) per_user.push_back(1e9 / *time);
    }
    const auto own = Gaps(r);
    gaps.insert(gaps.end(), own.begin(), own.end());
    if (r.output_tokens.has_value()) osl.push_back(static_cast<double>(*r.output_tokens));
    if (r.input_tokens.has_value()) isl.push_back(static_cast<double>(*r.input_tokens));
  }
  const double total_osl = std::accumulate(osl.begin(), osl.end(), 0.0);
  Json json = {{"schema_version", "1.0"},
               {"generated_by", "poolmark " + Version()},
               {"request_count", One(static_cast<double>(ok), "requests")},
               {"error_request_count", One(static_cast<double>(failed), "requests")},
               {"benchmark_duration", One(data.window_s, "sec")},
               {"total_osl", One(total_osl, "tokens")},
               {"total_output_tokens", One(total_osl, "tokens")},
               {"total_isl", One(std::accumulate(isl.begin(), isl.end(), 0.0), "tokens")},
               {"was_cancelled", data.json.at("interrupted")},
               {"start_time", IsoLocal(Nanoseconds(data.started_wall + data.window_start))},
               {"end_time", IsoLocal(Nanoseconds(data.started_wall + end))}};
  if (data.window_s > 0) {
    json["request_throughput"] = One(static_cast<double>(ok) / data.window_s, "requests/sec");
    json["output_token_throughput"] = One(total_osl / data.window_s, "tokens/sec");
  }
  AddSpread("time_to_first_token", "ms", std::move(ttft), &json);
  AddSpread("time_to_first_output_token", "ms", std::move(answer_ttft), &json);
  AddSpread("request_latency", "ms", std::move(latency), &json);
  AddSpread("inter_token_latency", "ms", std::move(itl), &json);
  AddSpread("inter_chunk_latency", "ms", std::move(gaps), &json);
  AddSpread("output_token_throughput_per_user", "tokens/sec/user", std::move(per_user), &json);
  AddSpread("output_sequence_length", "tokens", std::move(osl), &json);
  AddSpread("input_sequence_length", "tokens", std::move(isl), &json);
  AddSpread("error_isl", "tokens", std::move(error_isl), &json);
  if (data.json.contains("goodput")) {
    const Json& goodput = data.json["goodput"];
    json["goodput"] = One(goodput.at("per_second").get<double>(), "requests/sec");
  }
  Json summary = Json::array();
  for (const auto& [key, error] : errors)
    summary.push_back({{"error_details", error.first}, {"count", error.second}});
  json["error_summary"] = summary;
  POOLMARK_ASSIGN_OR_RETURN(const std::string text, DumpJson(json, 2));
  return text + "\n";
}

}  // namespace poolmark::load
