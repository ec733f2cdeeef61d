// Reads the fields of one JSON object with errors that name file, line and field. Internal to the codecs:
// include it in .cpp files only (it needs nlohmann/json.hpp). Not thread-safe per object.
#pragma once
#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/json.h"
#include "common/base/result.h"

namespace poolmark::quality {

// The first problem is kept in status(); after it every getter returns an empty value. Strings are moved out.
class Fields {
 public:
  static constexpr int64_t kMostCount = 1'000'000'000'000;

  Fields(Json& object, std::string where) : object_(object), where_(std::move(where)) {
    if (!object_.is_object()) Fail("", absl::StrCat("is ", object_.type_name(), ", an object is needed"));
  }
  const Status& status() const { return status_; }
  const std::string& where() const { return where_; }
  bool Has(const char* key) const { return object_.is_object() && object_.contains(key); }

  std::string Str(const char* key) {
    Json* value = Get(key);
    if (value == nullptr) return "";
    if (!value->is_string()) return Wrong(key, *value, "a string"), "";
    return std::move(value->get_ref<std::string&>());
  }
  std::optional<std::string> NullableStr(const char* key) {
    return Null(key) ? std::nullopt : std::optional(Str(key));
  }
  int64_t Int(const char* key, int64_t low = std::numeric_limits<int64_t>::min()) {
    Json* value = Get(key);
    if (value == nullptr) return 0;
    if (!value->is_number_integer()) return Wrong(key, *value, "an integer"), 0;
    if (value->is_number_unsigned() &&
        value->get<uint64_t>() > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
      return Fail(key, "is out of range"), 0;
    }
    auto number = value->get<int64_t>();
    if (number < low) return Fail(key, absl::StrCat("is ", number, ", at least ", low, " is needed")), 0;
    return number;
  }
  // A count or a place: bounded, so that sums over a directory stay in range.
  int64_t Count(const char* key, int64_t low = 0) {
    const int64_t number = Int(key, low);
    if (number > kMostCount)
      return Fail(key, absl::StrCat("is ", number, ", no more than ", kMostCount, " makes sense")), 0;
    return number;
  }
  std::optional<int64_t> NullableCount(const char* key) {
    return Null(key) ? std::nullopt : std::optional(Count(key));
  }
  std::optional<int64_t> NullableInt(const char* key, int64_t low = std::numeric_limits<int64_t>::min()) {
    return Null(key) ? std::nullopt : std::optional(Int(key, low));
  }
  double Num(const char* key) {
    Json* value = Get(key);
    if (value == nullptr) return 0;
    if (!value->is_number()) return Wrong(key, *value, "a number"), 0;
    return value->get<double>();
  }
  std::optional<double> NullableNum(const char* key) {
    return Null(key) ? std::nullopt : std::optional(Num(key));
  }
  bool Bool(const char* key) {
    Json* value = Get(key);
    if (value == nullptr) return false;
    if (!value->is_boolean()) return Wrong(key, *value, "true or false"), false;
    return value->get<bool>();
  }
  std::optional<bool> NullableBool(const char* key) {
    return Null(key) ? std::nullopt : std::optional(Bool(key));
  }
  // An array or object that must be there; nullptr after an error.
  Json* Array(const char* key) {
    Json* value = Get(key);
    if (value != nullptr && !value->is_array()) return Wrong(key, *value, "an array"), nullptr;
    return value;
  }
  Json* Object(const char* key) {
    Json* value = Get(key);
    if (value != nullptr && !value->is_object()) return Wrong(key, *value, "an object"), nullptr;
    return value;
  }
  // nullptr when the key is absent or null.
  Json* NullableObject(const char* key) { return Null(key) ? nullptr : Object(key); }
  std::vector<std::string> Strings(const char* key) {
    std::vector<std::string> out;
    Json* value = Array(key);
    if (value == nullptr) return out;
    for (Json& item : *value) {
      if (!item.is_string()) return Wrong(key, item, "an array of strings"), out;
      out.push_back(std::move(item.get_ref<std::string&>()));
    }
    return out;
  }
  // True when the key is absent or null.
  bool Null(const char* key) const { return !Has(key) || object_[key].is_null(); }
  void Fail(const char* key, std::string problem) {
    if (!status_.ok()) return;
    std::string name = key[0] == '\0' ? "" : absl::StrCat("'", key, "' ");
    status_ = InvalidInput(where_, name + problem);
  }
  // Takes over an error of a part.
  void Adopt(const Status& status) {
    if (status_.ok()) status_ = status;
  }

 private:
  Json* Get(const char* key) {
    if (!status_.ok()) return nullptr;
    auto found = object_.find(key);
    if (found == object_.end()) return Fail(key, "is missing"), nullptr;
    return &*found;
  }
  void Wrong(const char* key, const Json& value, const char* wanted) {
    Fail(key, absl::StrCat("is ", value.type_name(), ", ", wanted, " is needed"));
  }

  Json& object_;
  std::string where_;
  Status status_;
};

}  // namespace poolmark::quality
