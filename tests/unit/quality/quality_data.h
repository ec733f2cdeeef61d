// The quality captures and vectors under the shared data, for the tests of this directory.
#pragma once
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "common/base/files.h"
#include "common/base/json.h"
#include "tests/support/shared_data.h"

namespace poolmark::test {

inline std::optional<std::string> QualityData() {
  std::optional<std::string> shared = SharedData();
  return shared ? std::optional(*shared + "/data/quality") : std::nullopt;
}

inline Json LoadJson(const std::string& path) {
  Result<std::string> text = ReadFile(path);
  if (!text.ok()) throw std::runtime_error(std::string(text.status().message()));
  Result<Json> json = ParseJson(*text, path);
  if (!json.ok()) throw std::runtime_error(std::string(json.status().message()));
  return *json;
}

// A vector file, or nothing without shared data.
inline std::optional<Json> Vectors(const std::string& name) {
  std::optional<std::string> data = QualityData();
  return data ? std::optional(LoadJson(*data + "/vectors/" + name + ".json")) : std::nullopt;
}

// Where `have` differs from `want` (path and values), or "". Numbers within 1e-9, key sets exact, key order
// free.
inline std::string Difference(const Json& want, const Json& have, const std::string& at = "") {
  if (want.is_number() && have.is_number()) {
    if (want.is_number_float() != have.is_number_float())
      return at + ": " + want.dump() + " is another number type than " + have.dump();
    return std::abs(want.get<double>() - have.get<double>()) <= 1e-9
               ? ""
               : at + ": want " + want.dump() + ", have " + have.dump();
  }
  if (want.type() != have.type())
    return at + ": want " + want.dump().substr(0, 200) + ", have " + have.dump().substr(0, 200);
  if (want.is_object()) {
    for (auto it = want.begin(); it != want.end(); ++it) {
      if (!have.contains(it.key())) return at + "/" + it.key() + ": missing";
      std::string inner = Difference(it.value(), have[it.key()], at + "/" + it.key());
      if (!inner.empty()) return inner;
    }
    for (auto it = have.begin(); it != have.end(); ++it) {
      if (!want.contains(it.key())) return at + "/" + it.key() + ": not expected";
    }
    return "";
  }
  if (want.is_array()) {
    if (want.size() != have.size())
      return at + ": want " + std::to_string(want.size()) + " items, have " + std::to_string(have.size());
    for (size_t i = 0; i < want.size(); ++i) {
      std::string inner = Difference(want[i], have[i], at + "[" + std::to_string(i) + "]");
      if (!inner.empty()) return inner;
    }
    return "";
  }
  return want == have ? ""
                      : at + ": want " + want.dump().substr(0, 200) + ", have " + have.dump().substr(0, 200);
}

}  // namespace poolmark::test
