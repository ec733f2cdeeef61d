// Reuse without an engine: against a count over real tokens, against closed formulas, and against public
// traces.
#include "common/workload/reuse.h"

#include <catch2/catch.hpp>
#include <chrono>
#include <nlohmann/json.hpp>

#include "common/base/files.h"
#include "common/workload/inspect.h"
#include "common/workload/source.h"
#include "common/workload/synthetic.h"
#include "tests/support/shared_data.h"
#include "tests/support/temp_dir.h"

using namespace poolmark;
using namespace poolmark::workload;
using poolmark::test::TempDir;

namespace {

WorkloadSpec Spec(const std::string& text) {
  const auto spec = ParseWorkload(*ParseJson(text));
  INFO(spec.status().ToString());
  REQUIRE(spec.ok());
  return *spec;
}

// The definition of M6 taken literally, over tokens.
std::vector<int64_t> ByTokens(const Workload& workload, const std::vector<Arrival>& arrivals, uint32_t block,
                              bool live_answers) {
  std::vector<std::vector<uint32_t>> before;
  std::vector<int64_t> out;
  for (const Arrival& arrival : arrivals) {
    const Turn turn = workload.Open(arrival.session).turns[arrival.turn];
    const auto tokens = TokensIn(turn.prompt, {});
    size_t best = 0;
    for (const auto& other : before) {
      size_t same = 0;
      while (same < tokens.size() && same < other.size() && tokens[same] == other[same]) ++same;
      best = std::max(best, same);
    }
    Prompt held = turn.prompt;
    if (live_answers) held.push_back(turn.answer);
    before.push_back(TokensIn(held, {}));
    out.push_back(static_cast<int64_t>(best / block * block));
  }
  return out;
}

void CheckTokenByToken(const WorkloadSpec& spec, uint32_t block) {
  const auto workload = OpenWorkload(spec);
  REQUIRE(workload.ok());
  const auto arrivals = PlanArrivals(**workload, spec, false);
  ReuseOptions options;
  options.block_tokens = block;
  options.keep_each = true;
  options.live_answers = spec.live_answers;
  CHECK(Analyse(**workload, arrivals, options).reusable_of ==
        ByTokens(**workload, arrivals, block, spec.live_answers));
}

}  // namespace

TEST_CASE("the reusable share equals a literal count over all tokens", "[B2][D4]") {
  CheckTokenByToken(
      Spec(
          R"({"shape":"synthetic","sessions":7,"groups":3,"prefix":100,"turns":4,"input":23,"growth":11,"output":9,"concurrency":2})"),
      16);
  CheckTokenByToken(
      Spec(
          R"({"shape":"shared-prompt","sessions":5,"prefix":33,"history":50,"turns":3,"input":17,"output":5,"concurrency":5})"),
      16);
  CheckTokenByToken(
      Spec(
          R"({"shape":"synthetic","answers":"live","sessions":5,"groups":2,"prefix":33,"turns":4,"input":17,"growth":9,"output":25,"concurrency":3})"),
      8);
  TempDir dir;
  REQUIRE(AtomicWriteFile(dir / "t",
                          R"({"timestamp":0,"input_length":1030,"output_length":5,"hash_ids":[0,1,2]})"
                          "\n"
                          R"({"timestamp":0,"input_length":1020,"output_length":5,"hash_ids":[0,1]})"
                          "\n"
                          R"({"timestamp":5,"input_length":1300,"output_length":7,"hash_ids":[0,1,2]})"
                          "\n"
                          R"({"timestamp":9,"input_length":700,"output_length":7,"hash_ids":[0,9]})"
                          "\n")
              .ok());
  CheckTokenByToken(Spec(R"({"shape":"trace","format":"mooncake","file":")" + (dir / "t") + "\"}"), 16);
  CheckTokenByToken(
      Spec(R"({"shape":"trace","format":"mooncake","token_scale":"1/32","file":")" + (dir / "t") + "\"}"), 4);
}

