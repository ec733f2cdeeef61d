#include "common/http/openai.h"

#include <catch2/catch.hpp>

#include "common/base/files.h"
#include "common/base/random.h"
#include "common/http/response_parser.h"
#include "common/http/sse.h"
#include "tests/support/shared_data.h"

namespace poolmark::http {
namespace {

std::string Choice(const std::string& delta, const std::string& finish = "null") {
  return R"({"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":)" +
         delta + R"(,"logprobs":null,"finish_reason":)" + finish + "}]}";
}

// Reads with both readers and insists that they agree.
Chunk Read(const std::string& data, std::string* text = nullptr) {
  std::string tree_text;
  const Chunk tree = ReadChunkWithTree(data, &tree_text);
  std::string scan_text;
  if (const auto scanned = ScanChunk(data, &scan_text)) {
    INFO(data);
    CHECK(*scanned == tree);
    CHECK(scan_text == tree_text);
  } else {
    CHECK(scan_text.empty());
  }
  if (text != nullptr) *text = tree_text;
  return tree;
}

}  // namespace

TEST_CASE("what is output, what is an answer and what is neither") {
  struct Case {
    std::string data;
    bool output, answer;
  };
  for (
      const Case& c : std::vector<Case>{
          {Choice(R"({"role":"assistant","content":""})"), false, false},
          {Choice(R"({"role":"assistant","content":null})"), false, false},
          {Choice(R"({"role":"assistant"})"), false, false},
          {Choice(R"({})", "\"stop\""), false, false},
          {Choice(R"({"content":" the"})"), true, true},
          {Choice(R"({"content":" "})"), true, true},
          {Choice(R"({"content":"\n"})"), true, true},
          {Choice(R"({"reasoning_content":"hm"})"), true, false},
          {Choice(R"({"reasoning":"hm"})"), true, false},
          {Choice(R"({"reasoning_content":"","content":null})"), false, false},
          {Choice(R"({"refusal":"no"})"), true, true},
          {Choice(
               R"({"tool_calls":[{"index":0,"id":"x","type":"function","function":{"name":"f","arguments":""}}]})"),
           true, true},
          {Choice(R"({"tool_calls":[{"index":0,"function":{"arguments":"{\"a\""}}]})"), true, true},
          {Choice(R"({"tool_calls":[{"index":0,"function":{"arguments":""}}]})"), false, false},
          {Choice(R"({"tool_calls":[]})"), false, false},
          {Choice(R"({"function_call":{"name":"f"}})"), true, true},
          {R"({"choices":[{"index":0,"text":"x"}]})", true, true},
          {R"({"choices":[{"index":0,"text":""}]})", false, false},
          {R"({"choices":[{"index":0,"delta":{}},{"index":1,"delta":{"content":"b"}}]})", true, true},
          {R"({"choices":[],"usage":{"prompt_tokens":3,"completion_tokens":2}})", false, false},
          {R"({"choices":null})", false, false},
          {R"({})", false, false},
      }) {
    INFO(c.data);
    const Chunk chunk = Read(c.data);
    CHECK(chunk.kind == Chunk::Kind::kData);
    CHECK(chunk.output == c.output);
    CHECK(chunk.answer == c.answer);
    CHECK(ScanChunk(c.data, nullptr).has_value());
  }
}

TEST_CASE("usage, finish reasons, token ids and text are found") {
  const Chunk usage = Read(
      R"({"choices":[],"usage":{"prompt_tokens":30,"completion_tokens":16,"total_tokens":46,"prompt_tokens_details":{"cached_tokens":12}}})");
  CHECK(usage.prompt_tokens == 30);
  CHECK(usage.completion_tokens == 16);
  CHECK(usage.cached_tokens == 12);
  CHECK_FALSE(Read(R"({"usage":null})").prompt_tokens.has_value());
  CHECK_FALSE(Read(R"({"usage":{"prompt_tokens":-1}})").prompt_tokens.has_value());
  CHECK_FALSE(Read(R"({"usage":{"prompt_tokens":1.5}})").prompt_tokens.has_value());
  CHECK_FALSE(Read(R"({"usage":{"prompt_tokens":"7"}})").prompt_tokens.has_value());
  CHECK(Read(Choice("{}", "\"length\"")).finish_reason == "length");
  CHECK(Read(Choice("{}", R"({"type":"length","length":16})")).finish_reason == "length");
  CHECK_FALSE(Read(Choice("{}", R"({"message":"length"})")).finished);
  CHECK(Read(R"({"choices":[{"text":"ab","token_ids":[1,2,3]}]})").token_ids == 3);
  std::string text;
  Read(Choice(R"({"content":"a\u00e9\ud83d\ude00\n\"\\\/z"})"), &text);
  CHECK(text == "a\xc3\xa9\xf0\x9f\x98\x80\n\"\\/z");
}

