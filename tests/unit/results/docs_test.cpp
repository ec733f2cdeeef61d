// docs/result-files.md and docs/schemas say what the program writes.
#include <catch2/catch.hpp>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <set>

#include "common/base/files.h"
#include "common/base/json.h"
#include "common/load/summary.h"
#include "common/results/directory.h"
#include "common/results/schemas.h"
#include "common/results/summarize.h"
#include "tests/support/shared_data.h"
#include "tests/unit/results/example.h"

using namespace poolmark;

namespace {

// Names of the properties in a schema, at any depth.
void Names(const Json& schema, std::set<std::string>* out) {
  if (schema.is_object()) {
    if (const auto properties = schema.find("properties"); properties != schema.end()) {
      for (const auto& [name, value] : properties->items()) out->insert(name);
    }
    for (const auto& [key, value] : schema.items()) Names(value, out);
  } else if (schema.is_array()) {
    for (const Json& item : schema) Names(item, out);
  }
}

}  // namespace

TEST_CASE("the schemas in docs/schemas are those of the program", "[K2]") {
  for (const auto& [name, text] : results::Schemas()) {
    const std::string path = test::Source("docs/schemas/" + name);
    if (std::getenv("POOLMARK_UPDATE") != nullptr) REQUIRE(AtomicWriteFile(path, text).ok());
    INFO(path << ": write it again with POOLMARK_UPDATE=1");
    const auto stored = ReadFile(path);
    REQUIRE(stored.ok());
    CHECK(*stored == text);
  }
}

TEST_CASE("docs/result-files.md names every field of every file", "[J6]") {
  const std::string page = *ReadFile(test::Source("docs/result-files.md"));
  for (const auto& [file, text] : results::Schemas()) {
    std::set<std::string> names;
    Names(*ParseJson(text), &names);
    for (const std::string& name : names) {
      INFO(file << ": " << name);
      const bool named =
          page.find("`" + name) != std::string::npos || page.find("]." + name) != std::string::npos;
      CHECK(named);
    }
  }
  // Its schema leaves them open.
  const Json load = load::SummaryJson(load::Summary());
  for (const auto& [name, value] : load.at("client").items()) {
    INFO("load.json: client." << name);
    CHECK(page.find("`client." + name + "`") != std::string::npos);
  }
  for (const auto& [name, value] : load.at("definitions").items()) {
    INFO("load.json: definitions." << name);
    CHECK(page.find("`" + name + "`") != std::string::npos);
  }
  const auto summary =
      results::Summarize(test::ExampleJob(), test::ExampleManifest(), {test::ExampleRepeat("base", 1)});
  for (const auto& [name, figure] : summary.points.at(0).figures) {
    const std::string base = name.substr(0, name.find('.'));
    const bool latency = base.starts_with("ttft_") || base.starts_with("tpot_") || base.starts_with("itl_") ||
                         base.starts_with("latency_");
    INFO(name);
    if (!latency) CHECK(page.find("`" + base) != std::string::npos);
  }
}
