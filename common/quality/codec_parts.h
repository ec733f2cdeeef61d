// Pieces shared by the codecs; internal, for .cpp files only.
#pragma once
#include <functional>

#include "common/quality/fields.h"
#include "common/quality/types.h"

namespace poolmark::quality {

template <class T>
Json OrNull(const std::optional<T>& value) {
  return value ? Json(*value) : Json(nullptr);
}

template <class T>
Json PerArmJson(const PerArm<T>& values) {
  Json out = Json::object();
  for (const auto& [label, value] : values) out[label] = value;
  return out;
}

// [{"role", "content"}, …]
Json MessagesJson(const Messages& messages);

Json CountersJson(const std::optional<Counters>& counters);
// Absent or null gives nothing.
std::optional<Counters> ReadCounters(Fields& fields, const char* key);

// Splits JSON Lines; calls `each` with the line's object and its "file:line". Blank lines are skipped.
Status ForEachLine(std::string_view text, const std::string& where,
                   const std::function<Status(Json& object, const std::string& line_where)>& each);

// Large files are legal here: a plan of 10 000 questions has some 150 MB.
Result<Json> ParseFile(std::string_view text, const std::string& where);

// Refuses a schema_version other than ours (missing, not an integer, another number).
Status CheckSchema(const Json& object, const std::string& where);

}  // namespace poolmark::quality