TEST_CASE("a count beyond all bounds is none, alike by both readers") {
  for (const std::string count : {"1000000001", "9223372036854775807", "9223372036854775808",
                                  "18446744073709551616", "1000000001.0", "1e300"}) {
    for (const std::string key : {"prompt_tokens", "completion_tokens"}) {
      INFO(count);
      const Chunk chunk = Read(R"({"choices":[],"usage":{"total_tokens":1,")" + key + "\":" + count + "}}");
      CHECK(chunk.kind == Chunk::Kind::kData);
      CHECK(chunk.absurd_count);
      CHECK_FALSE(chunk.prompt_tokens.has_value());
      CHECK_FALSE(chunk.completion_tokens.has_value());
    }
    CHECK(Read(R"({"usage":{"prompt_tokens_details":{"cached_tokens":)" + count + "}}}").absurd_count);
  }
  const Chunk most = Read(R"({"usage":{"prompt_tokens":1000000000,"completion_tokens":1e9}})");
  CHECK(most.prompt_tokens == 1'000'000'000);
  CHECK(most.completion_tokens == 1'000'000'000);
  CHECK_FALSE(most.absurd_count);
  // The scanner still reads the largest count itself, and the reader of a stream agrees with both.
  CHECK(ScanChunk(R"({"usage":{"prompt_tokens":1000000000}})", nullptr).has_value());
  ChunkReader reader;
  const std::string event = R"({"choices":[{"text":"x"}],"usage":{"completion_tokens":1000000001}})";
  for (int i = 0; i < 3; ++i) CHECK(reader.Read(event) == ReadChunkWithTree(event));
}

TEST_CASE("what is only unusual in an event is repaired, alike by both readers") {
  // An engine that cuts an emoji between two tokens; Python's json.dumps of such text and of an infinite
  // float.
  for (const std::string data :
       {R"({"choices":[{"delta":{"content":"a\ud83d"}}]})", R"({"choices":[{"delta":{"content":"\ude00"}}]})",
        "{\"choices\":[{\"delta\":{\"content\":\"a\xf0\x9f\"}}]}",
        R"({"choices":[{"delta":{"content":"b"},"logprobs":{"content":[{"logprob":-Infinity,"top":NaN}]}}]})",
        R"({"choices":[{"delta":{"content":"NaN \" Infinity"},"x":NaN}]})"}) {
    INFO(data);
    const Chunk chunk = Read(data);
    CHECK(chunk.kind == Chunk::Kind::kData);
    CHECK(chunk.answer);
  }
  std::string text;
  Read(R"({"choices":[{"delta":{"content":"NaN \" -Infinity"},"x":-Infinity}]})", &text);
  CHECK(text == "NaN \" -Infinity");
  Read(R"({"choices":[{"delta":{"content":"a\ud83d"}}]})", &text);
  CHECK(text == "a\xef\xbf\xbd");
  // Counts as floats, where they are whole.
  CHECK(Read(R"({"choices":[],"usage":{"completion_tokens":3.0}})").completion_tokens == 3);
  CHECK_FALSE(Read(R"({"choices":[],"usage":{"completion_tokens":-3.0}})").completion_tokens.has_value());
  CHECK_FALSE(Read(R"({"choices":[],"usage":{"completion_tokens":1e300}})").completion_tokens.has_value());
}

