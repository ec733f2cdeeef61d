// What a repeat says of reuse when the answers in its prompts are not known as well as the prompts.
#include "common/results/reuse_facts.h"

#include <catch2/catch.hpp>

using namespace poolmark;
using namespace poolmark::results;

namespace {

// One session of three turns with answers of `written` tokens, of which the prompts after them hold
// `in_prompt`: 100 of 1 000 tokens and more that are doubtful where the two differ.
std::vector<workload::SentRequest> Sent(int64_t prefix, int64_t written, int64_t in_prompt) {
  std::vector<workload::SentRequest> out;
  for (uint32_t turn = 0; turn < 3; ++turn) {
    workload::SentRequest request{0, turn, 10.0 * turn, 10.0 * turn + 5, false};
    request.planned_input_tokens = prefix + 64 + turn * int64_t{64 + 100};
    request.planned_over_counted = turn * (100 - in_prompt);
    request.output_tokens = written;
    out.push_back(request);
  }
  return out;
}

ReuseFacts Measure(int64_t prefix, std::vector<workload::SentRequest> sent) {
  const WorkloadInput input{
      R"({"shape":"synthetic","answers":"live","sessions":1,"turns":3,"input":64,"growth":64,"output":100,"prefix":)" +
          std::to_string(prefix) + "}",
      "", "c1"};
  const auto facts = MeasureReuse(input, std::move(sent), 0, 100, 1);
  INFO(facts.status().ToString());
  REQUIRE(facts.ok());
  return *facts;
}

}  // namespace

TEST_CASE("live answers that decide over the share and are not known leave it not measured", "[B2][B4]") {
  const ReuseFacts whole = Measure(0, Sent(0, 100, 100));
  REQUIRE(whole.reusable.has_value());
  CHECK(*whole.reusable == Approx((164.0 + 328) / (64 + 228 + 392)));
  CHECK(whole.notes.empty());
  const ReuseFacts doubtful = Measure(0, Sent(0, 100, 98));
  REQUIRE_FALSE(doubtful.reusable.has_value());
  CHECK_THAT(doubtful.reusable.reason(),
             Catch::Contains("2 of 2 are not known") && Catch::Contains("between 42.8 % and 71.7 %"));
  CHECK(doubtful.working_set_tokens.reason() == doubtful.reusable.reason());
  CHECK(doubtful.curve.empty());
  CHECK(doubtful.block_tokens == 1);
}

TEST_CASE("live answers that hardly matter are told in a note", "[B2][B4]") {
  const ReuseFacts facts = Measure(100'000, Sent(100'000, 100, 98));
  REQUIRE(facts.reusable.has_value());
  REQUIRE(facts.notes.size() == 2);
  CHECK_THAT(facts.notes[0], Catch::Contains("the prompts had 6 tokens fewer than planned"));
  CHECK_THAT(facts.notes[1], Catch::Contains("2 of 2 live answers are not known"));
}

TEST_CASE("an engine that does not count its prompts leaves the reuse of live answers not measured",
          "[B2][B4]") {
  auto sent = Sent(0, 100, 100);
  for (auto& request : sent) request.planned_over_counted = std::nullopt;
  const ReuseFacts facts = Measure(0, sent);
  REQUIRE_FALSE(facts.reusable.has_value());
  CHECK_THAT(facts.reusable.reason(), Catch::Contains("the engine did not count the prompts' tokens"));
}
