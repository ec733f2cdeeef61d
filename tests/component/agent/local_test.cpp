// `poolmark-agent status` and `drain`: what they say when they could not look, or found what is not clean.
#include "agent/api/local.h"

#include <catch2/catch.hpp>

#include "common/base/files.h"
#include "tests/support/temp_dir.h"

namespace poolmark::agent {
namespace {

TEST_CASE("a state directory that cannot be read is an error, one without runs is drained") {
  test::TempDir dir;
  AgentConfig config;
  config.state_dir = dir / "nowhere";
  CHECK(PrintStatus(config) == 1);
  CHECK(Drain(config) == 1);
  config.state_dir = dir.path();
  CHECK(PrintStatus(config) == 0);
  CHECK(Drain(config) == 0);
}

TEST_CASE("a run whose guard died and that nobody swept is not drained") {
  test::TempDir dir;
  AgentConfig config;
  config.state_dir = dir.path();
  const std::string run = dir / "runs/job-1-e1-abcdef";
  REQUIRE(MakeDirs(run).ok());
  REQUIRE(AtomicWriteFile(run + "/ledger", "").ok());
  CHECK(PrintStatus(config) == 6);
  CHECK(Drain(config) == 6);
}

}  // namespace
}  // namespace poolmark::agent
