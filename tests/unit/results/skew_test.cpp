// The prompts that a repeat's counters hold and its window does not, by the engine that counted them.
#include <catch2/catch.hpp>

#include "common/results/compute.h"
#include "tests/unit/results/example.h"

using namespace poolmark;
using namespace poolmark::results;

TEST_CASE("the skew of engines that count at the end of an answer holds those that were being answered",
          "[B1][M7]") {
  RepeatFacts facts = test::ExampleRepeats().front().facts;
  facts.measured_from = 10;
  facts.measured_to = 20;
  const auto skew = [&](const std::string& dialect) {
    for (auto& engine : facts.engines) {
      engine.dialect = dialect;
      engine.counters_from = 9.9;
    }
    bool given = false;
    const auto figures = ComputeRepeat(facts, [&](stats::RequestFacts* request) -> Result<bool> {
      if (given) return false;
      given = true;
      *request = {};
      request->ok = true;
      request->start = request->sent = 5;  // first token before the window, the answer's end inside
      request->first_output = 6;
      request->last_output = request->end = 15;
      request->input_tokens = 55000;
      request->output_tokens = 500;
      return true;
    });
    INFO(figures.status().ToString());
    REQUIRE(figures.ok());
    return figures->sources.skew_tokens;
  };
  CHECK(skew("vllm") == 0);
  CHECK(skew("sglang") == 55000);
  CHECK(skew("trtllm") == 55000);
}
