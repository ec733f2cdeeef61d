// The tokens around the words: where they stand follows from the planned lengths alone.
#include "common/workload/sent_template.h"

#include <malloc.h>

#include <catch2/catch.hpp>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

#include "common/base/json.h"
#include "common/workload/measure.h"
#include "common/workload/source.h"

using namespace poolmark;
using namespace poolmark::workload;

namespace {

// Prompts of 20 + 10 words (system and user), of which 20 are of all sessions; each turn brings 8 of an
// answer and 10 of a question.
WorkloadSpec ChatSpec(int turns, const char* more) {
  return *ParseWorkload(*ParseJson(
      R"({"shape":"synthetic","sessions":3,"prefix":20,"input":10,"growth":10,"output":8,"turns":)" +
      std::to_string(turns) + more + "}"));
}

// As a tokenizer counts a template of `begin` tokens and `head` and `tail` around each message, of which the
// answer's head ends the prompt.
std::vector<SentRequest> Sent(int turns, int64_t begin, int64_t head, int64_t tail) {
  std::vector<SentRequest> out;
  for (uint64_t session = 0; session < 3; ++session) {
    for (int turn = 0; turn < turns; ++turn) {
      const double at = 10.0 * static_cast<double>(session) + turn;
      SentRequest request{session, static_cast<uint32_t>(turn), at, at + 0.5, false};
      const int64_t messages = 2 + 2 * turn;
      request.planned_input_tokens = 30 + 18 * turn + begin + messages * (head + tail) + head;
      out.push_back(request);
    }
  }
  return out;
}

Template Of(const WorkloadSpec& spec, const std::vector<SentRequest>& sent) {
  return TemplateOf(**OpenWorkload(spec), spec, sent);
}

}  // namespace

TEST_CASE("conversations of several lengths tell where a chat template's tokens stand", "[B2]") {
  const auto spec = ChatSpec(3, R"(,"api":"chat")");
  CHECK(Of(spec, Sent(3, 1, 4, 1)) == Template{5, 5, true});
  CHECK(Of(spec, Sent(3, 0, 3, 2)) == Template{3, 5, true});
  CHECK(Of(spec, Sent(3, 0, 0, 0)) == Template{});
  // Of one length only the sum is known: 4 + 2 x 4 tokens here, taken as three equal parts.
  CHECK(Of(ChatSpec(1, R"(,"api":"chat")"), Sent(1, 1, 3, 1)) == Template{4, 4, false});
}

TEST_CASE("what begins every text stands before the first word; token ids have nothing around them", "[B2]") {
  auto sent = Sent(2, 0, 0, 0);
  for (SentRequest& request : sent) request.planned_input_tokens += 1;
  CHECK(Of(ChatSpec(2, R"(,"prompt":"text")"), sent) == Template{1, 0, true});
  CHECK(Of(ChatSpec(2, ""), sent) == Template{});
}

TEST_CASE("lengths that fit no template put nothing around the words", "[B2][J6]") {
  const auto spec = ChatSpec(3, R"(,"api":"chat")");
  for (const int64_t odd : {INT64_MIN, INT64_MAX, int64_t{-1}, int64_t{31}, int64_t{500'000}}) {
    auto sent = Sent(3, 1, 4, 1);
    sent[4].planned_input_tokens = odd;
    CHECK(Of(spec, sent) == Template{});
  }
  auto sent = Sent(3, 1, 4, 1);
  for (SentRequest& request : sent) {
    if (request.turn == 1) request.planned_input_tokens += 1;  // not the same for each message
  }
  CHECK(Of(spec, sent) == Template{});
}

TEST_CASE("reuse is counted with the tokens around the words", "[B2][B4]") {
  const auto spec = ChatSpec(2, R"(,"api":"chat")");
  const auto workload = OpenWorkload(spec);
  // 5 before 20, 5 between, 10, 5 after: 45; then 8, 5, 10 and 5 more: 73.
  const auto all = MeasureReuse(**workload, spec, Sent(2, 1, 4, 1), 0, 100, 1);
  CHECK(all.reuse.prompt_tokens == 3 * (45 + 73));
  // Of each session the second prompt shares all of the first with the opening of the answer; the first
  // prompts of the later sessions share the prefix and the opening of the question.
  CHECK(all.reuse.reusable_tokens == 3 * 45 + 2 * 30);
  CHECK(all.reuse.working_set_tokens == 73 + 8);
  const auto blocks = MeasureReuse(**workload, spec, Sent(2, 1, 4, 1), 0, 100, 15);
  CHECK(blocks.reuse.reusable_tokens == 3 * 45 + 2 * 30);
  CHECK(blocks.reuse.curve.back().second == Approx((3 * 45 + 2 * 30.0) / (3 * (45 + 73))));
}

TEST_CASE("an answer of which nothing is left is a message still, with the template's tokens", "[B2][B4]") {
  const auto spec = ChatSpec(2, R"(,"api":"chat","answers":"live")");
  auto sent = Sent(2, 1, 4, 1);
  for (SentRequest& request : sent) {
    request.planned_over_counted = request.turn * 8;  // of reasoning, all of the answer
    request.output_tokens = 8;
    request.reasoned = true;
  }
  const auto all = MeasureReuse(**OpenWorkload(spec), spec, sent, 0, 100, 1);
  CHECK(all.reuse.prompt_tokens == 3 * (45 + 65));
  CHECK(all.reuse.reusable_tokens == 3 * 45 + 2 * 30);
}

namespace {

// Sessions of one turn with a prompt of 1.6 MB; how much more memory is held when the last one is opened than
// at the first.
class Large final : public Workload {
 public:
  uint64_t sessions() const override { return 200; }
  Script Open(uint64_t number) const override {
    const auto info = mallinfo2();
    const size_t held = info.uordblks + info.hblkhd;
    if (!first_) first_ = held;
    more_ = held > *first_ ? held - *first_ : 0;
    Script script;
    Turn& turn = script.turns.emplace_back();
    for (uint64_t i = 0; i < 100'000; ++i) turn.prompt.push_back({MixKey(number, i), 1, Role::kUser});
    return script;
  }
  size_t more() const { return more_; }

 private:
  mutable std::optional<size_t> first_;
  mutable size_t more_ = 0;
};

}  // namespace

TEST_CASE("the template is found without holding the sessions' prompts", "[B2]") {
  const Large workload;
  std::vector<SentRequest> sent;
  for (uint64_t session = 0; session < workload.sessions(); ++session) {
    SentRequest request{session, 0, static_cast<double>(session), 0, false};
    request.planned_input_tokens = 100'000 + 10;
    sent.push_back(request);
  }
  CHECK(TemplateOf(workload, ChatSpec(1, R"(,"api":"chat")"), sent) == Template{5, 5, false});
  CHECK(workload.more() < 20'000'000);  // all of them: 320 MB
}
