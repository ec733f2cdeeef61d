#include "common/quality/codec_parts.h"

#include <cmath>

#include "common/base/json_repair.h"
#include "common/quality/codec.h"

namespace poolmark::quality {

Json MessagesJson(const Messages& messages) {
  Json out = Json::array();
  for (const Message& m : messages) out.push_back({{"role", m.role}, {"content", m.content}});
  return out;
}

Json CountersJson(const std::optional<Counters>& counters) {
  if (!counters) return nullptr;
  Json out = Json::object();
  for (const auto& [name, member] : kCounterFields) out[name] = (*counters).*member;
  return out;
}

std::optional<Counters> ReadCounters(Fields& fields, const char* key) {
  Json* object = fields.NullableObject(key);
  if (object == nullptr) return std::nullopt;
  Fields inner(*object, absl::StrCat(fields.where(), " ", key));
  Counters counters;
  for (const auto& [name, member] : kCounterFields) {
    counters.*member = inner.Num(name);
    if (!(std::abs(counters.*member) <= kMostTokens))
      inner.Fail(name, absl::StrCat("is ", counters.*member, ", no more than ", kMostTokens, " makes sense"));
  }
  fields.Adopt(inner.status());
  return counters;
}

Status ForEachLine(std::string_view text, const std::string& where,
                   const std::function<Status(Json& object, const std::string& line_where)>& each) {
  size_t number = 0;
  while (!text.empty()) {
    ++number;
    size_t end = text.find('\n');
    std::string_view line = text.substr(0, end);
    text.remove_prefix(end == text.npos ? text.size() : end + 1);
    if (line.find_first_not_of(" \t\r") == line.npos) continue;
    std::string line_where = absl::StrCat(where, ":", number);
    POOLMARK_ASSIGN_OR_RETURN(Json object, ParseFile(line, line_where));
    POOLMARK_RETURN_IF_ERROR(each(object, line_where));
  }
  return absl::OkStatus();
}

Result<Json> ParseFile(std::string_view text, const std::string& where) {
  JsonLimits limits;
  limits.max_bytes = kMaxFileBytes;
  Result<Json> parsed = ParseJson(text, where, limits);
  if (parsed.ok()) return parsed;
  // Python's writer escapes lone surrogates, which strict JSON readers refuse.
  std::string repaired = RepairJson(text);
  if (repaired == text) return parsed;
  return ParseJson(repaired, where, limits);
}

Status CheckSchema(const Json& object, const std::string& where) {
  std::string found = "is missing";
  if (object.is_object() && object.contains("schema_version")) {
    const Json& version = object["schema_version"];
    if (version.is_number_integer() && version == kSchemaVersion) return absl::OkStatus();
    found = absl::StrCat("is ", version.dump(-1, ' ', false, Json::error_handler_t::replace).substr(0, 40));
  }
  return ToStatus(
      Error{absl::StatusCode::kFailedPrecondition, "schema", where,
            absl::StrCat("schema_version ", found, ", this program reads version ", kSchemaVersion),
            "use the version that wrote the directory, or run into a new one"});
}

}  // namespace poolmark::quality