TEST_CASE("the share of synthetic sessions follows from their settings", "[D3][B2]") {
  for (
      const char* text :
      {R"({"shape":"synthetic","sessions":40,"groups":4,"prefix":500,"turns":6,"input":70,"growth":30,"output":25,"concurrency":8})",
       R"({"shape":"synthetic","sessions":3,"groups":8,"prefix":500,"turns":2,"input":7,"growth":3,"output":2})",
       R"({"shape":"synthetic","sessions":30,"groups":5,"prefix":160,"turns":3,"input":64,"growth":16,"output":32,"rate":4})",
       R"({"shape":"shared-prompt","sessions":20,"prefix":1000,"history":200,"turns":4,"input":50,"output":20,"concurrency":3})",
       R"({"shape":"synthetic","answers":"live","sessions":10,"groups":2,"prefix":100,"turns":5,"input":40,"growth":20,"output":30})"}) {
    const auto spec = Spec(text);
    const auto workload = OpenWorkload(spec);
    for (uint32_t block : {1u, 16u, 64u}) {
      ReuseOptions options;
      options.block_tokens = block;
      options.live_answers = spec.live_answers;
      const auto arrivals = PlanArrivals(**workload, spec, false);
      Nanoseconds end{0};
      for (const Arrival& arrival : arrivals) end = std::max(end, arrival.end);
      CHECK(PlannedEnd(**workload, spec, std::chrono::milliseconds(200), std::chrono::milliseconds(20)) ==
            end);
      const auto reuse = Analyse(**workload, arrivals, options);
      CHECK(*reuse.share() == Approx(ExpectedReusableShare(spec, block)).epsilon(1e-12));
    }
  }
}

TEST_CASE("the curve ends at the reusable share and never falls", "[B2]") {
  for (const bool live : {false, true}) {
    auto spec = Spec(
        R"({"shape":"synthetic","sessions":60,"groups":6,"prefix":320,"turns":5,"input":64,"growth":32,"output":32,"concurrency":6})");
    spec.live_answers = live;
    const auto workload = OpenWorkload(spec);
    ReuseOptions options;
    options.live_answers = live;
    const auto reuse = Analyse(**workload, PlanArrivals(**workload, spec, false), options);
    double before = -1;
    for (const auto& [size, share] : reuse.curve) {
      CHECK(share >= before);
      before = share;
    }
    CHECK(reuse.curve.back().second == Approx(*reuse.share()));
    CHECK(reuse.curve.front().second == 0);
  }
}

TEST_CASE("a live answer fills the caches after its prompt, and the prompt that follows finds it", "[B2]") {
  // One session of three turns in blocks of 16: prompts of 4, 16 and 28 blocks, each 8 more with its answer,
  // so that the second finds 12 blocks and the third 24. Nothing else is sent between them.
  const auto spec = Spec(
      R"({"shape":"synthetic","answers":"live","sessions":1,"groups":1,"prefix":0,"turns":3,"input":64,"growth":64,"output":128})");
  const auto workload = OpenWorkload(spec);
  ReuseOptions options;
  options.live_answers = true;
  options.keep_each = true;
  const auto reuse = Analyse(**workload, PlanArrivals(**workload, spec, false), options);
  CHECK(reuse.reusable_of == std::vector<int64_t>{0, 12 * 16, 24 * 16});
  CHECK(*reuse.share() == Approx(36.0 / 48));
  // Everything that was ever held, the last answer too, is needed for none but the whole of it.
  CHECK(reuse.curve.back() == std::pair<double, double>(36 * 16, 36.0 / 48));
  CHECK(reuse.working_set_tokens == 36 * 16);
}

TEST_CASE("the curve of a window ends at its share: what came before fills the caches and does not count",
          "[B2][H3]") {
  const auto spec = Spec(
      R"({"shape":"synthetic","sessions":6,"groups":2,"prefix":320,"turns":3,"input":70,"growth":32,"output":32})");
  const auto workload = OpenWorkload(spec);
  auto arrivals = PlanArrivals(**workload, spec, false);
  for (size_t i = 0; i < arrivals.size() / 2; ++i) arrivals[i].counts = false;
  for (const uint32_t block : {8u, 16u, 64u}) {
    ReuseOptions options;
    options.block_tokens = block;
    const auto reuse = Analyse(**workload, arrivals, options);
    CHECK(reuse.requests == arrivals.size() - arrivals.size() / 2);
    CHECK(reuse.curve.back().second == Approx(*reuse.share()));
    CHECK(*reuse.share() > *reuse.share_lifetime());
  }
}

TEST_CASE("the working set counts shared prefixes once and grows with the users", "[D5][M8]") {
  // One turn each: prefix 100 shared, 20 own, 10 of the answer.
  const auto at = [](int users) {
    const auto spec = Spec(
        R"({"shape":"synthetic","sessions":50,"groups":1,"prefix":100,"turns":1,"input":20,"output":10,"concurrency":)" +
        std::to_string(users) + "}");
    const auto workload = OpenWorkload(spec);
    return Analyse(**workload, PlanArrivals(**workload, spec, false), {}).working_set_tokens;
  };
  CHECK(at(1) == 130);
  CHECK(at(4) == 100 + 4 * 30);
}

