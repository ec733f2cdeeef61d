// One description of a struct's fields for writing and reading strict JSON: `Fields(visitor, struct)` names
// them once. Internal to the .cpp files of this directory (it pulls in nlohmann/json.hpp).
//
// Encoding: a missing optional is null; a missing Measured is {"not_measured": "reason"}; pairs are
// two-element arrays. Reading: every field must be there with its type; the error names file and path
// ("repeat.json: facts.engines[1].role"). Fields that are not known are ignored: a later minor version may
// add some without another schema_version.
#pragma once
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/base/json.h"
#include "common/base/measured.h"
#include "common/base/result.h"

namespace poolmark::results {

class Writer;
class Reader;

template <class T>
Json ToJson(const T& value);
template <class T>
void FromJson(const Json& json, const std::string& path, Reader* reader, T* out);

// Enums write their names; each enum specialises this with an array `names`.
template <class E>
struct EnumNames;

class Writer {
 public:
  explicit Writer(Json* json) : json_(*json) {}
  template <class T>
  void operator()(const char* name, const T& value) {
    json_[name] = ToJson(value);
  }

 private:
  Json& json_;
};

class Reader {
 public:
  explicit Reader(std::string_view where) : where_(where) {}
  void Problem(const std::string& path, const std::string& expected) {
    if (status_.ok())
      status_ = InvalidInput(where_, (path.empty() ? "the file" : path) + " is not " + expected);
  }
  const Status& status() const { return status_; }

 private:
  std::string where_;
  Status status_ = absl::OkStatus();
};

namespace codec_detail {

template <class T>
struct IsOptional : std::false_type {};
template <class T>
struct IsOptional<std::optional<T>> : std::true_type {};
template <class T>
struct IsMeasured : std::false_type {};
template <class T>
struct IsMeasured<Measured<T>> : std::true_type {};
template <class T>
struct IsVector : std::false_type {};
template <class T>
struct IsVector<std::vector<T>> : std::true_type {};
template <class T>
struct IsMap : std::false_type {};
template <class T>
struct IsMap<std::map<std::string, T>> : std::true_type {};
template <class T>
struct IsPair : std::false_type {};
template <class A, class B>
struct IsPair<std::pair<A, B>> : std::true_type {};

}  // namespace codec_detail

class ObjectReader {
 public:
  ObjectReader(const Json& json, std::string path, Reader* reader)
      : json_(json), path_(std::move(path)), reader_(reader) {}
  template <class T>
  void operator()(const char* name, T& value) {
    const std::string path = path_.empty() ? name : path_ + "." + name;
    const auto at = json_.find(name);
    if (at == json_.end()) {
      // What may be null may be missing too: an earlier version did not write it.
      if constexpr (codec_detail::IsOptional<T>::value) return value.reset();
      return reader_->Problem(path, "there");
    }
    FromJson(*at, path, reader_, &value);
  }

