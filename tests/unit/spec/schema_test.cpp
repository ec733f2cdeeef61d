// docs/schemas/spec: what editors check pool, stack and job files against agrees with what the readers take.
#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>
#include <regex>

#include "common/base/files.h"
#include "common/base/json.h"
#include "common/spec/read.h"
#include "common/spec/yaml.h"
#include "tests/support/shared_data.h"

using namespace poolmark;

namespace {

bool HasType(const Json& value, const std::string& type) {
  if (type == "object") return value.is_object();
  if (type == "array") return value.is_array();
  if (type == "string") return value.is_string();
  if (type == "boolean") return value.is_boolean();
  if (type == "integer") return value.is_number_integer();
  if (type == "number") return value.is_number();
  return type == "null" && value.is_null();
}

// The keywords that these schemas use; an unknown one fails the test. "" when the value fits.
std::string Misfit(const Json& schema, const Json& value, const std::string& path) {
  for (const auto& [word, rule] : schema.items()) {
    if (word == "$schema" || word == "title" || word == "description") continue;
    if (word == "type") {
      bool fits = false;
      for (const Json& type : rule.is_array() ? rule : Json::array({rule}))
        fits = fits || HasType(value, type.get<std::string>());
      if (!fits) return path + " is of another type: " + value.dump();
    } else if (word == "const") {
      if (value != rule) return path + " must be " + rule.dump();
    } else if (word == "enum") {
      if (std::find(rule.begin(), rule.end(), value) == rule.end())
        return path + " is none of " + rule.dump();
    } else if (word == "pattern") {
      if (!value.is_string() ||
          !std::regex_search(value.get<std::string>(), std::regex(rule.get<std::string>())))
        return path + " does not look like " + rule.dump();
    } else if (word == "minimum" || word == "maximum") {
      if (value.is_number() && (word == "minimum" ? value < rule : value > rule))
        return path + " is out of its range";
    } else if (word == "minItems" || word == "maxItems" || word == "minProperties") {
      if (word == "maxItems" ? value.size() > rule : value.size() < rule) return path + " has another size";
    } else if (word == "required") {
      for (const Json& key : rule) {
        if (!value.contains(key.get<std::string>())) return path + " lacks " + key.dump();
      }
    } else if (word == "properties") {
      for (const auto& [key, member] : rule.items()) {
        if (!value.is_object() || !value.contains(key)) continue;
        if (auto error = Misfit(member, value[key], path + "." + key); !error.empty()) return error;
      }
    } else if (word == "additionalProperties") {
      for (const auto& [key, member] : value.items()) {
        if (schema.contains("properties") && schema["properties"].contains(key)) continue;
        if (rule.is_boolean()) return path + " has the unknown key " + key;
        if (auto error = Misfit(rule, member, path + "." + key); !error.empty()) return error;
      }
    } else if (word == "propertyNames") {
      for (const auto& [key, member] : value.items()) {
        if (auto error = Misfit(rule, key, path + " key"); !error.empty()) return error;
      }
    } else if (word == "items") {
      for (size_t i = 0; value.is_array() && i < value.size(); ++i) {
        if (auto error = Misfit(rule, value[i], path + "[" + std::to_string(i) + "]"); !error.empty())
          return error;
      }
    } else if (word == "anyOf") {
      std::string all;
      bool fits = false;
      for (const Json& one : rule) {
        const std::string error = Misfit(one, value, path);
        fits = fits || error.empty();
        all += (all.empty() ? "" : "; or ") + error;
      }
      if (!fits) return all;
    } else {
      return "the test does not know the keyword " + word;
    }
  }
  return "";
}

Json Schema(const std::string& kind) {
  return ParseJson(ReadFile(test::Source("docs/schemas/spec/" + kind + ".schema.json")).value()).value();
}

std::string Check(const std::string& kind, const std::string& yaml) {
  Errors errors;
  auto value = spec::Value::Parse(yaml, kind, &errors);
  REQUIRE(value);
  return Misfit(Schema(kind), value->ToJson(), kind);
}

}  // namespace

TEST_CASE("every shipped file fits its schema") {
  const auto stacks = ListDir(test::Source("deploy/stacks"));
  REQUIRE(stacks.ok());
  for (const std::string& name : *stacks) {
    CAPTURE(name);
    CHECK(Check("stack", ReadFile(test::Source("deploy/stacks/" + name)).value()) == "");
  }
  CHECK(Check("pool", ReadFile(test::Source("deploy/config/demo/pool.yaml")).value()) == "");
  for (const char* name : {"job.yaml", "strategies.yaml"})
    CHECK(Check("job", ReadFile(test::Source("deploy/config/demo/" + std::string(name))).value()) == "");
}

