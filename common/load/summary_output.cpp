// Summaries as JSON and as text.
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "common/base/printable.h"
#include "common/load/summary.h"
#include "common/load/token_sources.h"

namespace poolmark::load {
namespace {

Json Of(const std::optional<double>& value) {
  return value.has_value() ? Json(FourDecimals(*value)) : Json(nullptr);
}

Json Of(const std::optional<Distribution>& d) {
  if (!d.has_value()) return nullptr;
  return {{"count", d->count},           {"mean", FourDecimals(d->mean)}, {"p50", FourDecimals(d->p50)},
          {"p90", FourDecimals(d->p90)}, {"p95", FourDecimals(d->p95)},   {"p99", FourDecimals(d->p99)},
          {"min", FourDecimals(d->min)}, {"max", FourDecimals(d->max)}};
}

// Prompt tokens as far as the server told them.
std::string InputTokens(const Summary& s) {
  if (s.without_input_tokens == s.ok) return "in: not told";
  const auto sum = [](uint64_t tokens, uint64_t without) {
    return (without > 0 ? "at least " : "") + std::to_string(tokens);
  };
  std::string text = sum(s.input_tokens, s.without_input_tokens) + " in";
  if (s.without_cached_tokens < s.ok && (s.cached_tokens > 0 || s.without_cached_tokens == 0))
    text += " (" + sum(s.cached_tokens, s.without_cached_tokens) + " of them cached)";
  return text;
}

Json Definitions() {
  return {
      {"ttft_ms",
       "from the intended send (open loop) or the last byte sent (closed loop) to the first event with "
       "output: content, reasoning or a tool call"},
      {"ttft_from_sent_ms", "the same, from the last byte sent"},
      {"ttft_kernel_ms", "the same as ttft_ms, but to the kernel's receive stamp of the data"},
      {"answer_ttft_ms", "the same as ttft_ms, to the first event with content or a tool call"},
      {"time_per_output_token_ms",
       "(last output - first output) / (output tokens - tokens of the first event), for each request"},
      {"inter_token_latency_ms",
       "gaps between output events, all requests pooled; percentiles from counts in buckets 0.1 % wide"},
      {"latency_ms", "from the same start as ttft_ms to the last event with output"},
      {"percentiles",
       "linear interpolation between closest ranks, over the successful requests that start in the window"},
      {"output_tokens_per_second",
       "output tokens of the successful requests that start in the window, drain included, over the window's "
       "length"},
      {"lateness_ms", "from the kernel's receive stamp of data to the program's own clock"},
      {"schedule_error_ms",
       "from the intended send to the first byte about to be written, or to the beginning of a connection's "
       "set-up"}};
}

}  // namespace

Json SummaryJson(const Summary& s) {
  Json outcomes = Json::object();
  Json examples = Json::object();
  for (int i = 0; i < kOutcomes; ++i) {
    const size_t at = static_cast<size_t>(i);
    const std::string name(OutcomeName(static_cast<Outcome>(i)));
    if (s.outcomes[at] > 0) outcomes[name] = s.outcomes[at];
    if (!s.examples[at].empty()) examples[name] = s.examples[at];
  }
  const ClientFigures& c = s.client;
  Json json = {
      {"schema_version", kLoadSchemaVersion},
      {"window",
       {{"start_s", FourDecimals(s.window_start_s)},
        {"length_s", FourDecimals(s.window_s)},
        {"whole_run", s.whole_run}}},
      {"load_s", FourDecimals(s.load_s)},
      {"total_s", FourDecimals(s.total_s)},
      {"interrupted", s.interrupted},
      {"files_error", s.files_error.empty() ? Json(nullptr) : Json(s.files_error)},
      {"requests", s.requests},
      {"ok", s.ok},
      {"failed", s.requests - s.ok},
      {"warm_up_requests", s.warm_up_requests},
      {"primers", s.primers},
      {"outcomes", outcomes},
      {"error_examples", examples},
      {"requests_per_second", FourDecimals(s.requests_per_second)},
      {"output_tokens_per_second", FourDecimals(s.output_tokens_per_second)},
      {"input_tokens", s.without_input_tokens == s.ok ? Json(nullptr) : Json(s.input_tokens)},
      {"cached_tokens", s.without_cached_tokens == s.ok ? Json(nullptr) : Json(s.cached_tokens)},
      {"output_tokens", s.output_tokens},
      {"ttft_ms", Of(s.ttft)},
      {"ttft_from_sent_ms", Of(s.ttft_from_sent)},
      {"ttft_kernel_ms", Of(s.kernel_ttft)},
      {"answer_ttft_ms", Of(s.answer_ttft)},
      {"first_byte_ms", Of(s.first_byte)},
      {"time_per_output_token_ms", Of(s.time_per_output_token)},
      {"inter_token_latency_ms", Of(s.gap)},
      {"latency_ms", Of(s.latency)},
      {"connect_ms", Of(s.connect)},
  };
  if (s.slo.has_value()) {
    Json points = Json::array();
    for (const GoodputPoint& point : s.goodput)
      points.push_back({{"scale", point.scale},
                        {"per_second", FourDecimals(point.per_second)},
                        {"share", FourDecimals(point.share)}});
    json["goodput"] = {{"slo", s.slo->name},
                       {"per_second", FourDecimals(s.goodput[0].per_second)},
                       {"share", FourDecimals(s.goodput[0].share)},
                       {"by_scale", points}};
    // The verdict only where the objective says how many requests must meet it.
    const auto& required = s.slo->share;
    json["goodput"]["required_share"] = required.has_value() ? Json(*required) : Json(nullptr);
    json["goodput"]["met"] =
        required.has_value() && s.requests > 0 ? Json(s.goodput[0].share >= *required) : Json(nullptr);
  }
  json["client"] = {
      {"limited", s.client_limited},
      {"lateness_ms",
       {{"p50", Of(c.lateness_p50_ms)}, {"p99", Of(c.lateness_p99_ms)}, {"max", Of(c.lateness_max_ms)}}},
      {"schedule_error_ms",
       {{"p50", Of(c.schedule_error_p50_ms)},
        {"p99", Of(c.schedule_error_p99_ms)},
        {"max", Of(c.schedule_error_max_ms)}}},
      {"connection_wait_max_ms", Of(c.connection_wait_max_ms)},
      {"processor_wait_share", Of(c.processor_wait_share)},
      {"stale_requests", c.stale_requests},
      {"own_limits", c.own_limits},
      {"absurd_usages", c.absurd_usages},
      {"achieved_concurrency", FourDecimals(c.achieved_concurrency)},
      {"max_in_flight", c.max_in_flight},
      {"cpu_s", FourDecimals(c.cpu_seconds)},
      {"cpu_of_load_s", FourDecimals(c.cpu_seconds_of_load)},
      {"max_rss_bytes", c.max_rss_bytes},
      {"loops", c.loops},
      {"processes", c.processes},
      {"connections", c.connections},
      {"connections_closed_idle", c.stale_connections},
      {"extra_attempts", c.extra_attempts},
      {"unfilled_arrivals", c.unfilled_arrivals},
      {"unsent_arrivals", c.unsent_arrivals},
      {"abandoned_turns", c.abandoned_turns},
      {"waited_for_connection", c.waited_for_connection},
      {"users_without_session", c.users_without_session},
      {"ran_out_of_sessions_at_s", Of(c.ran_out_at_s)},
      {"events", c.events},
      {"bytes_in", c.bytes_in}};
  const auto load = ParseJson(s.load_json.empty() ? "null" : s.load_json);
  json["load"] = load.ok() ? *load : Json(nullptr);
  if (!s.prompt_token_sources.empty()) {
    if (const auto sources = ParseJson(s.prompt_token_sources); sources.ok())
      json["prompt_token_sources"] = *sources;
  }
  json["warnings"] = s.warnings;
  json["notes"] = s.notes;
  json["definitions"] = Definitions();
  return json;
}

std::string SummaryText(const Summary& s) {
  std::string out;
  char line[400];
  const auto add = [&](const char* format, auto... values) {
    std::snprintf(line, sizeof line, format, values...);
    out += line;
  };
  const char* mark = s.client_limited ? " *" : "";
  add("requests            %llu in the window, %llu ok, %llu failed",
      static_cast<unsigned long long>(s.requests), static_cast<unsigned long long>(s.ok),
      static_cast<unsigned long long>(s.requests - s.ok));
  if (s.warm_up_requests > 0)
    add(" (and %llu of the warm-up)", static_cast<unsigned long long>(s.warm_up_requests));
  if (s.primers > 0) add(" (and %llu primers)", static_cast<unsigned long long>(s.primers));
  out += "\n";
  for (int i = 1; i < kOutcomes; ++i) {
    const size_t at = static_cast<size_t>(i);
    if (s.outcomes[at] == 0) continue;
    add("  %-17s %llu  ", std::string(OutcomeName(static_cast<Outcome>(i))).c_str(),
        static_cast<unsigned long long>(s.outcomes[at]));
    // The server's words: they are not to command a terminal.
    out += Printable(std::string_view(s.examples[at]).substr(0, 200)) + "\n";
  }
  if (s.whole_run) {
    add("measured            over the whole run, %.2f s\n", s.window_s);
  } else if (s.window_start_s == 0) {
    add("measured            over %.2f s, without a warm-up\n", s.window_s);
  } else {
    add("measured            over %.2f s after a %.2f s warm-up\n", s.window_s, s.window_start_s);
  }
  add("throughput          %.2f requests/s, %.1f output tokens/s\n", s.requests_per_second,
      s.output_tokens_per_second);
  if (!s.goodput.empty()) {
    add("goodput             %.2f requests/s (%.1f %%) within %.200s", s.goodput[0].per_second,
        100 * s.goodput[0].share, Printable(s.slo->name).c_str());
    if (s.slo->share.has_value() && s.requests > 0)
      add("; %g %% are asked for: %s", 100 * *s.slo->share,
          s.goodput[0].share >= *s.slo->share ? "met" : "not met");
    out += "\n";
  }
  add("tokens              %s, %llu out\n\n", InputTokens(s).c_str(),
      static_cast<unsigned long long>(s.output_tokens));
  const bool some_times = s.ttft.has_value() || s.connect.has_value();
  if (some_times) add("%-26s %10s %10s %10s %10s %10s\n", "milliseconds", "mean", "P50", "P90", "P99", "max");
  const auto row = [&](const char* name, const std::optional<Distribution>& d) {
    if (d.has_value())
      add("%-26s %10.3f %10.3f %10.3f %10.3f %10.3f%s\n", name, d->mean, d->p50, d->p90, d->p99, d->max,
          mark);
  };
  row("time to first token", s.ttft);
  if (s.client.schedule_error_p50_ms.has_value()) row("  from the actual send", s.ttft_from_sent);
  row("  by the kernel's stamp", s.kernel_ttft);
  if (s.answer_ttft.has_value() && s.ttft.has_value() && s.answer_ttft->mean > s.ttft->mean * 1.001)
    row("time to first answer token", s.answer_ttft);
  row("time per output token", s.time_per_output_token);
  row("inter-token latency", s.gap);
  row("request latency", s.latency);
  row("connection set-up", s.connect);
  if (s.ttft.has_value())
    add("TTFT and latency count from the %s; time per token is (last - first output) / (tokens after the "
        "first "
        "event)\n",
        s.client.schedule_error_p50_ms.has_value() ? "intended send" : "last byte sent");
  const ClientFigures& c = s.client;
  out += (some_times ? "\n" : "") + std::string("this client         ");
  if (c.lateness_p99_ms.has_value())
    add("lateness P50 %.3f, P99 %.3f, max %.3f ms; ", *c.lateness_p50_ms, *c.lateness_p99_ms,
        *c.lateness_max_ms);
  if (c.schedule_error_p99_ms.has_value())
    add("schedule error P50 %.3f, P99 %.3f, max %.3f ms; ", *c.schedule_error_p50_ms,
        *c.schedule_error_p99_ms, *c.schedule_error_max_ms);
  add("%.1f in flight on average, %llu at most; %.2f s of CPU; %.0f MiB; %llu connections\n",
      c.achieved_concurrency, static_cast<unsigned long long>(c.max_in_flight), c.cpu_seconds,
      static_cast<double>(c.max_rss_bytes) / 1048576, static_cast<unsigned long long>(c.connections));
  if (!s.files_error.empty())
    out += "error: the files are not complete, the figures above are: " + Printable(s.files_error) + "\n";
  // Names of files, servers and tokenizers are in them.
  for (const std::string& warning : s.warnings) out += "warning: " + Printable(warning) + "\n";
  for (const std::string& note : s.notes) out += "note: " + Printable(note) + "\n";
  if (s.client_limited) out += "* includes the client's own delay\n";
  if (!s.prompt_token_sources.empty()) {
    if (const auto sources = ParseJson(s.prompt_token_sources); sources.ok())
      out += TokenSourcesText(*sources);
  }
  return out;
}

Status CheckLoadVersion(const Json& json, const std::string& path) {
  if (!json.is_object()) return InvalidInput(path, "it is no object");
  const auto version = json.find("schema_version");
  if (version == json.end()) return InvalidInput(path, "it has no schema_version");
  if (version->is_number_integer() && *version == kLoadSchemaVersion) return absl::OkStatus();
  return Precondition(path,
                      "its schema_version is " +
                          version->dump(-1, ' ', false, Json::error_handler_t::replace).substr(0, 40) +
                          ", and this program reads " + std::to_string(kLoadSchemaVersion),
                      "use the version of poolmark that wrote it");
}

}  // namespace poolmark::load