 private:
  const Json& json_;
  std::string path_;
  Reader* reader_;
};

template <class T>
Json ToJson(const T& value) {
  using namespace codec_detail;
  if constexpr (IsOptional<T>::value) {
    return value ? ToJson(*value) : Json(nullptr);
  } else if constexpr (IsMeasured<T>::value) {
    return value.has_value() ? ToJson(*value) : Json{{"not_measured", value.reason()}};
  } else if constexpr (IsVector<T>::value) {
    Json list = Json::array();
    for (const auto& item : value) list.push_back(ToJson(item));
    return list;
  } else if constexpr (IsMap<T>::value) {
    Json object = Json::object();
    for (const auto& [key, item] : value) object[key] = ToJson(item);
    return object;
  } else if constexpr (IsPair<T>::value) {
    Json list = Json::array();
    list.push_back(ToJson(value.first));
    list.push_back(ToJson(value.second));
    return list;
  } else if constexpr (std::is_enum_v<T>) {
    return EnumNames<T>::names[static_cast<size_t>(value)];
  } else if constexpr (std::is_same_v<T, std::string>) {
    return ValidUtf8(value);
  } else if constexpr (std::is_arithmetic_v<T>) {
    return value;
  } else {
    Json object = Json::object();
    Writer writer(&object);
    Fields(writer, value);
    return object;
  }
}

template <class T>
void FromJson(const Json& json, const std::string& path, Reader* reader, T* out) {
  using namespace codec_detail;
  if constexpr (IsOptional<T>::value) {
    if (json.is_null()) {
      out->reset();
      return;
    }
    typename T::value_type value{};
    FromJson(json, path, reader, &value);
    *out = std::move(value);
  } else if constexpr (IsMeasured<T>::value) {
    if (json.is_object() && json.size() == 1 && json.contains("not_measured") &&
        json["not_measured"].is_string()) {
      *out = NotMeasured{json["not_measured"].get<std::string>()};
      return;
    }
    std::decay_t<decltype(out->value())> value{};
    FromJson(json, path, reader, &value);
    *out = std::move(value);
  } else if constexpr (IsVector<T>::value) {
    if (!json.is_array()) return reader->Problem(path, "a list");
    out->clear();
    out->reserve(json.size());
    for (size_t i = 0; i < json.size(); ++i) {
      typename T::value_type item{};
      FromJson(json[i], path + "[" + std::to_string(i) + "]", reader, &item);
      out->push_back(std::move(item));
    }
  } else if constexpr (IsMap<T>::value) {
    if (!json.is_object()) return reader->Problem(path, "an object");
    for (const auto& [key, item] : json.items()) FromJson(item, path + "." + key, reader, &(*out)[key]);
  } else if constexpr (IsPair<T>::value) {
    if (!json.is_array() || json.size() != 2) return reader->Problem(path, "a list of two");
    FromJson(json[0], path + "[0]", reader, &out->first);
    FromJson(json[1], path + "[1]", reader, &out->second);
  } else if constexpr (std::is_enum_v<T>) {
    if (json.is_string()) {
      const auto text = json.get<std::string>();
      for (size_t i = 0; i < std::size(EnumNames<T>::names); ++i) {
        if (text == EnumNames<T>::names[i]) {
          *out = static_cast<T>(i);
          return;
        }
      }
    }
    reader->Problem(path, "a known name");
  } else if constexpr (std::is_same_v<T, std::string>) {
    if (!json.is_string()) return reader->Problem(path, "a text");
    *out = json.get<std::string>();
  } else if constexpr (std::is_same_v<T, bool>) {
    if (!json.is_boolean()) return reader->Problem(path, "true or false");
    *out = json.get<bool>();
  } else if constexpr (std::is_floating_point_v<T>) {
    if (!json.is_number()) return reader->Problem(path, "a number");
    *out = json.get<T>();
  } else if constexpr (std::is_integral_v<T>) {
    if (!json.is_number_integer()) return reader->Problem(path, "a whole number");
    if (json.is_number_unsigned()) {
      const auto wide = json.get<uint64_t>();
      if (!std::in_range<T>(wide)) return reader->Problem(path, "within range");
      *out = static_cast<T>(wide);
    } else {
      const auto wide = json.get<int64_t>();
      if (!std::in_range<T>(wide)) return reader->Problem(path, "within range");
      *out = static_cast<T>(wide);
    }
  } else {
    if (!json.is_object()) return reader->Problem(path, "an object");
    ObjectReader object(json, path, reader);
    Fields(object, *out);
  }
}

// JSON Schema (2020-12) of what ToJson writes.
template <class T>
Json SchemaFor();

class SchemaVisitor {
 public:
  template <class T>
  void operator()(const char* name, const T&) {
    properties_[name] = SchemaFor<std::remove_cv_t<T>>();
    required_.push_back(name);
  }
  Json Object() const { return {{"type", "object"}, {"properties", properties_}, {"required", required_}}; }

