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
  const auto skew = [&](const std::string& dialect, const stats::Deltas& deltas,
                        stats::EngineFacts::Role role = stats::EngineFacts::Role::kAggregated) {
    for (auto& engine : facts.engines) {
      engine.dialect = dialect;
      engine.deltas = deltas;
      engine.role = role;
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
    CHECK((*figures->sources.total).prompt == 900);
    return figures->sources.skew_tokens;
  };
  CHECK(skew("vllm", {{"vllm:prompt_tokens_total", 900}}) == 0);
  const stats::Deltas sglang = {{"sglang:prompt_tokens_total", 900}};
  CHECK(skew("sglang", sglang) == 55000);
  const stats::Deltas trtllm = {{"trtllm_prompt_tokens_total", 900},
                                {"trtllm_prompt_cached_tokens_total", 400}};
  CHECK(skew("trtllm", trtllm) == 55000);
  // Counted when it was scheduled, though the engine has the other counter too.
  CHECK(skew("sglang", {{"sglang:prefill_effective_tokens_total{mode=input}", 500},
                        {"sglang:prefill_effective_tokens_total{mode=device_hit}", 400},
                        {"sglang:prompt_tokens_total", 55900}}) == 0);
  // Of a split pool the prefill engine is done with the prompt at its first token.
  CHECK(skew("sglang", sglang, stats::EngineFacts::Role::kPrefill) == 0);
  CHECK(skew("trtllm", trtllm, stats::EngineFacts::Role::kPrefill) == 0);
}
