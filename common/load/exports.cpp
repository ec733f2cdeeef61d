#include "common/load/exports.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numeric>

#include "common/base/files.h"
#include "common/base/json.h"
#include "common/base/time_format.h"
#include "common/load/accumulator.h"
#include "common/load/record_codec.h"
#include "common/load/summary.h"

namespace poolmark::load {
namespace {

double Seconds(int64_t nanoseconds) {
  return static_cast<double>(nanoseconds) / 1e9;
}
Json Value(double value, const char* unit) {
  return {{"value", value}, {"unit", unit}};
}

struct Loaded {
  int64_t started_wall = 0;
  int64_t window_start = 0;
  double window_s = 0;
  std::vector<RequestRecord> records;  // of the window, primers apart
};

Result<Loaded> Read(const std::string& directory, bool window_only) {
  Loaded loaded;
  const std::string path = JoinPath(directory, "load.json");
  POOLMARK_ASSIGN_OR_RETURN(const std::string text, ReadFile(path));
  POOLMARK_ASSIGN_OR_RETURN(const Json json, ParseJson(text, path));
  try {
    loaded.started_wall = json.at("started_wall_ns").get<int64_t>();
    loaded.window_start = json.at("window_ns").at("start").get<int64_t>();
    loaded.window_s = json.at("window").at("length_s").get<double>();
  } catch (const Json::exception& error) {
    return InvalidInput(path, std::string("it is no load.json of this version: ") + error.what());
  }
  POOLMARK_ASSIGN_OR_RETURN(loaded.records, ReadRecords(JoinPath(directory, "requests.jsonl.zst")));
  if (window_only) {
    std::erase_if(loaded.records,
                  [&](const RequestRecord& r) { return r.primer || r.window_time() < loaded.window_start; });
  }
  std::stable_sort(loaded.records.begin(), loaded.records.end(),
                   [](const RequestRecord& a, const RequestRecord& b) { return a.started < b.started; });
  return loaded;
}

Json AiperfMetrics(const RequestRecord& r) {
  Json metrics = Json::object();
  if (!r.first_output.has_value()) return metrics;
  const double to_ms = 1e-6;
  metrics["time_to_first_token"] =
      Value(static_cast<double>(*r.first_output - r.latency_start()) * to_ms, "ms");
  if (r.first_answer_output.has_value())
    metrics["time_to_first_output_token"] =
        Value(static_cast<double>(*r.first_answer_output - r.latency_start()) * to_ms, "ms");
  metrics["request_latency"] = Value(static_cast<double>(*r.last_output - r.latency_start()) * to_ms, "ms");
  if (const auto time = TimePerOutputToken(r)) metrics["inter_token_latency"] = Value(*time * to_ms, "ms");
  Json gaps = Json::array();
  for (size_t i = 1; i < r.events.size(); ++i)
    gaps.push_back(static_cast<double>(r.events[i].at - r.events[i - 1].at) * to_ms);
  metrics["inter_chunk_latency"] = {{"value", gaps}, {"unit", "ms"}};
  if (r.output_tokens.has_value())
    metrics["output_sequence_length"] = Value(static_cast<double>(*r.output_tokens), "tokens");
  if (r.input_tokens.has_value())
    metrics["input_sequence_length"] = Value(static_cast<double>(*r.input_tokens), "tokens");
  return metrics;
}

Result<std::string> AiperfLines(const Loaded& loaded) {
  std::string out;
  uint64_t number = 0;
  for (const RequestRecord& r : loaded.records) {
    const auto wall = [&](int64_t time) { return loaded.started_wall + time; };
    const bool warm = r.primer || r.window_time() < loaded.window_start;
    Json line = {{"metadata",
                  {{"session_num", number++},
                   {"x_request_id", r.session_id + "-" + std::to_string(r.turn)},
                   {"conversation_id", r.session_id},
                   {"turn_index", r.turn},
                   {"credit_issued_ns", wall(r.intended.value_or(r.started))},
                   {"request_start_ns", wall(r.started)},
                   {"request_ack_ns", r.first_byte.has_value() ? Json(wall(*r.first_byte)) : Json(nullptr)},
                   {"request_end_ns", wall(r.end)},
                   {"worker_id", "poolmark"},
                   {"record_processor_id", "poolmark"},
                   {"benchmark_phase", warm ? "warmup" : "profiling"},
                   {"was_cancelled", r.outcome == Outcome::kCancelled}}},
                 {"metrics", AiperfMetrics(r)},
                 {"error", nullptr}};
    if (r.outcome != Outcome::kOk) {
      line["error"] = {
          {"code", r.http_status}, {"type", std::string(OutcomeName(r.outcome))}, {"message", r.error}};
    }
    POOLMARK_ASSIGN_OR_RETURN(const std::string text, DumpJson(line));
    out += text + "\n";
  }
  return out;
}

void AddStatistics(const char* name, std::vector<double> nanoseconds, Json* json) {
  const Distribution d = Distribute(nanoseconds);
  double square = 0;
  for (const double value : nanoseconds) square += std::pow(value / 1e6 - d.mean, 2);
  const std::string suffix = std::string(name) + "_ms";
  (*json)["mean_" + suffix] = d.mean;
  (*json)["median_" + suffix] = d.p50;
  (*json)["std_" + suffix] =
      nanoseconds.empty() ? 0 : std::sqrt(square / static_cast<double>(nanoseconds.size()));
  (*json)["p50_" + suffix] = d.p50;
  (*json)["p90_" + suffix] = d.p90;
  (*json)["p95_" + suffix] = d.p95;
  (*json)["p99_" + suffix] = d.p99;
}

Result<std::string> VllmResult(const Loaded& loaded) {
  Json input_lens = Json::array(), output_lens = Json::array(), ttfts = Json::array(), itls = Json::array(),
       errors = Json::array(), starts = Json::array();
  std::vector<double> ttft, tpot, itl, latency;
  int64_t input = 0;
  int64_t output = 0;
  uint64_t completed = 0;
  for (const RequestRecord& r : loaded.records) {
    const bool ok = r.outcome == Outcome::kOk;
    Json gaps = Json::array();
    for (size_t i = 1; ok && i < r.events.size(); ++i) {
      const double gap = static_cast<double>(r.events[i].at - r.events[i - 1].at);
      gaps.push_back(gap / 1e9);
      itl.push_back(gap);
    }
    input_lens.push_back(r.input_tokens.value_or(r.planned_input_tokens));
    output_lens.push_back(ok ? r.output_tokens.value_or(0) : 0);
    ttfts.push_back(ok ? Seconds(*r.first_output - r.latency_start()) : 0.0);
    itls.push_back(gaps);
    errors.push_back(ok ? "" : std::string(OutcomeName(r.outcome)) + ": " + r.error);
    starts.push_back(Seconds(r.started));
    if (!ok) continue;
    ++completed;
    input += r.input_tokens.value_or(0);
    output += r.output_tokens.value_or(0);
    ttft.push_back(static_cast<double>(*r.first_output - r.latency_start()));
    latency.push_back(static_cast<double>(*r.last_output - r.latency_start()));
    if (const auto time = TimePerOutputToken(r)) tpot.push_back(*time);
  }
  const double seconds = std::max(loaded.window_s, 1e-9);
  Json json = {{"date", IsoLocal(Nanoseconds(loaded.started_wall))},
               {"endpoint_type", "openai"},
               {"num_prompts", loaded.records.size()},
               {"duration", loaded.window_s},
               {"completed", completed},
               {"failed", loaded.records.size() - completed},
               {"total_input_tokens", input},
               {"total_output_tokens", output},
               {"request_throughput", static_cast<double>(completed) / seconds},
               {"output_throughput", static_cast<double>(output) / seconds},
               {"total_token_throughput", static_cast<double>(input + output) / seconds},
               {"input_lens", input_lens},
               {"output_lens", output_lens},
               {"ttfts", ttfts},
               {"itls", itls},
               {"start_times", starts},
               {"errors", errors}};
  AddStatistics("ttft", ttft, &json);
  AddStatistics("tpot", tpot, &json);
  AddStatistics("itl", itl, &json);
  AddStatistics("e2el", latency, &json);
  return DumpJson(json);
}

}  // namespace

Result<ExportFormat> ParseExportFormat(std::string_view text) {
  if (text == "aiperf") return ExportFormat::kAiperf;
  if (text == "vllm") return ExportFormat::kVllm;
  return InvalidInput("export '" + std::string(text) + "'", "it is not known", "use aiperf or vllm");
}

Result<std::string> ExportRecords(const std::string& directory, ExportFormat format) {
  const bool aiperf = format == ExportFormat::kAiperf;
  POOLMARK_ASSIGN_OR_RETURN(const Loaded loaded, Read(directory, !aiperf));
  const std::string path = JoinPath(directory, aiperf ? "profile_export.jsonl" : "vllm.json");
  POOLMARK_ASSIGN_OR_RETURN(const std::string text, aiperf ? AiperfLines(loaded) : VllmResult(loaded));
  POOLMARK_RETURN_IF_ERROR(AtomicWriteFile(path, text));
  return path;
}

}  // namespace poolmark::load