TEST_CASE("errors inside a stream are errors in each form engines use") {
  CHECK(Read(R"({"error":{"message":"engine died","type":"InternalServerError","code":500}})").error ==
        "engine died (InternalServerError)");
  CHECK(Read(R"({"error":"plain text"})").error == "plain text");
  CHECK(Read(R"({"object":"error","message":"too long","type":"BadRequestError","code":400})").error ==
        "too long (BadRequestError)");
  CHECK(Read(R"({"error":{}})").kind == Chunk::Kind::kError);
  CHECK(Read(R"({"error":null,"choices":[]})").kind == Chunk::Kind::kData);
  for (const std::string nothing : {"{}", "\"\"", "false", "[]"}) {
    const Chunk chunk = Read(R"({"error":)" + nothing + R"(,"choices":[{"delta":{"content":"x"}}]})");
    CHECK(chunk.kind == Chunk::Kind::kData);
    CHECK(chunk.answer);
  }
  CHECK(Read(R"({"detail":"boom"})").error == "boom");
  CHECK(Read(R"({"detail":[{"msg":"field required"}]})").kind == Chunk::Kind::kError);
  CHECK(Read(R"({"detail":"","choices":[]})").kind == Chunk::Kind::kData);
  CHECK(Read("[DONE]").kind == Chunk::Kind::kDone);
  for (const std::string data : {
           "",
           "x",
           "[]",
           "null",
           "{",
           R"({"a":tru})",
           R"({"a":1}x)",
           "{\"a\":\"\x01\"}",
           R"({"a":01})",
           R"({"a":1,})",
           R"({a:1})",
       }) {
    INFO(data);
    CHECK(Read(data).kind == Chunk::Kind::kMalformed);
  }
}

TEST_CASE("the one-pass reader equals the tree on mutated documents") {
  const std::vector<std::string> seeds = {
      Choice(R"({"content":"a\u00e9\ud83d\ude00 \u2028"})"),
      Choice(R"({"tool_calls":[{"index":0,"function":{"name":"f","arguments":"{}"}}],"reasoning":"x"})",
             "\"stop\""),
      R"({"error":null,"object":"text_completion","choices":[{"text":"x","token_ids":[1]}],"usage":{"prompt_tokens":3,"completion_tokens":2,"prompt_tokens_details":{"cached_tokens":1}}})",
      "{\"choices\":[{\"delta\":{\"content\":\"\xe4\xbd\xa0\xe5\xa5\xbd\"}}]}"};
  const std::string alphabet = "{}[]\":,\\u0019eE.-+ntfals \xe2\x80\xa8\xf0\x9f\x98\x80\n\x01";
  const std::vector<std::string> keys = {"choices", "usage",         "error", "object",    "delta", "content",
                                         "text",    "prompt_tokens", "null",  "\"error\"", "1e3",   "\\ud83d",
                                         "-0"};
  SplitMix64 random(7);
  int scanned = 0;
  for (int round = 0; round < 60000; ++round) {
    std::string data = seeds[random.Below(seeds.size())];
    const uint64_t edits = random.Below(4);
    for (uint64_t i = 0; i < edits; ++i) {
      const size_t at = random.Below(data.size());
      switch (random.Below(5)) {
        case 0:
          data[at] = alphabet[random.Below(alphabet.size())];
          break;
        case 1:
          data.insert(at, 1, alphabet[random.Below(alphabet.size())]);
          break;
        case 2:
          data.erase(at, 1 + random.Below(3));
          break;
        case 3:
          data.insert(at, keys[random.Below(keys.size())]);
          break;
        default: {
          const size_t from = random.Below(data.size());
          data.insert(at, data.substr(from, random.Below(40)));
        }
      }
      if (data.empty()) data = "{";
    }
    std::string tree_text;
    std::string scan_text;
    const auto scan = ScanChunk(data, &scan_text);
    if (!scan.has_value()) continue;
    ++scanned;
    const Chunk tree = ReadChunkWithTree(data, &tree_text);
    if (!(*scan == tree) || scan_text != tree_text) {
      INFO(data);
      FAIL("the readers differ");
    }
  }
  CHECK(scanned > 15000);
}