TEST_CASE("warm-up prompts are earlier prompts but do not count themselves", "[B2][H3]") {
  const auto spec =
      Spec(R"({"shape":"synthetic","sessions":2,"groups":1,"prefix":160,"turns":1,"input":16,"output":1})");
  const auto workload = OpenWorkload(spec);
  const std::vector<Arrival> arrivals = {{0, 0, Nanoseconds(0), Nanoseconds(1), false},
                                         {1, 0, Nanoseconds(5), Nanoseconds(6), true}};
  const auto reuse = Analyse(**workload, arrivals, {});
  CHECK(reuse.requests == 1);
  CHECK(*reuse.share() == Approx(160.0 / 176));
  CHECK(*reuse.share_lifetime() == Approx(160.0 / 352));
}

TEST_CASE("after a warm pass every prompt was sent before, and the working set is the load's own",
          "[B2][I6]") {
  const auto workload = OpenWorkload(Spec(
      R"({"shape":"synthetic","groups":2,"sessions":6,"prefix":100,"turns":2,"input":60,"output":10,"concurrency":2})"));
  REQUIRE(workload.ok());
  std::vector<Arrival> arrivals;
  for (uint64_t session = 0; session < 6; ++session) {
    for (uint32_t turn = 0; turn < 2; ++turn) {
      const auto at = std::chrono::seconds(2 * session + turn);
      arrivals.push_back({session, turn, at, at + std::chrono::milliseconds(500), true});
    }
  }
  ReuseOptions options;
  const Reuse cold = Analyse(**workload, arrivals, options);
  options.warm_pass = true;
  const Reuse warm = Analyse(**workload, arrivals, options);
  CHECK(warm.reusable_tokens_uncut == warm.prompt_tokens);
  CHECK(warm.prompt_tokens == cold.prompt_tokens);
  CHECK(warm.reusable_tokens > cold.reusable_tokens);
  CHECK(warm.working_set_tokens == cold.working_set_tokens);
  CHECK(warm.live_conversations == cold.live_conversations);
  CHECK(warm.lifetime_prompt_tokens == 2 * cold.lifetime_prompt_tokens);
  CHECK(warm.lifetime_reusable_tokens == cold.lifetime_reusable_tokens + warm.reusable_tokens);
}

TEST_CASE("public traces: the shares that their publishers' files give", "[D1][D4][B2][recorded]") {
  const auto share = [](const std::string& name) -> std::optional<double> {
    const auto shared = test::SharedData();
    if (!shared) return std::nullopt;
    const auto spec = ParseWorkload(*DetectWorkload(*shared + "/data/traces/" + name));
    REQUIRE(spec.ok());
    const auto out = Inspect(*spec, {}, {});
    INFO(out.status().ToString());
    REQUIRE(out.ok());
    return *out->reuse.share();
  };
  const auto conversation = share("mooncake_conversation_head.jsonl");
  if (!conversation) {
    return;
  }
  CHECK(*conversation == Approx(0.35669).margin(5e-6));
  CHECK(*share("mooncake_synthetic_full.jsonl") == Approx(0.65043).margin(5e-6));
  CHECK(*share("weka_agentic_slice.jsonl") == Approx(0.92364).margin(5e-6));
  CHECK(*share("azure_llm_2023_code.csv") == 0);
}

TEST_CASE("a turn that its session does not have is counted apart", "[B2][J6]") {
  const auto workload = OpenWorkload(Spec(
      R"({"shape":"synthetic","groups":1,"sessions":2,"prefix":100,"turns":2,"input":60,"output":10,"concurrency":1})"));
  REQUIRE(workload.ok());
  const auto at = [](int seconds) { return Nanoseconds(std::chrono::seconds(seconds)); };
  const std::vector<Arrival> known = {{0, 0, at(0), at(1), true}, {0, 1, at(1), at(2), true}};
  std::vector<Arrival> with = known;
  with.push_back({0, 100'000'000, at(3), at(4), true});
  for (const bool warm : {false, true}) {
    ReuseOptions options;
    options.keep_each = true;
    options.warm_pass = warm;
    const Reuse whole = Analyse(**workload, known, options), odd = Analyse(**workload, with, options);
    CHECK(whole.unknown_turns == 0);
    CHECK(odd.unknown_turns == 1);
    CHECK(odd.prompt_tokens == whole.prompt_tokens);
    CHECK(odd.reusable_tokens == whole.reusable_tokens);
    CHECK(odd.reusable_of.size() == 3);
  }
}
