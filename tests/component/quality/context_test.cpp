// Prompts that an engine's context does not hold: refused before anything is sent, by the longest one.
#include <algorithm>
#include <catch2/catch.hpp>

#include "common/base/files.h"
#include "tests/component/quality/bench_setup.h"

namespace poolmark::quality {
namespace {

using test::Answering;
using test::FakeEngine;
using test::FakeEngineOptions;
using test::QualityBench;

int64_t TokensOf(const Messages& messages) {
  return static_cast<int64_t>(test::FakeTokens(test::FakeRender(messages[0].content)).size());
}

// The plan of the same questions by an engine that takes everything, with the longest of its requests.
struct Lengths {
  explicit Lengths(const Settings& settings) {
    QualityBench bench;
    FakeEngine engine(Answering());
    const std::string dataset = bench.options.settings.dataset;
    bench.options.settings = settings;
    bench.options.settings.dataset = dataset;
    bench.options.reference_url = engine.url();
    bench.Run();
    plan = Directory(bench.out()).LoadPlan().value().value();
    for (const Sample& sample : plan.samples) question = std::max(question, TokensOf(sample.messages));
    for (const StoreRequest& request : plan.store_requests)
      store = std::max(store, TokensOf(request.messages));
  }
  Plan plan;
  int64_t question = 0;
  int64_t store = 0;
};

}  // namespace

TEST_CASE("prompt and answer that the context does not hold are refused when the plan is made", "[K11]") {
  QualityBench bench;
  const Lengths lengths(bench.options.settings);
  const int64_t need = lengths.question + bench.options.settings.max_output_tokens;
  REQUIRE(lengths.store + 1 < need - 1);
  const auto longest =
      std::find_if(lengths.plan.samples.begin(), lengths.plan.samples.end(),
                   [&](const Sample& s) { return TokensOf(s.messages) == lengths.question; });
  const auto as_long =
      std::count_if(lengths.plan.samples.begin(), lengths.plan.samples.end(),
                    [&](const Sample& s) { return TokensOf(s.messages) == lengths.question; });
  FakeEngineOptions options = Answering();
  options.max_model_len = std::to_string(need - 1);
  FakeEngine engine(options);
  bench.options.reference_url = engine.url();
  const Status refused = bench.TryRun().status();
  CHECK_THAT(std::string(refused.message()),
             Catch::Contains(engine.url() + "/tokenize") &&
                 Catch::Contains(
                     "takes " + std::to_string(need - 1) + " tokens of prompt and answer together, " +
                     longest->request_id + " (" + longest->qid + ") has " + std::to_string(lengths.question) +
                     " tokens and may answer with 64; " + std::to_string(as_long) + " of " +
                     std::to_string(lengths.plan.samples.size() + lengths.plan.store_requests.size()) +
                     " requests are too long"));
  CHECK_THAT(ErrorOf(refused).hint, Catch::StartsWith("lower --max-output-tokens"));
  CHECK(engine.bodies().empty());
  CHECK_FALSE(FileExists(bench.out() + "/plan.json"));

  // One token more, and all fit.
  options.max_model_len = std::to_string(need);
  FakeEngine enough(options);
  bench.options.reference_url = enough.url();
  CHECK(bench.Run().failed_questions == 0);
}

TEST_CASE("a unit that the context does not hold is refused, with the option that makes it smaller",
          "[K11][K13]") {
  QualityBench bench;
  bench.options.settings.scenario = "concatenated";
  bench.options.settings.filler = "none";
  bench.options.settings.min_unit_tokens = 1000;
  bench.options.settings.max_output_tokens = 4;
  const Lengths lengths(bench.options.settings);
  REQUIRE(lengths.store > lengths.question + 4);
  FakeEngineOptions options = Answering();
  options.max_model_len = std::to_string(lengths.store);
  FakeEngine engine(options);
  bench.options.candidate_url = engine.url();
  const Status refused = bench.TryRun().status();
  CHECK_THAT(std::string(refused.message()),
             Catch::Contains("takes " + std::to_string(lengths.store) +
                             " tokens of prompt and answer together, store") &&
                 Catch::Contains(" has " + std::to_string(lengths.store) + " tokens and asks for 1 more"));
  CHECK_THAT(ErrorOf(refused).hint, Catch::StartsWith("lower --min-unit-tokens"));
  CHECK(engine.bodies().empty());
}

TEST_CASE("an arm whose list of models tells a shorter context is refused before its pass", "[K11]") {
  QualityBench bench;
  FakeEngine reference(Answering());
  FakeEngineOptions options = Answering();
  options.models = {"another", "m"};
  options.models_max_model_len = 100;
  FakeEngine candidate(options);
  bench.options.reference_url = reference.url();
  bench.options.candidate_url = candidate.url();
  CHECK_THAT(std::string(bench.TryRun().status().message()),
             Catch::Contains(candidate.url()) &&
                 Catch::Contains("takes 100 tokens of prompt and answer together") &&
                 Catch::Contains("tokens and may answer with 64"));
  CHECK(candidate.bodies().empty());
  CHECK(FileExists(bench.out() + "/arm_reference_2.json"));
}

TEST_CASE("a context length that is none limits nothing") {
  for (const char* told : {"null", "0", "-1", "1.5", "\"x\"", "[]", "18446744073709551615", "1e30"}) {
    INFO(told);
    QualityBench bench;
    FakeEngineOptions options = Answering();
    options.max_model_len = told;
    FakeEngine engine(options);
    bench.options.reference_url = engine.url();
    bench.options.reference_repeats = 1;
    bench.options.settings.num_samples = 2;
    CHECK(bench.Run().saved == std::vector<std::string>{"reference_1"});
  }
}

}  // namespace poolmark::quality
