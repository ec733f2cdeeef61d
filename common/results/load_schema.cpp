// load.json is written by the load generator (common/load), which knows nothing of this directory: its schema
// is written down here and compared with a real file by a test.
#include <nlohmann/json.hpp>

#include "common/results/schema_parts.h"

namespace poolmark::results {
namespace {

Json ListOf(Json items) {
  return {{"type", "array"}, {"items", std::move(items)}};
}
Json OpenObject(Json properties) {
  return {{"type", "object"}, {"properties", std::move(properties)}};
}
Json Numbers(std::initializer_list<const char*> names) {
  Json properties = Json::object();
  for (const char* name : names) properties[name] = OfTypeOrNull("number");
  return OpenObject(std::move(properties));
}
// A distribution in milliseconds; null: nothing was measured.
Json Spread() {
  Json spread = Numbers({"count", "mean", "p50", "p90", "p95", "p99", "min", "max"});
  spread["type"] = Json::array({"object", "null"});
  return spread;
}

Json Machine() {
  return OpenObject({{"hostname", OfType("string")},
                     {"kernel", OfType("string")},
                     {"cores_allowed", OfTypeOrNull("integer")},
                     {"memory_bytes", OfType("integer")}});
}
Json Program() {
  return OpenObject({{"name", OfType("string")}, {"version", OfType("string")}});
}

Json Load() {
  Json load = OpenObject({{"load", OpenObject({{"concurrency", OfType("integer")},
                                               {"ramp_up", OfType("string")},
                                               {"rate", OfType("string")},
                                               {"arrivals", OfType("string")},
                                               {"cv", OfType("number")},
                                               {"seed", OfType("integer")},
                                               {"of", OfType("string")},
                                               {"speedup", OfType("number")}})}});
  Json& p = load["properties"];
  for (const char* text : {"think_cap", "warm_up", "duration", "drain", "deadline", "stall",
                           "connect_timeout", "keep_alive", "request_id_prefix", "api"})
    p[text] = OfType("string");
  for (const char* count : {"warm_up_requests", "warm_up_sessions", "max_requests", "max_connections",
                            "loops", "processes", "worker", "workers"})
    p[count] = OfType("integer");
  p["think_scale"] = OfType("number");
  p["retry"] = OpenObject(
      {{"attempts", OfType("integer")}, {"on", ListOf(OfType("string"))}, {"pause", OfType("string")}});
  p["program"] = Program();
  p["machine"] = Machine();
  p["urls"] = ListOf(OfType("string"));
  p["headers"] = ListOf(OfType("string"));
  p["verify_certificates"] = OfType("boolean");
  for (const char* text : {"model", "prompt", "prompt_lengths", "plan_sha256"})
    p[text] = OfTypeOrNull("string");
  for (const char* count : {"input_tokens", "output_tokens", "requests", "seed", "start_at_wall_ns"})
    p[count] = OfTypeOrNull("integer");
  p["workload"] = OfTypeOrNull("object");
  p["slo"] = OfTypeOrNull("object");
  p["source_notes"] = ListOf(OfType("string"));
  p["parts"] = ListOf(OpenObject({{"worker", OfType("integer")},
                                  {"machine", Machine()},
                                  {"program", Program()},
                                  {"loops", OfType("integer")},
                                  {"processes", OfType("integer")},
                                  {"start_at_wall_ns", OfTypeOrNull("integer")},
                                  {"started_wall_ns", OfType("integer")}}));
  load["required"] = Json::array({"load", "program", "urls", "model", "api", "workload", "plan_sha256",
                                  "retry", "workers", "request_id_prefix", "source_notes"});
  return load;
}

}  // namespace

Json LoadSchema() {
  Json p = {{"schema_version", {{"const", 1}}},
            {"started", OfType("string")},
            {"started_wall_ns", OfType("integer")},
            {"window_ns", OpenObject({{"start", OfType("integer")},
                                      {"end", OfType("integer")},
                                      {"load_end", OfType("integer")},
                                      {"total_end", OfType("integer")}})},
            {"urls", ListOf(OfType("string"))},
            {"window", OpenObject({{"start_s", OfType("number")},
                                   {"length_s", OfType("number")},
                                   {"whole_run", OfType("boolean")}})},
            {"load_s", OfType("number")},
            {"total_s", OfType("number")},
            {"interrupted", OfType("boolean")},
            {"files_error", OfTypeOrNull("string")}};
  for (const char* count : {"requests", "ok", "failed", "warm_up_requests", "primers"})
    p[count] = OfType("integer");
  p["outcomes"] = OfType("object");
  p["error_examples"] = OfType("object");
  p["requests_per_second"] = OfType("number");
  p["output_tokens_per_second"] = OfType("number");
  p["input_tokens"] = OfTypeOrNull("integer");
  p["cached_tokens"] = OfTypeOrNull("integer");
  p["output_tokens"] = OfType("integer");
  for (const char* spread :
       {"ttft_ms", "ttft_from_sent_ms", "ttft_kernel_ms", "answer_ttft_ms", "first_byte_ms",
        "time_per_output_token_ms", "inter_token_latency_ms", "latency_ms", "connect_ms"})
    p[spread] = Spread();
  p["goodput"] = OpenObject({{"slo", OfType("string")},
                             {"per_second", OfType("number")},
                             {"share", OfType("number")},
                             {"by_scale", ListOf(Numbers({"scale", "per_second", "share"}))},
                             {"required_share", OfTypeOrNull("number")},
                             {"met", OfTypeOrNull("boolean")}});
  p["client"] = OfType("object");
  // Where the engines' pages were given: tokens by source, or `not_measured` with the reason.
  Json total = Numbers({"prompt", "gpu", "host", "storage", "remote", "computed", "not_attributed"});
  total["properties"]["not_measured"] = OfType("string");
  p["prompt_token_sources"] = OpenObject({{"engines", ListOf(OpenObject({{"url", OfType("string")},
                                                                         {"dialect", OfType("string")},
                                                                         {"simulated", OfType("boolean")}}))},
                                          {"gpu_is", OfType("string")},
                                          {"total", total},
                                          {"closure_error", OfType("number")},
                                          {"client_difference", OfType("number")},
                                          {"notes", ListOf(OfType("string"))}});
  p["load"] = Load();
  for (const char* texts : {"warnings", "notes"}) p[texts] = ListOf(OfType("string"));
  p["definitions"] = OfType("object");
  return {{"$schema", "https://json-schema.org/draft/2020-12/schema"},
          {"title", "load.json"},
          {"type", "object"},
          {"properties", p},
          {"required",
           Json::array({"schema_version", "started", "started_wall_ns", "window_ns", "window", "interrupted",
                        "requests", "ok", "failed", "outcomes", "client", "load", "warnings", "notes"})}};
}

}  // namespace poolmark::results