 private:
  Json properties_ = Json::object();
  Json required_ = Json::array();
};

template <class T>
Json SchemaFor() {
  using namespace codec_detail;
  if constexpr (IsOptional<T>::value) {
    return {{"anyOf", Json::array({SchemaFor<typename T::value_type>(), Json{{"type", "null"}}})}};
  } else if constexpr (IsMeasured<T>::value) {
    using Value = std::decay_t<decltype(std::declval<T>().value())>;
    return {{"anyOf", Json::array({SchemaFor<Value>(), Json{{"$ref", "#/$defs/not_measured"}}})}};
  } else if constexpr (IsVector<T>::value) {
    return {{"type", "array"}, {"items", SchemaFor<typename T::value_type>()}};
  } else if constexpr (IsMap<T>::value) {
    return {{"type", "object"}, {"additionalProperties", SchemaFor<typename T::mapped_type>()}};
  } else if constexpr (IsPair<T>::value) {
    return {{"type", "array"},
            {"prefixItems",
             Json::array({SchemaFor<typename T::first_type>(), SchemaFor<typename T::second_type>()})},
            {"minItems", 2},
            {"maxItems", 2}};
  } else if constexpr (std::is_enum_v<T>) {
    Json names = Json::array();
    for (const char* name : EnumNames<T>::names) names.push_back(name);
    return {{"enum", names}};
  } else if constexpr (std::is_same_v<T, std::string>) {
    return {{"type", "string"}};
  } else if constexpr (std::is_same_v<T, bool>) {
    return {{"type", "boolean"}};
  } else if constexpr (std::is_floating_point_v<T>) {
    return {{"type", "number"}};
  } else if constexpr (std::is_integral_v<T>) {
    return std::is_unsigned_v<T> ? Json{{"type", "integer"}, {"minimum", 0}} : Json{{"type", "integer"}};
  } else {
    T value{};
    SchemaVisitor visitor;
    Fields(visitor, value);
    return visitor.Object();
  }
}

// The schema of a whole file.
template <class T>
Json FileSchema(const std::string& title, int version) {
  Json fields = SchemaFor<T>();
  Json out = {{"$schema", "https://json-schema.org/draft/2020-12/schema"},
              {"title", title},
              {"type", "object"},
              {"properties", {{"schema_version", {{"const", version}}}}}};
  for (auto& [key, value] : fields["properties"].items()) out["properties"][key] = value;
  out["required"] = Json::array({"schema_version"});
  for (const auto& name : fields["required"]) out["required"].push_back(name);
  out["$defs"] = {{"not_measured",
                   {{"type", "object"},
                    {"properties", {{"not_measured", {{"type", "string"}}}}},
                    {"required", Json::array({"not_measured"})},
                    {"additionalProperties", false}}}};
  return out;
}

// `{"schema_version": 1, …fields}`, indented by one space, with a line end.
template <class T>
Result<std::string> EncodeFile(const T& file, int version) {
  Json json = {{"schema_version", version}};
  Json fields = ToJson(file);
  for (auto& [key, value] : fields.items()) json[key] = std::move(value);
  POOLMARK_ASSIGN_OR_RETURN(std::string text, DumpJson(json, 1));
  text.push_back('\n');
  return text;
}

// Another schema_version is FAILED_PRECONDITION with the code "schema_version" (exit 2).
Status CheckVersion(const Json& json, std::string_view where, int version);

template <class T>
Result<T> DecodeFile(std::string_view text, std::string_view where, int version) {
  POOLMARK_ASSIGN_OR_RETURN(const Json json, ParseJson(text, where));
  POOLMARK_RETURN_IF_ERROR(CheckVersion(json, where, version));
  T file;
  Reader reader(where);
  FromJson(json, "", &reader, &file);
  if (!reader.status().ok()) return reader.status();
  return file;
}

}  // namespace poolmark::results
