// Passages on the boundaries of chunks, whatever tokenizers and templates do to the texts around them.
#include <catch2/catch.hpp>

#include "common/quality/plan.h"
#include "tests/component/quality/analyzed.h"

namespace poolmark::quality {

using test::FakeEngine;
using test::FakeEngineOptions;
using test::QualityBench;

TEST_CASE("passages stand on chunks whatever a tokenizer does at the beginning of a text", "[K11][K14]") {
  std::vector<int64_t> expected;
  for (bool leading : {false, true}) {
    QualityBench bench;
    FakeEngineOptions options;
    options.leading_token = leading;
    FakeEngine engine(options);
    bench.options.reference_url = engine.url();
    bench.Run();
    CHECK_THAT(bench.notes, !Catch::Contains("reuse will be partial"));
    int64_t total = 0;
    const std::optional<Plan> plan = Directory(bench.out()).LoadPlan().value();
    for (const Sample& sample : plan->samples) total += *sample.expected_reused_tokens;
    expected.push_back(total);
  }
  CHECK(expected[0] == expected[1]);
}

TEST_CASE("marks and line ends that a tokenizer joins cost no chunk, with every filler", "[K11][K14]") {
  for (const char* scenario : {"independent", "reordered"}) {
    for (const char* filler : {"dots", "dashes", "words"}) {
      for (int64_t chunk_size : {16, 64}) {
        INFO(scenario << " " << filler << " " << chunk_size);
        QualityBench bench;
        FakeEngineOptions options;
        options.merging = true;
        FakeEngine engine(options);
        bench.options.settings.scenario = scenario;
        bench.options.settings.filler = filler;
        bench.options.settings.chunk_size = chunk_size;
        bench.options.reference_url = engine.url();
        bench.Run();
        CHECK_THAT(bench.notes, !Catch::Contains("reuse will be partial"));
        const std::optional<Plan> plan = Directory(bench.out()).LoadPlan().value();
        for (const Sample& sample : plan->samples) {
          // All that stands before the question is whole chunks, and every one of them is stored.
          const std::string& content = sample.messages[0].content;
          const std::string before = content.substr(0, content.rfind("Question: "));
          const auto tokens =
              static_cast<int64_t>(test::FakeTokens(test::FakeRender(before, ""), true).size());
          CHECK(tokens % chunk_size == 0);
          CHECK(tokens == *sample.expected_reused_tokens);
        }
      }
    }
  }
}

TEST_CASE("every chunk that a template's text costs is told, also where the beginning makes up for it",
          "[K11][K14]") {
  // The template's line end joins the mark before it: the last chunk of every store request is another one.
  const auto [scenario, passages_lost] =
      GENERATE(std::pair<const char*, int>{"independent", 3}, std::pair<const char*, int>{"reordered", 1});
  QualityBench bench;
  FakeEngineOptions options;
  options.merging = true;
  options.behind_user = "\nassistant:\n";
  FakeEngine engine(options);
  bench.options.settings.scenario = scenario;
  bench.options.reference_url = engine.url();
  bench.Run();
  INFO(bench.notes);
  CHECK_THAT(bench.notes,
             Catch::Contains("24 of 24 questions expect less reuse than their whole chunks hold, " +
                             std::to_string(24 * 16 * passages_lost) + " tokens in all"));
}

}  // namespace poolmark::quality
