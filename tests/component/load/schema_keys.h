// Keys of a JSON file against its schema in docs/schemas.
#pragma once
#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>
#include <string>

#include "common/base/json.h"

namespace poolmark::load::test {

// Every key is described, every required one is there.
inline void CheckKeys(const Json& value, const Json& schema, const std::string& path) {
  if (value.is_object() && schema.contains("properties")) {
    for (const auto& [key, child] : value.items()) {
      INFO(path << "." << key);
      REQUIRE(schema["properties"].contains(key));
      CheckKeys(child, schema["properties"][key], path + "." + key);
    }
    for (const Json& key : schema.value("required", Json::array())) {
      INFO(path << " lacks " << key);
      CHECK(value.contains(key.get<std::string>()));
    }
  }
  if (value.is_array() && schema.contains("items")) {
    for (const Json& item : value) CheckKeys(item, schema["items"], path + "[]");
  }
}

}  // namespace poolmark::load::test