TEST_CASE("a reader of streams equals the tree on every event of mutated streams") {
  const std::vector<std::string> seeds = {
      Choice(R"({"content":" the"})"),
      Choice(R"({"content":"a\"\\"})"),
      Choice(R"({"reasoning":"x"})"),
      Choice(R"({"role":"assistant","content":""})"),
      R"({"choices":[{"text":"x","token_ids":[1]},{"text":"","token_ids":[1]}],"usage":{"completion_tokens":2}})",
      R"({"choices":[{"delta":{"content":"b","reasoning":""}},{"delta":{"content":""}}]})",
      "[DONE]"};
  const std::string alphabet = "{}[]\":,\\u0019eE.-+ntfals \xe2\x80\xa8\n";
  SplitMix64 random(11);
  for (int stream = 0; stream < 3000; ++stream) {
    ChunkReader reader;
    for (int i = 0; i < 12; ++i) {
      std::string data = seeds[random.Below(2) == 0 ? static_cast<size_t>(stream) % seeds.size()
                                                    : random.Below(seeds.size())];
      if (random.Below(3) == 0) {
        const size_t at = random.Below(data.size());
        if (random.Below(2) == 0) {
          data.insert(at, 1, alphabet[random.Below(alphabet.size())]);
        } else {
          data[at] = alphabet[random.Below(alphabet.size())];
        }
      }
      std::string text;
      std::string tree_text;
      const Chunk tree = ReadChunkWithTree(data, &tree_text);
      const Chunk read = reader.Read(data, &text);
      if (!(read == tree) || text != tree_text) {
        INFO(data);
        FAIL("the readers differ");
      }
    }
  }
}

TEST_CASE("captured streams of real engines take the fast path and equal the tree", "[recorded]") {
  const auto shared = test::SharedData();
  if (!shared.has_value()) return;
  const auto files = ListTree(*shared + "/data/engines");
  REQUIRE(files.ok());
  int events = 0;
  int outputs = 0;
  int fast = 0;
  for (const std::string& file : *files) {
    if (!file.ends_with(".sse")) continue;
    SseParser parser;
    const auto sink = [&](const SseEvent& event) {
      ++events;
      const std::string data(event.data);
      if (ScanChunk(data, nullptr).has_value()) ++fast;
      if (Read(data).output) ++outputs;
    };
    parser.Feed(*ReadFile(*shared + "/data/engines/" + file), sink);
    parser.End(sink);
  }
  INFO(events << " events, " << outputs << " with output, " << fast << " by the fast path");
  CHECK(events > 100);
  CHECK(outputs > 50);
  CHECK(fast >= events - 10);
}

TEST_CASE("content as a list of parts is read by the tree") {
  struct Case {
    std::string content;
    bool output, answer;
  };
  for (const Case& c : std::vector<Case>{
           {R"([{"type":"text","text":"hi"}])", true, true},
           {R"([{"type":"text","text":""}])", false, false},
           {R"([])", false, false},
           {R"([{"type":"thinking","thinking":[{"type":"text","text":"hm"}]}])", true, false},
           {R"([{"type":"thinking","thinking":"hm"},7])", true, false},
       }) {
    const std::string data = Choice(R"({"content":)" + c.content + "}");
    INFO(data);
    const Chunk chunk = Read(data);
    CHECK(chunk.output == c.output);
    CHECK(chunk.answer == c.answer);
    CHECK_FALSE(ScanChunk(data, nullptr).has_value());
  }
}

TEST_CASE("[DONE] may have blanks at its ends, a message with a code is an error") {
  for (const char* done : {"[DONE]", "[DONE] ", " [DONE]", "[DONE]\r"}) {
    INFO(done);
    CHECK(Read(done).kind == Chunk::Kind::kDone);
    ChunkReader reader;
    CHECK(reader.Read(done).kind == Chunk::Kind::kDone);
  }
  for (const char* other : {"[DONE]x", "[ DONE]", "", " "})
    CHECK(Read(other).kind == Chunk::Kind::kMalformed);
  CHECK(Read(R"({"message":"boom","code":400})").kind == Chunk::Kind::kError);
  CHECK(Read(R"({"message":"boom","code":400})").error == "boom");
  CHECK(Read(R"({"message":"boom"})").kind == Chunk::Kind::kData);
  CHECK(Read(R"({"message":"x","code":1,"choices":[]})").kind == Chunk::Kind::kData);
  std::string text;
  Read(Choice(R"({"content":[{"type":"text","text":"a"},{"type":"text","text":"b\u00e9"}]})"), &text);
  CHECK(text == "ab\u00e9");
}

}  // namespace poolmark::http
