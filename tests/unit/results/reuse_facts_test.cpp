// What a repeat says of reuse when the answers in its prompts are not known as well as the prompts.
#include "common/results/reuse_facts.h"

#include <catch2/catch.hpp>
#include <optional>
#include <utility>
#include <vector>

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

TEST_CASE("a request that was refused or never sent gives later prompts nothing to reuse", "[B2][B4]") {
  using load::Outcome;
  // Three users with one system prompt; what became of the first decides what the second can reuse.
  const auto share = [](Outcome outcome, std::string_view error) -> std::optional<double> {
    std::vector<workload::SentRequest> sent;
    for (const uint64_t session : {0, 1, 2}) {
      load::RequestRecord record;
      record.session = session;
      record.started = record.sent = static_cast<int64_t>(session) * 1'000'000'000;
      record.end = record.sent + 500'000'000;
      record.planned_input_tokens = 120;
      if (session == 0) {
        record.outcome = outcome;
        record.error = error;
      }
      if (const auto one = SentOf(record)) sent.push_back(*one);
    }
    const WorkloadInput input{
        R"({"shape":"synthetic","sessions":3,"groups":1,"turns":1,"input":20,"output":4,"prefix":100})", "",
        "c1"};
    const auto facts = MeasureReuse(input, std::move(sent), 0, 100, 1);
    INFO(facts.status().ToString());
    REQUIRE(facts.ok());
    return *facts->reusable;
  };
  CHECK(*share(Outcome::kOk, "") == Approx(200.0 / 360));
  CHECK(*share(Outcome::kHttpStatus, "HTTP 503") == Approx(100.0 / 240));
  CHECK(*share(Outcome::kConnect, "refused") == Approx(100.0 / 240));
  CHECK(*share(Outcome::kCancelled, load::kCutUnsent) == Approx(100.0 / 240));
  CHECK(*share(Outcome::kCancelled, load::kCutBetweenAttempts) == Approx(100.0 / 240));
  // An engine had these prompts, whatever became of their answers.
  for (const Outcome outcome : {Outcome::kCancelled, Outcome::kErrorEvent, Outcome::kTruncated,
                                Outcome::kReset, Outcome::kStalled, Outcome::kDeadline, Outcome::kNoOutput}) {
    CHECK(*share(outcome, "cut off") == Approx(200.0 / 360));
  }
}

TEST_CASE("with live answers a refused request does not make the answer before it doubtful", "[B2][B4]") {
  std::vector<workload::SentRequest> sent;
  for (uint32_t turn = 0; turn < 3; ++turn) {
    load::RequestRecord record;
    record.turn = turn;
    record.started = record.sent = 10'000'000'000 * int64_t{turn};
    record.end = record.sent + 5'000'000'000;
    record.planned_input_tokens = 64 + turn * int64_t{64 + 100};
    if (turn == 2) {
      record.outcome = load::Outcome::kHttpStatus;
      record.http_status = 503;
    } else {
      record.input_tokens = record.planned_input_tokens;
      record.output_tokens = 100;
    }
    if (const auto one = SentOf(record)) sent.push_back(*one);
  }
  CHECK(sent.size() == 2);
  const ReuseFacts facts = Measure(0, sent);
  REQUIRE(facts.reusable.has_value());
  CHECK(*facts.reusable == Approx(164.0 / (64 + 228)));
  CHECK(facts.notes.empty());
}

TEST_CASE("the prompt after a refused request has its question, which no engine knows, and no answer",
          "[B4]") {
  auto sent = Sent(0, 100, 100);
  sent.erase(sent.begin() + 1);
  sent[1].planned_over_counted = 100;
  const ReuseFacts facts = Measure(0, sent);
  REQUIRE(facts.reusable.has_value());
  CHECK(*facts.reusable == Approx((64.0 + 100) / (64 + 292)));
}
