// Exact lengths of text prompts by a tokenizer's word (M23).
#include "common/workload/tokens.h"

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "common/base/json.h"
#include "common/workload/source.h"

using namespace poolmark;
using namespace poolmark::workload;

namespace {

// A tokenizer of pieces: a word of more than `longest` letters is two tokens; every text has `begin` tokens
// more, every message `message`, every chat `chat`, and one that brings no system message `default_system`,
// as Qwen's templates have it.
class Pieces final : public TokenCounter {
 public:
  size_t longest = 6;
  int64_t begin = 0, message = 4, chat = 3, default_system = 0;
  bool refuses_system = false;  // as Gemma's template does
  Result<int64_t> CountText(std::string_view text) override { return begin + Words(text); }
  Result<int64_t> CountChat(const std::vector<std::pair<std::string, std::string>>& messages) override {
    const bool system = !messages.empty() && messages.front().first == "system";
    if (system && refuses_system) return Precondition("tokenize", "system role not supported", "");
    int64_t total = chat + (system ? 0 : default_system);
    for (const auto& [role, content] : messages) total += message + Words(content);
    return total;
  }

 private:
  int64_t Words(std::string_view text) const {
    int64_t total = 0;
    while (!text.empty()) {
      const size_t end = std::min(text.find(' '), text.size());
      if (end > 0) total += end > longest ? 2 : 1;
      text.remove_prefix(std::min(end + 1, text.size()));
    }
    return total;
  }
};

// Counts what a rendered request holds.
int64_t Count(Pieces& counter, const std::string& body) {
  const Json json = *ParseJson(body);
  if (json.contains("prompt")) return *counter.CountText(json["prompt"].get<std::string>());
  std::vector<std::pair<std::string, std::string>> messages;
  for (const Json& one : json["messages"]) messages.emplace_back(one["role"], one["content"]);
  return *counter.CountChat(messages);
}

}  // namespace

TEST_CASE("text and chat prompts have exactly the planned tokens by the engine's tokenizer", "[M23]") {
  for (const size_t longest : {3u, 5u, 9u}) {
    for (const bool chat : {false, true}) {
      Pieces counter;
      counter.longest = longest;
      counter.begin = longest == 5 ? 1 : 0;
      counter.default_system = longest == 9 ? 20 : 0;
      std::vector<std::string> notes;
      auto source = OpenSource(Json{{"shape", "shared-prompt"},
                                    {"prompt", "text"},
                                    {"api", chat ? "chat" : "completions"},
                                    {"sessions", 3},
                                    {"prefix", 30},
                                    {"history", 20},
                                    {"turns", 3},
                                    {"input", 12},
                                    {"output", 7}},
                               &counter, &notes);
      INFO(source.status().ToString());
      REQUIRE(source.ok());
      CHECK(notes.empty());
      for (uint64_t s = 0; s < 3; ++s) {
        const auto session = (*source)->Open(s);
        for (size_t t = 0; t < 3; ++t) {
          std::string body;
          session->Render(t, &body);
          CHECK(Count(counter, body) == session->turn(t).input_tokens);
        }
      }
    }
  }
}

TEST_CASE("a template without system messages is refused only where the workload has one", "[M23]") {
  Pieces counter;
  counter.refuses_system = true;
  Json spec = {{"shape", "synthetic"}, {"api", "chat"}, {"prompt", "text"},
               {"input", 5},           {"output", 1},   {"prefix", 16}};
  const auto refused = OpenSource(spec, &counter, nullptr);
  CHECK_THAT(std::string(refused.status().message()),
             Catch::Contains("takes no system message") && Catch::Contains("system role not supported"));
  spec["prefix"] = 0;
  CHECK(OpenSource(spec, &counter, nullptr).ok());
}

TEST_CASE("without a tokenizer the lengths are approximate and a note says so", "[M23]") {
  std::vector<std::string> notes;
  REQUIRE(
      OpenSource(Json{{"shape", "synthetic"}, {"api", "chat"}, {"input", 5}, {"output", 1}}, nullptr, &notes)
          .ok());
  REQUIRE(notes.size() == 1);
  CHECK_THAT(notes[0], Catch::Contains("approximate"));
}

TEST_CASE("a tokenizer of letters has too few words, and the refusal says what to do", "[M23]") {
  Pieces counter;
  counter.longest = 1;
  const auto text = CalibrateWords(&counter, false, false);
  CHECK_THAT(std::string(text.status().message()), Catch::Contains("prompt: ids"));
}

TEST_CASE("tokenize endpoints of vLLM and of llama.cpp are told apart by their answers", "[M23]") {
  std::string path, body;
  const auto answer = [&](std::string reply) {
    return [&path, &body, reply](const std::string& p, const std::string& b) -> Result<std::string> {
      path = p;
      body = b;
      return reply;
    };
  };
  CHECK(*EngineCounter(answer(R"({"count":7,"max_model_len":100,"tokens":[1,2,3,4,5,6,7]})"), "m")
             ->CountText("a b") == 7);
  CHECK(path == "/tokenize");
  // As the engine reads a completion's prompt: with its beginning-of-text token.
  CHECK((*ParseJson(body))["add_special_tokens"] == true);
  CHECK((*ParseJson(body))["add_special"] == true);
  CHECK(*EngineCounter(answer(R"({"tokens":[1,2,3]})"), "m")->CountText("a b") == 3);
  CHECK_FALSE(EngineCounter(answer(R"({"error":"no"})"), "m")->CountText("a").ok());
  CHECK_FALSE(EngineCounter(answer("<html>"), "m")->CountText("a").ok());
  // Counts that no text has would overflow what is computed from them.
  for (const char* count : {"1000000001", "9223372036854775807", "18446744073709551615"}) {
    const auto refused =
        EngineCounter(answer(std::string(R"({"count":)") + count + "}"), "m")->CountText("a");
    CHECK_THAT(std::string(refused.status().message()), Catch::Contains(count));
  }
}

TEST_CASE("live answers take the engine's own text into the next prompt", "[D3]") {
  auto source = OpenSource(Json{{"shape", "synthetic"},
                                {"answers", "live"},
                                {"api", "chat"},
                                {"turns", 2},
                                {"input", 5},
                                {"growth", 3},
                                {"output", 4}});
  REQUIRE(source.ok());
  const auto session = (*source)->Open(0);
  REQUIRE(session->wants_answers());
  session->TakeAnswer(0, "he said \"no\"\nand left");
  std::string body;
  session->Render(1, &body);
  const Json json = *ParseJson(body);
  REQUIRE(json["messages"].size() == 3);
  CHECK(json["messages"][1]["role"] == "assistant");
  CHECK(json["messages"][1]["content"] == "he said \"no\"\nand left");
}
