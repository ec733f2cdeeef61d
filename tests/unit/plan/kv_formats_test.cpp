#include "controller/steps/kv_formats.h"

#include <catch2/catch.hpp>

using namespace poolmark;
using namespace poolmark::controller;
using results::SampleFacts;

namespace {

StackPlan Shared() {
  StackPlan stack;
  stack.links = {{"n0", "n1", "tcp"}};
  return stack;
}

SampleFacts TwoEngines() {
  SampleFacts samples;
  samples.engines.resize(2);
  samples.engines[0].process = "engine-n0";
  samples.engines[1].process = "engine-n1";
  samples.cache_config["engine-n0"] = {
      {"block_size", "16"}, {"cache_dtype", "auto"}, {"num_gpu_blocks", "512"}};
  samples.cache_config["engine-n1"] = {
      {"block_size", "16"}, {"cache_dtype", "auto"}, {"num_gpu_blocks", "480"}};
  return samples;
}

}  // namespace

TEST_CASE("engines of one format are no evidence, whatever the size of their caches", "[I5]") {
  CHECK(FormatsOf(Shared(), TwoEngines()).empty());
}

TEST_CASE("blocks that an engine could not use are evidence against what it read", "[I5]") {
  SampleFacts samples = TwoEngines();
  samples.engines[1].deltas["poolmark_sim_kv_format_mismatch_total"] = 18;
  const auto formats = FormatsOf(Shared(), samples);
  REQUIRE(formats.size() == 1);
  CHECK(formats[0].reader == "engine-n1");
  stats::Evidence evidence;
  evidence.formats = formats;
  const auto verdict = stats::Judge(evidence);
  REQUIRE(verdict.reasons.size() == 1);
  CHECK(verdict.reasons[0].reason == stats::Reason::kKvFormat);
  CHECK(verdict.reasons[0].detail.find("18 blocks") != std::string::npos);
}

TEST_CASE("cache settings that differ are evidence where KV is shared, and nobody's business where not",
          "[I5]") {
  SampleFacts samples = TwoEngines();
  samples.cache_config["engine-n1"]["cache_dtype"] = "fp8_e4m3";
  const auto formats = FormatsOf(Shared(), samples);
  REQUIRE(formats.size() == 1);
  CHECK(formats[0].field == "cache_dtype");
  CHECK(formats[0].reader == "engine-n1");
  CHECK(formats[0].read_as == "fp8_e4m3");
  CHECK(formats[0].written_as == "auto");
  StackPlan local;
  CHECK(FormatsOf(local, samples).empty());
}
