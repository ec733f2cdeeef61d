// Errors of measurement that were reported in public against other load generators, each with the right
// value here. The number is the row of our list; the report is named. Rows that need sockets and time are
// in tests/component/load/engine_test.cpp.
#include <catch2/catch.hpp>

#include "common/load/accumulator.h"
#include "common/load/stream.h"
#include "common/load/summary.h"
#include "tests/unit/load/replay.h"

namespace poolmark::load::test {

using poolmark::test::Chunk;
using poolmark::test::ChunkedHead;
using poolmark::test::kLastChunk;

namespace {

const std::string kRole = Event(Delta(R"({"role":"assistant","content":""})"));
const std::string kEnd = Event("[DONE]") + std::string(kLastChunk);

// `tokens` events from 100 ms on, 10 ms apart, each made by `event(i)`; `before` arrives with the head at 1
// ms.
template <class Make>
Script Paced(int tokens, Make&& event, const std::string& before = "",
             const std::string& after = Event(Usage(30, 16)) + kEnd) {
  Script script = {{1, ChunkedHead() + before}};
  for (int i = 0; i < tokens; ++i) script.push_back({100 + 10.0 * i, event(i)});
  script.back().second += after;
  return script;
}

std::string Token(int i) {
  return Event(Content(" t" + std::to_string(i), i == 15 ? "\"length\"" : "null"));
}
std::string Thinking(int i, const std::string& field) {
  return i < 8 ? Event(Delta("{\"" + field + "\":\" hm\"}")) : Token(i);
}
double Ttft(const RequestRecord& record) {
  return Milliseconds(record.first_output);
}
double Tpot(const RequestRecord& record) {
  return *TimePerOutputToken(record) / kMillisecond;
}

}  // namespace

TEST_CASE("errors 1, 2, 3 and 15: the thinking phase counts as output, under either name of the field",
          "[E1]") {
  // kubernetes-sigs/inference-perf#559, vllm-project/guidellm#737, api7/aisix#869, perf_analyzer#433
  for (const std::string field : {"reasoning_content", "reasoning"}) {
    const RequestRecord record = Play(Paced(
        16, [&](int i) { return Thinking(i, field); }, kRole));
    CHECK(record.outcome == Outcome::kOk);
    CHECK(Ttft(record) == 100);
    CHECK(Milliseconds(record.first_answer_output) == 180);
    CHECK(record.output_tokens == 16);
    CHECK(Tpot(record) == Approx(10));
  }
  // An answer that is cut off while still thinking has a TTFT and output, and no answer.
  const RequestRecord cut = Play(
      Paced(8, [](int i) { return Event(Delta(R"({"reasoning":" hm"})", i == 7 ? "\"length\"" : "null")); }));
  CHECK(cut.outcome == Outcome::kOk);
  CHECK(Ttft(cut) == 100);
  CHECK_FALSE(cut.first_answer_output.has_value());
}

TEST_CASE("errors 3, 4 and 5: a role frame, an empty or a null content is no token", "[E1]") {
  // api7/aisix#869, vllm-project/vllm#3768, #15106
  for (const std::string delta :
       {R"({"role":"assistant","content":""})", R"({"role":"assistant","content":null})",
        R"({"role":"assistant"})", R"({"role":"assistant","content":"","reasoning_content":""})"}) {
    const RequestRecord record = Play(Paced(16, Token, Event(Delta(delta))));
    CHECK(Ttft(record) == 100);
    CHECK(Milliseconds(record.first_byte) == 1);
    CHECK(record.events.size() == 16);  // no first gap of 99 ms
  }
}

TEST_CASE("errors 6 and 7: several tokens in an event do not change the time per token", "[E2]") {
  // vllm-project/vllm#27485, #42661, #46652, sgl-project/sglang#12064: 4 tokens an event, 40 ms apart
  const auto four = [](int i) { return Event(Content(" a b c d", i == 3 ? "\"length\"" : "null")); };
  Script script = {{1, ChunkedHead()}};
  for (int i = 0; i < 4; ++i) script.push_back({100 + 40.0 * i, four(i)});
  script.back().second += Event(Usage(30, 16)) + kEnd;
  const RequestRecord record = Play(script);
  CHECK(record.output_tokens == 16);
  CHECK(record.first_event_tokens == 4);
  CHECK_FALSE(record.event_tokens_known);
  CHECK(Tpot(record) == Approx(10));
  // With usage in every event the counts are the engine's own.
  Script known = {{1, ChunkedHead()}};
  for (int i = 0; i < 4; ++i) {
    known.push_back(
        {100 + 40.0 * i,
         Event(
             R"({"choices":[{"index":0,"delta":{"content":" x"},"finish_reason":null}],"usage":{"prompt_tokens":9,"completion_tokens":)" +
             std::to_string(i == 3 ? 16 : 4 * i + 2) + "}}")});
  }
  known.back().second += kEnd;
  const RequestRecord each = Play(known);
  CHECK(each.event_tokens_known);
  CHECK(each.first_event_tokens == 2);
  CHECK(each.events[1].tokens == 4);
  CHECK(each.events[3].tokens == 6);
  CHECK(Tpot(each) == Approx(120.0 / 14));
  // A whitespace token (0 tokens when tokenised again) is an output event like any other.
  CHECK(Play(Paced(16, [](int) { return Event(Content("  ")); })).events.size() == 16);
}

TEST_CASE("errors 8, 10 and 11: an error inside a 200 is a failure, with what came before kept apart") {
  // sgl-project/sglang#40555, vllm-project/vllm#57519, kubernetes-sigs/inference-perf#713, #531
  const std::string died =
      Event(R"({"error":{"message":"engine died","type":"InternalServerError","code":500}})") + kEnd;
  const RequestRecord record = Play(Paced(8, Token, "", died));
  CHECK(record.outcome == Outcome::kErrorEvent);
  CHECK(record.events.size() == 8);
  CHECK(Play({{1, ChunkedHead()}, {2, died}}).outcome == Outcome::kErrorEvent);
  CHECK(Play({{1, ChunkedHead()}, {2, std::string(kLastChunk)}}).outcome == Outcome::kNoOutput);
  // Its tokens are in no figure: the summary counts successful requests.
  Accumulator all;
  all.Add(record, 0);
  LoadOptions options;
  const Summary summary =
      Summarize(all, {0, 1'000'000'000, true, 1'000'000'000, 1'000'000'000}, options, {}, std::nullopt, {});
  CHECK(summary.ok == 0);
  CHECK(summary.output_tokens == 0);
  CHECK_FALSE(summary.ttft.has_value());
  // Without usage the events are counted, and that is said.
  const RequestRecord counted = Play(Paced(16, Token, "", kEnd));
  CHECK(counted.output_tokens == 16);
  CHECK(counted.output_tokens_counted);
}

TEST_CASE("error 8: a usage that counts nothing beside output is none, and the events are counted") {
  // sgl-project/sglang#40555
  const RequestRecord record = Play(Paced(16, Token, Event(Usage(3, 0)), kEnd));
  CHECK(record.outcome == Outcome::kOk);
  CHECK(record.output_tokens == 16);
  CHECK(record.output_tokens_counted);
}

TEST_CASE("events without data between others say nothing") {
  const RequestRecord record =
      Play({{1, ChunkedHead()},
            {2, Event(Content("a")) + Event("") + Event(Content("b")) + kEnd + std::string(kLastChunk)}});
  CHECK(record.outcome == Outcome::kOk);
  CHECK(record.events.size() == 2);
}

TEST_CASE("error 9: gaps are between outputs; the first one is no gap") {
  // sgl-project/sglang#1005, vllm-project/vllm#7242
  Accumulator all;
  all.Add(Play(Paced(16, Token, kRole)), 0);
  CHECK(all.gap_count == 15);
  CHECK(all.gap_sum / 15 == Approx(10 * kMillisecond));
  CHECK(all.max_gap == 10 * kMillisecond);
}

TEST_CASE("error 12: a request that broke before its first token has no TTFT and lowers none") {
  // vllm-project/vllm#5895, #14795
  Accumulator all;
  all.Add(Play({{1, ChunkedHead() + kRole}}), 0);
  for (int i = 0; i < 9; ++i) all.Add(Play(Paced(16, Token)), 0);
  const Summary summary = Summarize(all, {0, 1'000'000'000, true, 1'000'000'000, 1'000'000'000},
                                    LoadOptions(), {}, std::nullopt, {});
  CHECK(summary.requests == 10);
  CHECK(summary.ok == 9);
  CHECK(summary.outcomes[static_cast<size_t>(Outcome::kTruncated)] == 1);
  CHECK(summary.ttft->min == 100);
  CHECK(summary.ttft->count == 9);
}

TEST_CASE("errors 13 and 14: many events in one read are many events, with gaps of nothing between them") {
  // ai-dynamo/aiperf#368, triton-inference-server/perf_analyzer#431
  std::string all_at_once;
  for (int i = 0; i < 16; ++i) all_at_once += Token(i);
  const RequestRecord record = Play({{1, ChunkedHead()}, {100, all_at_once + Event(Usage(30, 16)) + kEnd}});
  CHECK(record.outcome == Outcome::kOk);
  CHECK(record.events.size() == 16);
  CHECK(*TimePerOutputToken(record) == 0);
}

TEST_CASE("error 21: a stall shows in the gaps, which a mean per request would hide") {
  // vllm-project/guidellm#1145
  Script script = Paced(16, Token);
  for (size_t i = 9; i < script.size(); ++i) script[i].first += 1000;
  Accumulator all;
  all.Add(Play(script), 0);
  const Summary summary = Summarize(all, {0, 2'000'000'000, true, 2'000'000'000, 2'000'000'000},
                                    LoadOptions(), {}, std::nullopt, {});
  CHECK(summary.gap->max == 1010);
  CHECK(summary.gap->p50 == Approx(10).epsilon(0.02));
  // 15 gaps: P99 lies 0.86 of the way from the 14th, 10 ms, to the 15th (M3).
  CHECK(summary.gap->p99 == Approx(870).epsilon(0.001));
}

TEST_CASE("error 24: a usage chunk moves neither the first nor the last output") {
  // sgl-project/genai-bench#44: also for an answer of one token
  const RequestRecord one = Play({{1, ChunkedHead() + kRole},
                                  {100, Event(Content(" x", "\"stop\""))},
                                  {300, Event(Usage(30, 1)) + kEnd}});
  CHECK(Ttft(one) == 100);
  CHECK(Milliseconds(one.last_output) == 100);
  CHECK(one.output_tokens == 1);
  CHECK_FALSE(TimePerOutputToken(one).has_value());
}

TEST_CASE("error 25: tokens are the engine's count, not the text tokenised again") {
  // CentML/flexible-inference-bench#66: runs of spaces, tokens that decode to nothing
  const RequestRecord record =
      Play(Paced(12, [](int i) { return Event(Content("    ", i == 11 ? "\"stop\"" : "null")); }));
  CHECK(record.events.size() == 12);
  CHECK(record.output_tokens == 16);
}

TEST_CASE("error 26: reasoning is counted once and latency ends at the last output, not at [DONE]") {
  // tugot17/tokenomics#16
  Script script = Paced(
      16, [](int i) { return Thinking(i, "reasoning"); }, "", Event(Usage(30, 16)));
  script.push_back({900, kEnd});
  const RequestRecord record = Play(script);
  CHECK(record.output_tokens == 16);
  CHECK(Milliseconds(record.last_output) == 250);
  CHECK(Milliseconds(record.end) == 900);
  Accumulator all;
  all.Add(record, 0);
  CHECK(all.requests[0].latency == 250 * kMillisecond);
}

TEST_CASE("error 28: events and characters cut by reads are whole") {
  // vllm-project/aibrix#2653
  std::string bytes = ChunkedHead();
  for (int i = 0; i < 4; ++i) bytes += Event(Content(" \xf0\x9f\x98\x80"));
  bytes += Event(Usage(30, 4)) + kEnd;
  std::vector<size_t> all;
  for (size_t i = 1; i < bytes.size(); ++i) all.push_back(i);
  const RequestRecord record = PlayCut(bytes, all);
  CHECK(record.outcome == Outcome::kOk);
  CHECK(record.events.size() == 4);
  CHECK(record == PlayCut(bytes, {}));
}

TEST_CASE("error 29: `event: error` with only a comment is an error") {
  // ai-dynamo/dynamo#8674
  const RequestRecord record =
      Play(Paced(4, Token, "", Chunk("event: error\n: worker gone\n\n") + std::string(kLastChunk)));
  CHECK(record.outcome == Outcome::kErrorEvent);
  CHECK(record.error == "worker gone");
}

TEST_CASE("error 30: only LF and CR end a line; U+2028, U+2029 and U+0085 are text") {
  // the comment on _extract_sse_data in vLLM's benchmark client
  const RequestRecord record = Play(Paced(16, [](int) {
    return Event(
        Content("a\xe2\x80\xa8"
                "b\xe2\x80\xa9"
                "c\xc2\x85"
                "d"));
  }));
  CHECK(record.outcome == Outcome::kOk);
  CHECK(record.events.size() == 16);
}

TEST_CASE("every line end and form of field gives the same figures") {
  // CRLF, CR, no space after the colon, comments: three of four clients failed one of them
  const RequestRecord usual = Play(Paced(16, Token, kRole));
  const auto with = [](const std::string& eol, const std::string& prefix) {
    return Play(Paced(
        16,
        [&](int i) {
          return Chunk(": keep-alive" + eol + eol) +
                 Chunk(prefix + Content(" t" + std::to_string(i), i == 15 ? "\"length\"" : "null") + eol +
                       eol);
        },
        Chunk("data: " + Delta(R"({"role":"assistant","content":""})") + eol + eol),
        Chunk("data: " + Usage(30, 16) + eol + eol) + Chunk("data: [DONE]" + eol + eol) +
            std::string(kLastChunk)));
  };
  for (const std::string eol : {"\n", "\r\n", "\r"}) {
    CHECK(with(eol, "data: ") == usual);
    CHECK(with(eol, "data:") == usual);
  }
}

TEST_CASE("tool calls are output") {
  const RequestRecord record = Play(Paced(
      16,
      [](int i) {
        return Event(Delta(R"({"tool_calls":[{"index":0,"function":{"arguments":" x"}}]})",
                           i == 15 ? "\"tool_calls\"" : "null"));
      },
      kRole));
  CHECK(record.outcome == Outcome::kOk);
  CHECK(Ttft(record) == 100);
  CHECK(Milliseconds(record.first_answer_output) == 100);
  CHECK(record.events.size() == 16);
}

}  // namespace poolmark::load::test
