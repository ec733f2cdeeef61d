// What the answer-quality benchmark meets: arms that answer alike, a blend arm that reuses moved chunks and
// spoils a share of its answers, store requests that fail, a judge.
#include <catch2/catch.hpp>

#include "agent/sim/tokenizer.h"
#include "common/base/files.h"
#include "tests/component/sim/sim_process.h"
#include "tests/support/temp_dir.h"

using namespace poolmark;
using namespace poolmark::test;

namespace {

constexpr int kQuestions = 20;
constexpr size_t kChunk = 16;

// `text`, filled up with dots to whole chunks; `before` tokens stand in front of it.
std::string Padded(std::string text, size_t before) {
  std::vector<sim::Token> tokens;
  sim::Encode(text, &tokens);
  for (size_t n = before + tokens.size(); n % kChunk != 0; ++n) text += " .";
  return text;
}

std::string System() {
  return Padded("Answer from the passages.", 2);
}  // behind <begin> and <user>

std::string Passage(int i) {
  std::string n = std::to_string(i);
  return Padded("\nPassage " + n + ": Town" + n + " lies in the hills. The River" + n + " passes it.", 0);
}

std::string Escaped(const std::string& text) {
  std::string out;
  for (char c : text) out += c == '\n' ? std::string("\\n") : std::string(1, c);
  return out;
}

std::string Chat(const std::string& content, int max_tokens) {
  return R"({"messages":[{"role":"user","content":")" + Escaped(content) + R"("}],"max_tokens":)" +
         std::to_string(max_tokens) + "}";
}

std::string Dataset() {
  std::string text = "[";
  for (int i = 0; i < kQuestions; ++i) {
    std::string n = std::to_string(i);
    text += (i == 0 ? "" : ",") + std::string(R"({"question":"Which river passes Town)") + n +
            R"(?","answer":"River)" + n + R"(","context":[["","Town)" + n + " lies in the hills. The River" +
            n + R"( passes it."]]})";
  }
  return text + "]";
}

std::string Ask(Sim* sim, int i) {
  std::string content = System() + Passage((i + 1) % kQuestions) + Passage(i) +
                        "\nQuestion: Which river passes Town" + std::to_string(i) + "?";
  return TextAt(sim->Post("/v1/chat/completions", Chat(content, 200)).body, "choices/0/message/content");
}

std::vector<std::string> AnsweringEngine(const std::string& dataset, std::vector<std::string> more = {}) {
  std::vector<std::string> all = {"engine",  "--decode-step", "100us", "--prefill-rate",
                                  "1000000", "--answers",     dataset};
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

}  // namespace

TEST_CASE("the reference arm answers all, the blend arm spoils the share that it was told to", "[live]") {
  TempDir dir;
  REQUIRE(AtomicWriteFile(dir / "data.json", Dataset()).ok());
  Sim reference(AnsweringEngine(dir / "data.json"));
  Sim candidate(AnsweringEngine(dir / "data.json",
                                {"--blend-chunk", "16", "--spoil-share", "0.5", "--spoil-kinds", "wording"}));
  CHECK_FALSE(Has(candidate.Get("/metrics").body, "lmcache_blend"));  // absent until the first lookup
  for (int i = 0; i < kQuestions; ++i) {
    REQUIRE(candidate.Post("/v1/chat/completions", Chat(System() + Passage(i), 1)).status == 200);
  }
  CHECK(candidate.Metric("lmcache_blend_fingerprints_registered_total") > kQuestions);
  CHECK(candidate.Metric("lmcache_blend_lookup_non_prefix_hit_tokens_total") == 0);
  int right = 0, lost = 0;
  for (int i = 0; i < kQuestions; ++i) {
    std::string gold = "<answer>River" + std::to_string(i) + "</answer>";
    right += Has(Ask(&reference, i), gold);
    lost += !Has(Ask(&candidate, i), gold);
  }
  CHECK(right == kQuestions);
  CHECK(lost >= 4);
  CHECK(lost <= 16);
  int64_t requested = candidate.Metric("lmcache_blend_lookup_requested_tokens_total");
  int64_t prefix = candidate.Metric("lmcache_blend_lookup_prefix_hit_tokens_total");
  int64_t moved = candidate.Metric("lmcache_blend_lookup_non_prefix_hit_tokens_total");
  CHECK(moved > 0);
  CHECK(prefix + moved <= requested);
  CHECK(candidate.Metric("lmcache_blend_lookup_hit_tokens_total") ==
        prefix + moved + candidate.Metric("lmcache_blend_lookup_segmented_prefix_hit_tokens_total"));
  CHECK(candidate.Metric("lmcache_blend_lookup_stale_chunks_total") == 0);
  CHECK(candidate.Metric("vllm:prompt_tokens_by_source_total") ==
        candidate.Metric("vllm:prompt_tokens_total"));
}

TEST_CASE("stale chunks are counted and not reused", "[live]") {
  TempDir dir;
  REQUIRE(AtomicWriteFile(dir / "data.json", Dataset()).ok());
  Sim sim(AnsweringEngine(dir / "data.json", {"--blend-chunk", "16", "--blend-stale-share", "1"}));
  for (int i = 0; i < 3; ++i) sim.Post("/v1/chat/completions", Chat(System() + Passage(i), 1));
  CHECK(Has(Ask(&sim, 1), "River1"));
  CHECK(sim.Metric("lmcache_blend_lookup_stale_chunks_total") > 0);
  CHECK(sim.Metric("lmcache_blend_lookup_hit_tokens_total") == 0);
}

TEST_CASE("store requests can fail while the measured ones go through", "[live]") {
  TempDir dir;
  REQUIRE(AtomicWriteFile(dir / "data.json", Dataset()).ok());
  Sim sim(AnsweringEngine(dir / "data.json", {"--fault", "error-before:only=store,status=500"}));
  CHECK(sim.Post("/v1/chat/completions", Chat(System() + Passage(1), 1)).status == 500);
  CHECK(Has(Ask(&sim, 1), "<answer>River1</answer>"));
}

TEST_CASE("a judge gives ratings", "[live]") {
  Sim sim({"engine", "--judge", "--decode-step", "100us"});
  std::string prompt =
      "### Question: Capital?\n### User Answer: Paris\n### Reference Answer: Paris\n\nThe rating is:\n";
  CHECK(TextAt(sim.Post("/v1/chat/completions", Chat(prompt, 20)).body, "choices/0/message/content") == "4");
}
