// load.json is written by the load generator (common/load), which knows nothing of this directory: its schema
// is written down here and compared with a real file by a test.
#include <nlohmann/json.hpp>

#include "common/results/schema_parts.h"

namespace poolmark::results {
namespace {

Json Type(const char* type) {
  return {{"type", type}};
}
Json OrNull(const char* type) {
  return {{"type", Json::array({type, "null"})}};
}
Json ListOf(Json items) {
  return {{"type", "array"}, {"items", std::move(items)}};
}
Json Object(Json properties) {
  return {{"type", "object"}, {"properties", std::move(properties)}};
}
Json Numbers(std::initializer_list<const char*> names) {
  Json properties = Json::object();
  for (const char* name : names) properties[name] = OrNull("number");
  return Object(std::move(properties));
}
// A distribution in milliseconds; null: nothing was measured.
Json Spread() {
  Json spread = Numbers({"count", "mean", "p50", "p90", "p95", "p99", "min", "max"});
  spread["type"] = Json::array({"object", "null"});
  return spread;
}

Json Machine() {
  return Object({{"hostname", Type("string")},
                 {"kernel", Type("string")},
                 {"cores_allowed", OrNull("integer")},
                 {"memory_bytes", Type("integer")}});
}
Json Program() {
  return Object({{"name", Type("string")}, {"version", Type("string")}});
}

Json Load() {
  Json load = Object({{"load", Object({{"concurrency", Type("integer")},
                                       {"ramp_up", Type("string")},
                                       {"rate", Type("string")},
                                       {"arrivals", Type("string")},
                                       {"cv", Type("number")},
                                       {"seed", Type("integer")},
                                       {"of", Type("string")},
                                       {"speedup", Type("number")}})}});
  Json& p = load["properties"];
  for (const char* text : {"think_cap", "warm_up", "duration", "drain", "deadline", "stall",
                           "connect_timeout", "keep_alive", "request_id_prefix", "api"})
    p[text] = Type("string");
  for (const char* count : {"warm_up_requests", "warm_up_sessions", "max_requests", "max_connections",
                            "loops", "processes", "worker", "workers"})
    p[count] = Type("integer");
  p["think_scale"] = Type("number");
  p["retry"] =
      Object({{"attempts", Type("integer")}, {"on", ListOf(Type("string"))}, {"pause", Type("string")}});
  p["program"] = Program();
  p["machine"] = Machine();
  p["urls"] = ListOf(Type("string"));
  p["headers"] = ListOf(Type("string"));
  p["verify_certificates"] = Type("boolean");
  for (const char* text : {"model", "prompt", "prompt_lengths", "plan_sha256"}) p[text] = OrNull("string");
  for (const char* count : {"input_tokens", "output_tokens", "requests", "seed", "start_at_wall_ns"})
    p[count] = OrNull("integer");
  p["workload"] = OrNull("object");
  p["slo"] = OrNull("object");
  p["source_notes"] = ListOf(Type("string"));
  p["parts"] = ListOf(Object({{"worker", Type("integer")},
                              {"machine", Machine()},
                              {"program", Program()},
                              {"loops", Type("integer")},
                              {"processes", Type("integer")},
                              {"start_at_wall_ns", OrNull("integer")},
                              {"started_wall_ns", Type("integer")}}));
  load["required"] = Json::array({"load", "program", "urls", "model", "api", "workload", "plan_sha256",
                                  "retry", "workers", "request_id_prefix", "source_notes"});
  return load;
}

}  // namespace

Json LoadSchema() {
  Json p = {
      {"schema_version", {{"const", 1}}},
      {"started", Type("string")},
      {"started_wall_ns", Type("integer")},
      {"window_ns", Object({{"start", Type("integer")},
                            {"end", Type("integer")},
                            {"load_end", Type("integer")},
                            {"total_end", Type("integer")}})},
      {"urls", ListOf(Type("string"))},
      {"window",
       Object({{"start_s", Type("number")}, {"length_s", Type("number")}, {"whole_run", Type("boolean")}})},
      {"load_s", Type("number")},
      {"total_s", Type("number")},
      {"interrupted", Type("boolean")},
      {"files_error", OrNull("string")}};
  for (const char* count : {"requests", "ok", "failed", "warm_up_requests", "primers"})
    p[count] = Type("integer");
  p["outcomes"] = Type("object");
  p["error_examples"] = Type("object");
  p["requests_per_second"] = Type("number");
  p["output_tokens_per_second"] = Type("number");
  p["input_tokens"] = OrNull("integer");
  p["cached_tokens"] = OrNull("integer");
  p["output_tokens"] = Type("integer");
  for (const char* spread :
       {"ttft_ms", "ttft_from_sent_ms", "ttft_kernel_ms", "answer_ttft_ms", "first_byte_ms",
        "time_per_output_token_ms", "inter_token_latency_ms", "latency_ms", "connect_ms"})
    p[spread] = Spread();
  p["goodput"] = Object({{"slo", Type("string")},
                         {"per_second", Type("number")},
                         {"share", Type("number")},
                         {"by_scale", ListOf(Numbers({"scale", "per_second", "share"}))},
                         {"required_share", OrNull("number")},
                         {"met", OrNull("boolean")}});
  p["client"] = Type("object");
  // Where the engines' pages were given: tokens by source, or `not_measured` with the reason.
  Json total = Numbers({"prompt", "gpu", "host", "storage", "remote", "computed", "not_attributed"});
  total["properties"]["not_measured"] = Type("string");
  p["prompt_token_sources"] =
      Object({{"engines",
               ListOf(Object(
                   {{"url", Type("string")}, {"dialect", Type("string")}, {"simulated", Type("boolean")}}))},
              {"gpu_is", Type("string")},
              {"total", total},
              {"closure_error", Type("number")},
              {"client_difference", Type("number")},
              {"notes", ListOf(Type("string"))}});
  p["load"] = Load();
  for (const char* texts : {"warnings", "notes"}) p[texts] = ListOf(Type("string"));
  p["definitions"] = Type("object");
  return {{"$schema", "https://json-schema.org/draft/2020-12/schema"},
          {"title", "load.json"},
          {"type", "object"},
          {"properties", p},
          {"required",
           Json::array({"schema_version", "started", "started_wall_ns", "window_ns", "window", "interrupted",
                        "requests", "ok", "failed", "outcomes", "client", "load", "warnings", "notes"})}};
}

}  // namespace poolmark::results
