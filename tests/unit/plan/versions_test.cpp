// Verify's check of the versions that run against those that a stack file is for.
#include <catch2/catch.hpp>

#include "controller/steps/engine_versions.h"
#include "controller/steps/pool_checks.h"

using namespace poolmark;
using namespace poolmark::controller;

namespace {

StackPlan Stack(const std::vector<std::pair<std::string, std::string>>& processes) {
  StackPlan stack;
  for (const auto& [id, compatible] : processes) {
    PlannedProcess& process = stack.processes.emplace_back();
    process.spec.set_id(id);
    process.template_name = id.substr(0, id.find('-'));
    process.compatible = compatible;
  }
  return stack;
}

}  // namespace

TEST_CASE("every process of another version is named, one whose version is not known is a note", "[C28]") {
  CHECK_FALSE(CheckVersions(Stack({{"engine-n0", ""}}), {}).has_value());
  const StackPlan stack = Stack(
      {{"engine-n0", ">=0.32"}, {"engine-n1", ">=0.32"}, {"router-n0", ">=0.1, <0.2"}, {"store-n0", ""}});
  const auto judged = [&](std::map<std::string, std::string> versions) {
    auto check = CheckVersions(stack, versions);
    REQUIRE(check.has_value());
    CHECK(check->id() == "versions");
    CHECK(check->expected() == "versions that the stack file is for: engine >=0.32; router >=0.1, <0.2");
    CHECK_FALSE(check->evidence().empty());
    CHECK((check->outcome() == v1::OUTCOME_PASS || !check->hint().empty()));
    return *check;
  };
  auto check = judged({{"engine-n0", "0.32.1"}, {"engine-n1", "0.40.0rc1"}, {"router-n0", "v0.1.17"}});
  CHECK(check.outcome() == v1::OUTCOME_PASS);
  CHECK(check.observed() == "engine-n0 0.32.1, engine-n1 0.40.0rc1, router-n0 v0.1.17");
  check = judged({{"engine-n0", "0.31.9"}, {"engine-n1", "0.40.0"}, {"router-n0", "0.2.0"}});
  CHECK(check.outcome() == v1::OUTCOME_FAIL);
  CHECK(check.observed() == "other versions run: engine-n0 0.31.9, router-n0 0.2.0");
  CHECK(Stops(check));
  check = judged({{"engine-n0", "0.32.1"}, {"engine-n1", "main"}});
  CHECK(check.outcome() == v1::OUTCOME_NOTE);
  CHECK(check.observed() == "not known: engine-n1 main, router-n0; engine-n0 0.32.1");
  CHECK_FALSE(Stops(check));
}
