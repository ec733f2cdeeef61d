#include "controller/runner/validated.h"

#include <unistd.h>

#include <catch2/catch.hpp>
#include <filesystem>

#include "common/base/files.h"

using namespace poolmark;
using namespace poolmark::controller;

namespace {

struct Job {
  results::JobFile job;
  results::ManifestFile manifest;
  results::SummaryFile summary;
};

Job Valid() {
  Job out;
  out.job.job_id = "20261130-1";
  out.job.state = "SUCCEEDED";
  out.job.ended = "2026-11-30T08:00:00Z";
  results::JobStack stack;
  stack.name = "base";
  stack.use = "vllm-local";
  stack.digest = "abc";
  stack.vendor = "nvidia";
  out.job.stacks = {stack};
  for (const char* machine : {"n0", "n1"}) {
    results::ManifestEngine engine;
    engine.process = std::string("base.engine-") + machine;
    engine.stack = "base";
    engine.dialect = "vllm";
    engine.version = "0.32.0";
    out.manifest.engines.push_back(engine);
  }
  results::SummaryPoint point;
  point.point = {"base", "chat", "c4"};
  point.valid = point.publishable = true;
  out.summary.points = {point};
  return out;
}

}  // namespace

TEST_CASE("one valid, publishable job validates a stack with its versions and vendor", "[A8]") {
  const Job done = Valid();
  const auto found = ConfigurationsOf(done.job, done.manifest, done.summary);
  REQUIRE(found.size() == 1);
  CHECK(found[0].stack == "vllm-local");
  CHECK(found[0].digest == "abc");
  CHECK(found[0].vendor == "nvidia");
  CHECK(found[0].components == std::vector<std::string>{"vllm 0.32.0"});
}

TEST_CASE("a job that failed, an invalid point and one that is held back validate nothing", "[A8]") {
  Job failed = Valid();
  failed.job.state = "FAILED";
  CHECK(ConfigurationsOf(failed.job, failed.manifest, failed.summary).empty());
  Job held = Valid();
  held.summary.points.push_back(held.summary.points[0]);
  held.summary.points[1].publishable = false;
  CHECK(ConfigurationsOf(held.job, held.manifest, held.summary).empty());
  Job none = Valid();
  none.summary.points.clear();
  CHECK(ConfigurationsOf(none.job, none.manifest, none.summary).empty());
}

TEST_CASE("validated configurations are kept once, and a damaged line costs only itself", "[A8]") {
  const auto path =
      std::filesystem::temp_directory_path() / ("validated-" + std::to_string(::getpid()) + ".jsonl");
  std::filesystem::remove(path);
  CHECK(ReadValidated(path)->empty());
  const Job done = Valid();
  auto found = ConfigurationsOf(done.job, done.manifest, done.summary);
  REQUIRE(AddValidated(path, found).ok());
  found[0].job_id = "20261130-2";  // the same thing again
  REQUIRE(AddValidated(path, found).ok());
  REQUIRE(ReadValidated(path)->size() == 1);
  CHECK(ReadValidated(path)->front().job_id == "20261130-1");
  REQUIRE(AppendFile(path, "{\"stack\": \"cut", false).ok());
  REQUIRE(AppendFile(path, "\n", false).ok());
  found[0].components = {"vllm 0.33.0"};  // another version is another configuration
  REQUIRE(AddValidated(path, found).ok());
  CHECK(ReadValidated(path)->size() == 2);
  std::filesystem::remove(path);
}
