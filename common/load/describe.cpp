#include "common/load/describe.h"

#include <sched.h>
#include <sys/sysinfo.h>
#include <sys/utsname.h>

#include <nlohmann/json.hpp>

#include "common/base/json.h"
#include "common/base/time_format.h"
#include "common/base/version.h"

namespace poolmark::load {
namespace {

Json LevelJson(const LoadOptions& o) {
  switch (o.mode) {
    case LoadOptions::Mode::kClosed:
      return {{"concurrency", o.users}, {"ramp_up", FormatDuration(o.ramp_up)}};
    case LoadOptions::Mode::kRate: {
      Json level = {{"rate", FormatRate(o.arrivals.steps)},
                    {"arrivals", std::string(ArrivalKindName(o.arrivals.kind))},
                    {"of", o.rate_of_sessions ? "sessions" : "requests"}};
      if (o.arrivals.kind != ArrivalOptions::Kind::kConstant) level["seed"] = o.arrivals.seed;
      if (o.arrivals.kind == ArrivalOptions::Kind::kGamma) level["cv"] = o.arrivals.cv;
      return level;
    }
    case LoadOptions::Mode::kTrace:
      break;
  }
  return {{"speedup", o.speedup}};
}

// Where it ran. A container says what it is allowed, not what the machine has.
Json MachineJson() {
  utsname name{};
  uname(&name);
  struct sysinfo memory {};
  sysinfo(&memory);
  cpu_set_t cpus;
  const bool known = sched_getaffinity(0, sizeof cpus, &cpus) == 0;
  return {{"hostname", std::string(name.nodename)},
          {"kernel", std::string(name.sysname) + " " + name.release},
          {"cores_allowed", known ? Json(CPU_COUNT(&cpus)) : Json(nullptr)},
          {"memory_bytes", static_cast<uint64_t>(memory.totalram) * memory.mem_unit}};
}

template <class T>
Json OrNull(const std::optional<T>& value) {
  return value.has_value() ? Json(*value) : Json(nullptr);
}

}  // namespace

Json SettingsJson(const LoadOptions& o, int processes) {
  Json json = {{"load", LevelJson(o)}};
  json["think_scale"] = o.think_scale;
  if (o.think_cap.has_value()) json["think_cap"] = FormatDuration(*o.think_cap);
  json["warm_up"] = FormatDuration(o.warm_up);
  json["warm_up_requests"] = o.warm_up_requests;
  json["warm_up_sessions"] = o.warm_up_sessions;
  if (o.duration.has_value()) json["duration"] = FormatDuration(*o.duration);
  json["max_requests"] = o.max_requests;
  json["drain"] = FormatDuration(o.drain);
  json["deadline"] = FormatDuration(o.deadline);
  json["stall"] = FormatDuration(o.stall);
  json["connect_timeout"] = FormatDuration(o.connect_timeout);
  json["keep_alive"] = FormatDuration(o.keep_alive);
  json["max_connections"] = o.max_connections;
  Json on = Json::array();
  if (o.retry.on_connect) on.push_back("connect");
  if (o.retry.on_stale) on.push_back("stale");
  if (o.retry.on_429) on.push_back("429");
  if (o.retry.on_5xx) on.push_back("5xx");
  json["retry"] = {{"attempts", o.retry.attempts}};
  if (o.retry.attempts > 1) json["retry"].update({{"on", on}, {"pause", FormatDuration(o.retry.pause)}});
  json["loops"] = o.loops;
  json["processes"] = processes;
  json["worker"] = o.worker;
  json["workers"] = o.workers;
  json["request_id_prefix"] = o.request_id_prefix;
  return json;
}

Json SloJson(const Slo& slo) {
  Json json = {{"name", slo.name}};
  if (slo.ttft.has_value()) json["ttft"] = FormatDuration(*slo.ttft);
  if (slo.time_per_output_token.has_value()) json["tpot"] = FormatDuration(*slo.time_per_output_token);
  if (slo.latency.has_value()) json["latency"] = FormatDuration(*slo.latency);
  if (slo.share.has_value()) json["share"] = *slo.share;
  return json;
}

Result<Slo> SloOfJson(const Json& json) {
  Slo slo;
  try {
    slo.name = json.at("name").get<std::string>();
    for (const auto& [key, limit] :
         {std::pair{"ttft", &slo.ttft}, {"tpot", &slo.time_per_output_token}, {"latency", &slo.latency}}) {
      if (!json.contains(key)) continue;
      POOLMARK_ASSIGN_OR_RETURN(*limit, ParseDuration(json.at(key).get<std::string>()));
    }
    if (json.contains("share")) slo.share = json.at("share").get<double>();
  } catch (const Json::exception& error) {
    return InvalidInput("slo", std::string("it is not as this version writes it: ") + error.what());
  }
  return slo;
}

Result<std::string> DescribeLoad(const LoadOptions& o, int processes,
                                 const std::optional<Nanoseconds>& start_at_wall,
                                 const std::optional<Slo>& slo, const SourceFacts& source,
                                 const std::vector<std::string>& source_notes) {
  Json json = SettingsJson(o, processes);
  json["program"] = {{"name", "poolmark"}, {"version", Version()}};
  json["machine"] = MachineJson();
  Json urls = Json::array();
  for (const http::Url& url : o.urls) urls.push_back(url.ToString());
  json["urls"] = urls;
  Json headers = Json::array();
  for (const auto& [name, value] : o.headers) headers.push_back(name);
  json["headers"] = headers;
  json["verify_certificates"] = o.tls.verify;
  json["model"] = source.model.empty() ? Json(nullptr) : Json(source.model);
  json["api"] = source.api;
  json["prompt"] = OrNull(source.prompt);
  json["prompt_lengths"] = OrNull(source.prompt_lengths);
  json["input_tokens"] = OrNull(source.input_tokens);
  json["output_tokens"] = OrNull(source.output_tokens);
  json["requests"] = OrNull(source.requests);
  json["seed"] = OrNull(source.seed);
  json["workload"] = nullptr;
  if (!source.workload_json.empty()) {
    POOLMARK_ASSIGN_OR_RETURN(json["workload"], ParseJson(source.workload_json, "workload"));
  }
  json["plan_sha256"] = source.plan_sha256.empty() ? Json(nullptr) : Json(source.plan_sha256);
  json["start_at_wall_ns"] = start_at_wall.has_value() ? Json(start_at_wall->count()) : Json(nullptr);
  json["slo"] = slo.has_value() ? SloJson(*slo) : Json(nullptr);
  json["source_notes"] = source_notes;
  return DumpJson(json);
}

Result<LoadOptions> OptionsOfDescription(const Json& load) {
  LoadOptions o;
  try {
    const Json& level = load.at("load");
    if (level.contains("concurrency")) o.users = level["concurrency"].get<uint32_t>();
    if (level.contains("rate")) {
      o.mode = LoadOptions::Mode::kRate;
      POOLMARK_ASSIGN_OR_RETURN(o.arrivals.steps, ParseRate(level["rate"].get<std::string>()));
      POOLMARK_ASSIGN_OR_RETURN(o.arrivals.kind, ParseArrivalKind(level.at("arrivals").get<std::string>()));
      o.rate_of_sessions = level.at("of") == "sessions";
    }
    if (level.contains("speedup")) {
      o.mode = LoadOptions::Mode::kTrace;
      o.speedup = level["speedup"].get<double>();
    }
    if (load.contains("duration")) {
      POOLMARK_ASSIGN_OR_RETURN(o.duration, ParseDuration(load["duration"].get<std::string>()));
    }
    POOLMARK_ASSIGN_OR_RETURN(o.warm_up, ParseDuration(load.at("warm_up").get<std::string>()));
    POOLMARK_ASSIGN_OR_RETURN(o.drain, ParseDuration(load.at("drain").get<std::string>()));
    if (load.contains("think_cap")) {
      POOLMARK_ASSIGN_OR_RETURN(o.think_cap, ParseDuration(load["think_cap"].get<std::string>()));
    }
    o.max_connections = load.at("max_connections").get<uint32_t>();
    o.retry.attempts = load.at("retry").at("attempts").get<int>();
    for (const Json& word : load["retry"].value("on", Json::array())) {
      o.retry.on_connect |= word == "connect";
      o.retry.on_stale |= word == "stale";
      o.retry.on_429 |= word == "429";
      o.retry.on_5xx |= word == "5xx";
    }
    // A merged load is nobody's part: it is the whole.
    if (load.contains("worker")) {
      o.worker = load["worker"].get<uint32_t>();
      o.workers = load.at("workers").get<uint32_t>();
    }
  } catch (const Json::exception& error) {
    return InvalidInput("load.json",
                        std::string("its `load` is not as this version writes it: ") + error.what());
  }
  return o;
}

void AddClient(const Json& json, ClientFigures* client) {
  const auto worst = [](const Json& value, std::optional<double>* out) {
    if (value.is_number()) *out = std::max(out->value_or(0), value.get<double>());
  };
  worst(json.at("lateness_ms").at("p50"), &client->lateness_p50_ms);
  worst(json.at("lateness_ms").at("p99"), &client->lateness_p99_ms);
  worst(json.at("lateness_ms").at("max"), &client->lateness_max_ms);
  worst(json.at("schedule_error_ms").at("p50"), &client->schedule_error_p50_ms);
  worst(json.at("schedule_error_ms").at("p99"), &client->schedule_error_p99_ms);
  worst(json.at("schedule_error_ms").at("max"), &client->schedule_error_max_ms);
  worst(json.at("connection_wait_max_ms"), &client->connection_wait_max_ms);
  worst(json.at("processor_wait_share"), &client->processor_wait_share);
  client->stale_requests += json.at("stale_requests").get<uint64_t>();
  client->absurd_usages += json.value("absurd_usages", uint64_t{0});
  client->achieved_concurrency += json.at("achieved_concurrency").get<double>();
  client->max_in_flight = std::max(client->max_in_flight, json.at("max_in_flight").get<uint64_t>());
  client->cpu_seconds += json.at("cpu_s").get<double>();
  client->cpu_seconds_of_load += json.at("cpu_of_load_s").get<double>();
  client->max_rss_bytes = std::max(client->max_rss_bytes, json.at("max_rss_bytes").get<uint64_t>());
  client->loops += json.at("loops").get<int>() * json.at("processes").get<int>();
  client->connections += json.at("connections").get<uint64_t>();
  client->stale_connections += json.at("connections_closed_idle").get<uint64_t>();
  client->extra_attempts += json.at("extra_attempts").get<uint64_t>();
  client->unfilled_arrivals += json.at("unfilled_arrivals").get<uint64_t>();
  client->unsent_arrivals += json.at("unsent_arrivals").get<uint64_t>();
  client->abandoned_turns += json.at("abandoned_turns").get<uint64_t>();
  client->waited_for_connection += json.at("waited_for_connection").get<uint64_t>();
  client->users_without_session += json.at("users_without_session").get<uint64_t>();
  client->own_limits += json.value("own_limits", uint64_t{0});
  client->events += json.at("events").get<uint64_t>();
  client->bytes_in += json.at("bytes_in").get<uint64_t>();
  const Json& ran_out = json.at("ran_out_of_sessions_at_s");
  if (ran_out.is_number())
    client->ran_out_at_s = std::min(client->ran_out_at_s.value_or(1e18), ran_out.get<double>());
}

}  // namespace poolmark::load
