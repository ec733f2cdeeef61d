// The lines of the JSON Lines files: events, samples, records of requests, seconds of a load. They are
// written line by line, by programs of which some know nothing of this directory: their schemas are written
// down here and compared with real files by a test.
#include <nlohmann/json.hpp>

#include "common/results/layout.h"
#include "common/results/schema_parts.h"

namespace poolmark::results {
namespace {

Json Type(const char* type) {
  return {{"type", type}};
}
Json OrNull(const char* type) {
  return {{"type", Json::array({type, "null"})}};
}
Json Choice(std::initializer_list<const char*> names) {
  Json list = Json::array();
  for (const char* name : names) list.push_back(name);
  return {{"enum", list}};
}

// `may`: keys that only some lines have.
Json Object(Json must, Json may = Json::object()) {
  Json required = Json::array();
  for (const auto& [key, value] : must.items()) required.push_back(key);
  for (auto& [key, value] : may.items()) must[key] = std::move(value);
  return {{"type", "object"},
          {"properties", std::move(must)},
          {"required", std::move(required)},
          {"additionalProperties", false}};
}

Json Line(const char* title, Json schema) {
  Json out = {{"$schema", "https://json-schema.org/draft/2020-12/schema"}, {"title", title}};
  for (auto& [key, value] : schema.items()) out[key] = std::move(value);
  return out;
}

}  // namespace

Json EventSchema() {
  return Line("a line of events.jsonl", Object({{"sequence", {{"type", "integer"}, {"minimum", 1}}},
                                                {"time", Type("string")},
                                                {"kind", Type("string")},
                                                {"state", Type("string")},
                                                {"message", Type("string")}},
                                               {{"machine", Type("string")},
                                                {"process", Type("string")},
                                                {"position", Object({{"cycle", Type("integer")},
                                                                     {"stack", Type("string")},
                                                                     {"workload", Type("string")},
                                                                     {"level", Type("string")},
                                                                     {"repeat", Type("integer")}})},
                                                {"check", Object({{"id", Type("string")},
                                                                  {"outcome", Type("string")},
                                                                  {"expected", Type("string")},
                                                                  {"observed", Type("string")}})}}));
}

Json SampleSchema() {
  const Json head = Object({{"schema_version", {{"const", kSchemaVersion}}},
                            {"machine", Type("string")},
                            {"wall_start", Type("string")}});
  const Json series =
      Object({{"series", Type("integer")},
              {"source", Type("string")},
              {"name", Type("string")},
              {"labels", {{"type", "object"}, {"additionalProperties", Type("string")}}},
              {"unit", Type("string")},
              {"kind", Choice({"counter", "gauge", "peak", "last_event"})}},
             {{"split", {{"type", "array"}, {"items", Type("string")}}}, {"max", Type("boolean")}});
  const Json change = {
      {"type", "array"},
      {"prefixItems",
       Json::array({Type("integer"), {{"type", Json::array({"number", "string"})}}, {{"const", 1}}})},
      {"minItems", 2},
      {"maxItems", 3}};
  const Json round = Object({{"dt", Type("integer")},
                             {"source", Type("string")},
                             {"took", Type("integer")},
                             {"v", {{"type", "array"}, {"items", change}}}},
                            {{"failure", Type("string")}});
  const Json gap = Object({{"gap", Type("string")}, {"from", Type("integer")}, {"to", Type("integer")}});
  const Json reset = Object({{"reset", Type("string")},
                             {"at", Type("integer")},
                             {"source", Type("string")},
                             {"of", Type("integer")}});
  return Line("a line of samples/<machine>.jsonl.zst",
              {{"anyOf", Json::array({head, series, round, gap, reset})}});
}

Json RequestSchema() {
  Json must = {{"session", Type("integer")},  {"turn", Type("integer")},       {"id", Type("string")},
               {"target", Type("integer")},   {"outcome", Type("string")},     {"status", Type("integer")},
               {"attempts", Type("integer")}, {"intended", OrNull("integer")}, {"started", Type("integer")},
               {"sent", Type("integer")}};
  for (const char* time : {"connect", "first_byte", "first_output", "first_answer_output", "last_output"})
    must[time] = OrNull("integer");
  must["end"] = Type("integer");
  for (const char* number : {"kernel_first_output", "kernel_last_output", "lateness", "planned_input_tokens",
                             "input_tokens", "cached_tokens", "output_tokens"})
    must[number] = OrNull("integer");
  must["output_tokens_counted"] = Type("boolean");
  must["first_event_tokens"] = Type("integer");
  must["event_tokens_known"] = Type("boolean");
  must["finish_reason"] = Type("string");
  const Json integers = {{"type", "array"}, {"items", Type("integer")}};
  must["events"] = integers;
  return Line("a line of requests.jsonl.zst", Object(std::move(must), {{"agent", Type("string")},
                                                                       {"primer", Type("boolean")},
                                                                       {"error", Type("string")},
                                                                       {"event_tokens", integers}}));
}

Json TimelineSchema() {
  const Json number = OrNull("number");
  const auto spread = [&](std::initializer_list<const char*> names) {
    Json properties = Json::object();
    for (const char* name : names) properties[name] = number;
    Json out = Object(std::move(properties));
    out["type"] = Json::array({"object", "null"});
    return out;
  };
  return Line("a line of timeline.jsonl", Object({{"t", Type("number")},
                                                  {"phase", Choice({"warm_up", "load", "drain"})},
                                                  {"in_flight", number},
                                                  {"started", number},
                                                  {"ended", number},
                                                  {"failed", number},
                                                  {"started_per_s", number},
                                                  {"ended_per_s", number},
                                                  {"events_per_s", number},
                                                  {"ttft_ms", spread({"p50", "p99"})},
                                                  {"lateness_ms", spread({"p50", "p99", "max"})}}));
}

}  // namespace poolmark::results