TEST_CASE("the schemas know every key that the readers know, and no other") {
  // The readers name their keys when they meet one that is none of them.
  auto known = [](const std::string& file, const std::string& yaml) {
    Errors errors;
    if (file == "pool") {
      (void)spec::ReadPool(yaml, file, &errors);
    } else if (file == "stack") {
      (void)spec::ReadStack(yaml, file, &errors);
    } else {
      (void)spec::ReadJob(
          yaml, file, [](const std::string& name) -> Result<std::string> { return NotFound(name, ""); }, {},
          &errors);
    }
    std::set<std::string> keys;
    for (const Error& error : errors) {
      if (error.where.find("zzzzzzzzzzzz") == std::string::npos) continue;
      const size_t colon = error.hint.find(": ");
      REQUIRE(colon != std::string::npos);
      std::string rest = error.hint.substr(colon + 2);
      for (size_t comma = 0; !rest.empty(); rest.erase(0, comma == rest.npos ? rest.npos : comma + 2)) {
        comma = rest.find(", ");
        keys.insert(rest.substr(0, comma));
      }
    }
    REQUIRE_FALSE(keys.empty());
    return keys;
  };
  auto described = [](const Json& schema) {
    std::set<std::string> keys;
    for (const auto& [key, member] : schema["properties"].items()) keys.insert(key);
    return keys;
  };
  const Json pool = Schema("pool"), stack = Schema("stack"), job = Schema("job");
  const std::string odd = "zzzzzzzzzzzz: 1\n";
  CHECK(known("pool", odd) == described(pool));
  CHECK(known("pool", "machines: [{zzzzzzzzzzzz: 1}]\n") ==
        described(pool["properties"]["machines"]["anyOf"][1]["items"]));
  CHECK(known("pool", "switches: [{zzzzzzzzzzzz: 1}]\n") ==
        described(pool["properties"]["switches"]["items"]));
  CHECK(known("stack", odd) == described(stack));
  CHECK(known("stack", "kv: {zzzzzzzzzzzz: 1}\n") == described(stack["properties"]["kv"]));
  CHECK(known("stack", "tiers: [{zzzzzzzzzzzz: 1}]\n") == described(stack["properties"]["tiers"]["items"]));
  CHECK(known("stack", "processes: [{zzzzzzzzzzzz: 1}]\n") ==
        described(stack["properties"]["processes"]["items"]));
  CHECK(known("job", odd) == described(job));
  CHECK(known("job", "preflight: {line_rate: {zzzzzzzzzzzz: 1}}\n") ==
        described(job["properties"]["preflight"]["properties"]["line_rate"]["anyOf"][1]));
  CHECK(known("job", "load: {zzzzzzzzzzzz: 1}\n") == described(job["properties"]["load"]));
  CHECK(known("job", "accuracy: {zzzzzzzzzzzz: 1}\n") == described(job["properties"]["accuracy"]));
  CHECK(known("job", "accuracy: {judge: {zzzzzzzzzzzz: 1}}\n") ==
        described(job["properties"]["accuracy"]["properties"]["judge"]));
}

TEST_CASE("the schema of pool files refuses the addresses that the reader refuses") {
  auto pool = [](const std::string& address) {
    return "version: 1\nmachines: [{name: n0, net: {tcp: \"" + address + "\"}}]\n";
  };
  for (const char* address :
       {"10.0.0.1", "255.255.255.255", "fd00::1", "::1", "::ffff:10.0.0.1", "", "300.0.0.1", "10.0.0",
        "a b; rm", "gpu1.lan", "10.0.0.1:80", "010.0.0.1", "[fd00::1]", "fe80::1%eth0"}) {
    CAPTURE(address);
    Errors errors;
    (void)spec::ReadPool(pool(address), "pool.yaml", &errors);
    CHECK(errors.empty() == Check("pool", pool(address)).empty());
  }
  CHECK(Check("pool", "version: 1\nmachines: 1\nswitches: [{name: a, address: \"a b; rm\"}]\n") != "");
}

TEST_CASE("the schemas refuse what the readers refuse") {
  const std::string good =
      "version: 1\npool: pool.yaml\nstacks: [a]\nworkloads: {w: {shape: synthetic, input: 1, output: 1, "
      "concurrency: [1]}}\n";
  CHECK(Check("job", good) == "");
  CHECK(Check("job", good + "accuracy: {dataset: d, metric: judge, judge: {url: u, model: m}}\n") == "");
  CHECK(Check("job", good + "accuracy: {dataset: d, metric: exact}\n") != "");
  CHECK(Check("job", good + "load: {tokenizer: /models/m}\n") == "");
  CHECK(Check("job", good + "load: {tokenizer: models/m}\n") != "");
  CHECK(Check("job", good + "accuracy: {dataset: d, metric: judge, judge: {url: u}}\n") != "");
  for (const auto& [from, to] :
       std::vector<std::pair<std::string, std::string>>{{"version: 1", "version: 2"},
                                                        {"shape: synthetic", "shape: sinthetic"},
                                                        {"output: 1", "outputs: 1"},
                                                        {"[1]", "[0]"},
                                                        {"pool: pool.yaml\n", ""},
                                                        {"stacks: [a]", "stacks: []"},
                                                        {"input: 1, ", ""},
                                                        {"output: 1", "output: 1, load_duration: 20m"}}) {
    CAPTURE(to);
    CHECK(Check("job", std::string(good).replace(good.find(from), from.size(), to)) != "");
  }
}
