// The lines of the JSON Lines files: events, samples, records of requests, seconds of a load. They are
// written line by line, by programs of which some know nothing of this directory: their schemas are written
// down here and compared with real files by a test.
#include <nlohmann/json.hpp>

#include "common/results/layout.h"
#include "common/results/schema_parts.h"

namespace poolmark::results {

Json OfType(const char* type) {
  return {{"type", type}};
}
Json OfTypeOrNull(const char* type) {
  return {{"type", Json::array({type, "null"})}};
}

namespace {

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
                                                {"time", OfType("string")},
                                                {"kind", OfType("string")},
                                                {"state", OfType("string")},
                                                {"message", OfType("string")}},
                                               {{"machine", OfType("string")},
                                                {"process", OfType("string")},
                                                {"position", Object({{"cycle", OfType("integer")},
                                                                     {"stack", OfType("string")},
                                                                     {"workload", OfType("string")},
                                                                     {"level", OfType("string")},
                                                                     {"repeat", OfType("integer")}})},
                                                {"check", Object({{"id", OfType("string")},
                                                                  {"outcome", OfType("string")},
                                                                  {"expected", OfType("string")},
                                                                  {"observed", OfType("string")}})}}));
}

Json SampleSchema() {
  const Json head = Object({{"schema_version", {{"const", kSchemaVersion}}},
                            {"machine", OfType("string")},
                            {"wall_start", OfType("string")}});
  const Json series =
      Object({{"series", OfType("integer")},
              {"source", OfType("string")},
              {"name", OfType("string")},
              {"labels", {{"type", "object"}, {"additionalProperties", OfType("string")}}},
              {"unit", OfType("string")},
              {"kind", Choice({"counter", "gauge", "peak", "last_event"})}},
             {{"split", {{"type", "array"}, {"items", OfType("string")}}}, {"max", OfType("boolean")}});
  const Json change = {
      {"type", "array"},
      {"prefixItems",
       Json::array({OfType("integer"), {{"type", Json::array({"number", "string"})}}, {{"const", 1}}})},
      {"minItems", 2},
      {"maxItems", 3}};
  const Json round = Object({{"dt", OfType("integer")},
                             {"source", OfType("string")},
                             {"took", OfType("integer")},
                             {"v", {{"type", "array"}, {"items", change}}}},
                            {{"failure", OfType("string")}});
  const Json gap =
      Object({{"gap", OfType("string")}, {"from", OfType("integer")}, {"to", OfType("integer")}});
  const Json reset = Object({{"reset", OfType("string")},
                             {"at", OfType("integer")},
                             {"source", OfType("string")},
                             {"of", OfType("integer")}});
  return Line("a line of samples/<machine>.jsonl.zst",
              {{"anyOf", Json::array({head, series, round, gap, reset})}});
}

Json RequestSchema() {
  Json must = {{"session", OfType("integer")},  {"turn", OfType("integer")},
               {"id", OfType("string")},        {"target", OfType("integer")},
               {"outcome", OfType("string")},   {"status", OfType("integer")},
               {"attempts", OfType("integer")}, {"intended", OfTypeOrNull("integer")},
               {"started", OfType("integer")},  {"sent", OfType("integer")}};
  for (const char* time : {"connect", "first_byte", "first_output", "first_answer_output", "last_output"})
    must[time] = OfTypeOrNull("integer");
  must["end"] = OfType("integer");
  for (const char* number : {"kernel_first_output", "kernel_last_output", "lateness", "planned_input_tokens",
                             "input_tokens", "cached_tokens", "output_tokens"})
    must[number] = OfTypeOrNull("integer");
  must["output_tokens_counted"] = OfType("boolean");
  must["first_event_tokens"] = OfType("integer");
  must["event_tokens_known"] = OfType("boolean");
  must["finish_reason"] = OfType("string");
  const Json integers = {{"type", "array"}, {"items", OfType("integer")}};
  must["events"] = integers;
  return Line("a line of requests.jsonl.zst", Object(std::move(must), {{"agent", OfType("string")},
                                                                       {"primer", OfType("boolean")},
                                                                       {"error", OfType("string")},
                                                                       {"event_tokens", integers}}));
}

Json TimelineSchema() {
  const Json number = OfTypeOrNull("number");
  const auto spread = [&](std::initializer_list<const char*> names) {
    Json properties = Json::object();
    for (const char* name : names) properties[name] = number;
    Json out = Object(std::move(properties));
    out["type"] = Json::array({"object", "null"});
    return out;
  };
  return Line("a line of timeline.jsonl", Object({{"t", OfType("number")},
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
