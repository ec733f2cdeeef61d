// Figures of the whole pool need every machine of it: a part must not look like the whole.
#include <catch2/catch.hpp>

#include "common/results/compute.h"
#include "tests/unit/results/example.h"

using namespace poolmark;
using namespace poolmark::results;

namespace {

RepeatFigures FiguresOf(const RepeatFacts& facts) {
  auto figures = ComputeRepeat(facts, [](stats::RequestFacts*) -> Result<bool> { return false; });
  REQUIRE(figures.ok());
  return std::move(*figures);
}

RepeatFacts TwoEngines() {
  RepeatFacts facts = test::ExampleRepeat("cand", 1).facts;
  stats::EngineFacts second = facts.engines.at(0);
  second.process = "cand.engine-n2";
  second.machine = "n2";
  facts.engines.push_back(second);
  CacheFacts cache = facts.caches.at(0);
  cache.process = second.process;
  cache.machine = second.machine;
  facts.caches.push_back(cache);
  return facts;
}

}  // namespace

TEST_CASE("an engine whose cache was not read leaves no smaller pool", "[E7][D5]") {
  RepeatFacts facts = TwoEngines();
  CHECK(*FiguresOf(facts).gpu_kv_capacity_tokens == 200000);
  CHECK(*FiguresOf(facts).working_set_ratio == Approx(0.9));
  facts.caches.pop_back();
  const auto figures = FiguresOf(facts);
  CHECK_FALSE(figures.gpu_kv_capacity_tokens.has_value());
  CHECK(figures.working_set_ratio.reason() == "cand.engine-n2: its cache was not read");
}

TEST_CASE("KV bandwidth is what moved by the time in which it moved", "[E6]") {
  RepeatFacts facts = test::ExampleRepeat("cand", 1).facts;
  REQUIRE(facts.transfers.size() == 1);
  facts.measured_to = facts.measured_from + 100;
  facts.drain_end = facts.measured_to + 50;  // the counters were read after it
  facts.transfers[0].bytes = 3e9;
  facts.transfers[0].line_bits_per_second = 8e8;
  const auto figures = FiguresOf(facts);
  CHECK(*figures.kv_bytes_per_second == Approx(2e7));
  CHECK(*figures.transfers.at(0).share_of_line == Approx(0.2));
}

TEST_CASE("a machine that reports no power leaves no better tokens per joule", "[E8]") {
  RepeatFacts facts = TwoEngines();
  CHECK(FiguresOf(facts).energy.tokens_per_joule.has_value());
  facts.power.pop_back();
  auto energy = FiguresOf(facts).energy;
  CHECK(energy.machines.size() == 2);
  CHECK(energy.tokens_per_joule.reason() == "no power of n2 (the machine reports no power)");
  // Nor does one without an engine, which the evidence names.
  facts.engines.pop_back();
  CHECK_FALSE(FiguresOf(facts).energy.tokens_per_joule.has_value());
  facts.evidence.clocks.pop_back();
  facts.evidence.silences.pop_back();
  CHECK(FiguresOf(facts).energy.tokens_per_joule.has_value());
}
