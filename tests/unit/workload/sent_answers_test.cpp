// Live answers as they were sent: their lengths from the engine's counts, and what is reusable of them.
#include "common/workload/sent_answers.h"

#include <catch2/catch.hpp>
#include <cstdint>
#include <nlohmann/json.hpp>

#include "common/base/json.h"
#include "common/workload/measure.h"
#include "common/workload/source.h"
#include "common/workload/synthetic.h"

using namespace poolmark;
using namespace poolmark::workload;

namespace {

// Two sessions of three turns that share nothing: prompts of 64, 288 and 512 tokens, answers of 160.
const WorkloadSpec& LiveSpec() {
  static const WorkloadSpec spec = *ParseWorkload(*ParseJson(
      R"({"shape":"synthetic","answers":"live","sessions":2,"groups":2,"prefix":0,"turns":3,"input":64,"growth":64,"output":160})"));
  return spec;
}

// Every answer had `written` tokens, and `in_prompt` of them were in the prompts that followed. `base`: what
// the engine counted more in every prompt than was planned.
std::vector<SentRequest> SentBefore(int64_t written, int64_t in_prompt, int64_t base = 0) {
  std::vector<SentRequest> out;
  for (uint64_t session = 0; session < 2; ++session) {
    for (uint32_t turn = 0; turn < 3; ++turn) {
      const double at = 10.0 * static_cast<double>(session) + turn;
      SentRequest request{session, turn, at, at + 0.5, false};
      request.planned_over_counted = turn * (160 - in_prompt) - base;
      request.output_tokens = written;
      out.push_back(request);
    }
  }
  return out;
}

SentReuse Measure(std::vector<SentRequest> sent) {
  return MeasureReuse(**OpenWorkload(LiveSpec()), LiveSpec(), std::move(sent), 0, 100, 1);
}

// Of both sessions; prompts of 64, 128 + a and 192 + 2a tokens with answers of `a` in them.
double Share(int64_t in_prompt, int64_t of_answer) {
  const double reused = static_cast<double>(64 + 128 + in_prompt + 2 * of_answer);
  return reused / static_cast<double>(64 + 128 + 192 + 3 * in_prompt);
}

}  // namespace

TEST_CASE("live answers as long as planned leave the share as planned", "[B2]") {
  const auto sent = Measure(SentBefore(160, 160));
  CHECK(sent.reuse.prompt_tokens == 2 * (64 + 288 + 512));
  CHECK(*sent.reuse.share() == Approx(Share(160, 160)));
  CHECK(*sent.reuse.share() == Approx(ExpectedReusableShare(LiveSpec(), 1)));
  CHECK(sent.answers->answers == 4);
  CHECK(sent.answers->counted == 4);
  CHECK(sent.answers->doubtful == 0);
  CHECK(sent.answers->planned_over_counted == 0);
  CHECK_FALSE(sent.least);
}

TEST_CASE("an engine that ends its answers early has shorter prompts, and all of them were there before",
          "[B2]") {
  for (const int64_t base : {0, 3}) {
    const auto sent = Measure(SentBefore(60, 60, base));
    CHECK(sent.reuse.prompt_tokens == 2 * (64 + 188 + 312));
    CHECK(sent.reuse.output_tokens == 6 * 60);
    CHECK(*sent.reuse.share() == Approx(Share(60, 60)));
    CHECK(sent.reuse.curve.back().second == Approx(Share(60, 60)));
    CHECK(sent.reuse.working_set_tokens == 312 + 60);
    CHECK(sent.answers->doubtful == 0);
    CHECK(sent.answers->planned_over_counted == 2 * (100 + 200));
  }
  // The token that ends a text is in no prompt.
  auto ended = SentBefore(61, 60);
  for (SentRequest& request : ended) request.stopped = true;
  CHECK(*Measure(ended).reuse.share() == Approx(Share(60, 60)));
  CHECK(Measure(ended).answers->doubtful == 0);
}

TEST_CASE("an answer without its reasoning is new to the cache", "[B2]") {
  auto requests = SentBefore(160, 60);
  for (SentRequest& request : requests) request.reasoned = true;
  const auto sent = Measure(requests);
  CHECK(sent.reuse.prompt_tokens == 2 * (64 + 188 + 312));
  CHECK(*sent.reuse.share() == Approx(Share(60, 0)));
  CHECK(sent.reuse.curve.back().second == Approx(Share(60, 0)));
  CHECK(sent.answers->without_reasoning == 4);
  CHECK(sent.answers->doubtful == 0);
}

TEST_CASE("an answer of another length than was written leaves a range", "[B2]") {
  const auto sent = Measure(SentBefore(160, 158));
  CHECK(sent.answers->doubtful == 4);
  CHECK(*sent.reuse.share() == Approx(Share(158, 158)));
  REQUIRE(sent.least);
  CHECK(*sent.least->share() == Approx(Share(158, 0)));
}

TEST_CASE("answers that nobody counted are doubtful, and no record makes a length that is none", "[B2][J6]") {
  auto requests = SentBefore(160, 160);
  for (SentRequest& request : requests) request.planned_over_counted = request.output_tokens = std::nullopt;
  auto sent = Measure(requests);
  CHECK(sent.answers->answers == 4);
  CHECK(sent.answers->counted == 0);
  CHECK(sent.answers->doubtful == 4);
  for (const int64_t odd : {INT64_MIN, INT64_MAX, int64_t{-5}}) {
    requests = SentBefore(160, 160);
    requests[1].planned_over_counted = odd;
    requests[2].output_tokens = odd;
    requests[3].turn = 7'000'000;  // of no such turn
    sent = Measure(requests);
    CHECK(sent.reuse.unknown_turns == 1);
    CHECK(sent.reuse.prompt_tokens > 0);
    CHECK(sent.reuse.prompt_tokens < 4000);  // however many tokens the records claim
    CHECK(sent.answers->doubtful > 0);
  }
}
