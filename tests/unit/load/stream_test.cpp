#include "common/load/stream.h"

#include <catch2/catch.hpp>

#include "common/base/files.h"
#include "common/load/accumulator.h"
#include "tests/support/shared_data.h"
#include "tests/unit/load/replay.h"

namespace poolmark::load::test {

using poolmark::test::Chunk;
using poolmark::test::ChunkedHead;
using poolmark::test::kLastChunk;

namespace {
const std::string kDone = Event("[DONE]") + std::string(kLastChunk);

RequestRecord PlayBody(const std::string& body) {
  return Play({{1, ChunkedHead()}, {10, body}});
}

// An event as it stands in an answer without chunks.
std::string Data(const std::string& data, const std::string& name = "") {
  return (name.empty() ? "" : "event: " + name + "\n") + "data: " + data + "\n\n";
}

constexpr std::string_view kUntilClose = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n";

// The answer lasts until the connection closes.
RequestRecord PlayUntilClose(const std::string& body) {
  return Play({{1, std::string(kUntilClose)}, {10, body}});
}
}  // namespace

TEST_CASE("a usual stream leaves all its times", "[F2]") {
  const RequestRecord record =
      Play({{1, ChunkedHead() + Event(Delta(R"({"role":"assistant","content":""})"))},
            {100, Event(Content(" the"))},
            {110, Event(Content(" of"))},
            {120, Event(Content(" and", "\"length\""))},
            {121, Event(Usage(30, 3)) + kDone}});
  CHECK(record.outcome == Outcome::kOk);
  CHECK(record.http_status == 200);
  CHECK(Milliseconds(record.first_byte) == 1);
  CHECK(Milliseconds(record.first_output) == 100);
  CHECK(Milliseconds(record.first_answer_output) == 100);
  CHECK(Milliseconds(record.last_output) == 120);
  CHECK(Milliseconds(record.end) == 121);
  CHECK(record.events.size() == 3);
  CHECK(record.input_tokens == 30);
  CHECK(record.output_tokens == 3);
  CHECK_FALSE(record.output_tokens_counted);
  CHECK(record.finish_reason == "length");
  CHECK(*TimePerOutputToken(record) == 10 * kMillisecond);
}

TEST_CASE("the outcome of every kind of end") {
  const std::string token = Event(Content(" a"));
  struct Case {
    const char* name;
    RequestRecord record;
    Outcome expected;
  };
  const std::string json = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n";
  for (const Case& c : std::vector<Case>{
           {"finish without [DONE]", PlayBody(Event(Content(" a", "\"stop\"")) + std::string(kLastChunk)),
            Outcome::kOk},
           {"[DONE] without finish", PlayBody(token + kDone), Outcome::kOk},
           {"two [DONE]", PlayBody(token + Event("[DONE]") + kDone), Outcome::kOk},
           {"closed after [DONE]", PlayBody(token + Event("[DONE]")), Outcome::kOk},
           {"reset after [DONE]",
            Play({{1, ChunkedHead()}, {10, token + Event("[DONE]")}}, "Connection reset by peer"),
            Outcome::kOk},
           {"closed after [DONE] without output", PlayBody(Event("[DONE]")), Outcome::kNoOutput},
           {"reset after [DONE] without output",
            Play({{1, ChunkedHead()}, {10, Event("[DONE]")}}, "Connection reset by peer"),
            Outcome::kNoOutput},
           {"error event, then [DONE] and a reset",
            Play({{1, ChunkedHead()}, {2, Event(R"({"error":{"message":"died"}})") + Event("[DONE]")}},
                 "Connection reset by peer"),
            Outcome::kErrorEvent},
           {"last event without blank line",
            PlayBody(token + Chunk("data: [DONE]") + std::string(kLastChunk)), Outcome::kOk},
           {"neither", PlayBody(token + std::string(kLastChunk)), Outcome::kTruncated},
           {"closed in the middle", PlayBody(token + token), Outcome::kTruncated},
           {"closed within an event", PlayBody(token + "20\r\ndata: {\"cho"), Outcome::kTruncated},
           {"closed within an event of an answer without length",
            PlayUntilClose(Data(Content(" a")) + "data: {\"cho"), Outcome::kTruncated},
           {"closed within the first event of such an answer", PlayUntilClose("data: {\"cho"),
            Outcome::kTruncated},
           {"closed within [DONE] of such an answer", PlayUntilClose(Data(Content(" a")) + "data: [DON"),
            Outcome::kTruncated},
           {"last event of such an answer without blank line",
            PlayUntilClose(Data(Content(" a")) + "data: [DONE]"), Outcome::kOk},
           {"malformed event in such an answer", PlayUntilClose(Data("{\"cho") + Data(Content(" a"))),
            Outcome::kProtocol},
           {"malformed last event of a whole answer",
            PlayBody(token + Chunk("data: {\"cho") + std::string(kLastChunk)), Outcome::kProtocol},
           {"reset", Play({{1, ChunkedHead()}, {10, token}}, "Connection reset by peer"), Outcome::kReset},
           {"closed before an answer", Play({}), Outcome::kReset},
           {"error event", PlayBody(token + Event(R"({"error":{"message":"died"}})") + kDone),
            Outcome::kErrorEvent},
           {"event: error", PlayBody(token + Chunk("event: error\ndata: {\"message\":\"died\"}\n\n") + kDone),
            Outcome::kErrorEvent},
           {"event: error with a comment", PlayBody(token + Chunk("event: error\n: died\n\n") + kDone),
            Outcome::kErrorEvent},
           {"finish_reason error", PlayBody(token + Event(Content("", "\"error\"")) + kDone),
            Outcome::kErrorEvent},
           {"finish_reason abort in an object",
            PlayBody(token + Event(Content("", R"({"type":"abort","message":"out of memory"})")) + kDone),
            Outcome::kErrorEvent},
           {"finish_reason abort", PlayBody(token + Event(Content("", "\"abort\"")) + kDone),
            Outcome::kErrorEvent},
           {"no output",
            PlayBody(Event(Delta(R"({"role":"assistant"})")) + Event(Delta("{}", "\"stop\"")) + kDone),
            Outcome::kNoOutput},
           {"empty body", PlayBody(std::string(kLastChunk)), Outcome::kNoOutput},
           {"usage only", PlayBody(Event(Usage(3, 0)) + kDone), Outcome::kNoOutput},
           {"malformed event", PlayBody(token + Event("{\"choices\":") + kDone), Outcome::kProtocol},
           {"malformed event: message", PlayBody(token + Chunk("event: message\ndata: ping\n\n") + kDone),
            Outcome::kProtocol},
           {"event: ping", PlayBody(Chunk("event: ping\ndata: ping\n\n") + token + kDone), Outcome::kOk},
           {"named event that is no JSON after output",
            PlayBody(token + Chunk("event: keep-alive\ndata: 12:00:01\n\n") + kDone), Outcome::kOk},
           {"named event of broken JSON",
            PlayBody(token + Chunk("event: chat.completion.chunk\ndata: {\"choices\":[{\"ind\n\n") +
                     Event(Content("", "\"stop\"")) + kDone),
            Outcome::kProtocol},
           {"named event of a broken list",
            PlayBody(token + Chunk("event: chunk\ndata:  [{\"choices\n\n") + kDone), Outcome::kProtocol},
           {"event: ping alone", PlayBody(Chunk("event: ping\ndata: ping\n\n") + kDone), Outcome::kNoOutput},
           {"500",
            Play({{1, "HTTP/1.1 500 Oops\r\nContent-Length: 24\r\n\r\n{\"error\":{\"message\":\"x\"}}"}}),
            Outcome::kHttpStatus},
           {"429", Play({{1, "HTTP/1.1 429 Busy\r\nRetry-After: 1\r\nContent-Length: 4\r\n\r\nbusy"}}),
            Outcome::kHttpStatus},
           {"302", Play({{1, "HTTP/1.1 302 Found\r\nLocation: /\r\nContent-Length: 0\r\n\r\n"}}),
            Outcome::kHttpStatus},
           {"no HTTP", Play({{1, "hello"}}), Outcome::kProtocol},
           {"one JSON error",
            Play({{1, json + "Content-Length: 32\r\n\r\n{\"error\":{\"message\":\"too long\"}}"}}),
            Outcome::kErrorEvent},
           {"one JSON answer", Play({{1, json + "Content-Length: 14\r\n\r\n{\"choices\":[]}"}}),
            Outcome::kProtocol},
       }) {
    INFO(c.name << ": " << c.record.error);
    CHECK(OutcomeName(c.record.outcome) == OutcomeName(c.expected));
    CHECK((c.record.error.empty()) == (c.expected == Outcome::kOk));
  }
  CHECK(PlayBody(token + Event(R"({"error":{"message":"died"}})") + kDone).error == "died");
  CHECK(PlayBody(token + Chunk("event: error\n: died\n\n") + kDone).error == "died");
}

TEST_CASE("after [DONE] an answer is whole, whatever ends the exchange") {
  for (const bool done : {false, true}) {
    for (const Outcome outcome :
         {Outcome::kDeadline, Outcome::kStalled, Outcome::kCancelled, Outcome::kReset}) {
      RequestRecord record;
      StreamReader reader;
      reader.Begin(&record, nullptr);
      reader.Feed(ChunkedHead() + Event(Content(" a")) + (done ? Event("[DONE]") : ""), 5, std::nullopt);
      reader.Abort(outcome, 9, "from outside");
      CHECK(OutcomeName(record.outcome) == OutcomeName(done ? Outcome::kOk : outcome));
      CHECK(record.error.empty() == done);
      CHECK_FALSE(reader.reusable());
    }
  }
}

TEST_CASE("an answer that lasts until the close is truncated wherever it is cut before its end") {
  const std::string head(kUntilClose);
  const std::string role = Data(Delta(R"({"role":"assistant"})"));
  const std::string output = Data(Content(" a")) + Data("ping", "ping") + Data(Content(" b"));
  const std::string finish = Data(Delta("{}", "\"stop\""));
  const std::string bytes = head + role + output + finish + Data(Usage(3, 2)) + Data("[DONE]");
  const size_t first_output = head.size() + role.size() + Data(Content(" a")).size();
  const size_t finished = head.size() + role.size() + output.size() + finish.size();
  // Whether what a cut leaves of the last event is data that no longer says what it said.
  const auto half_event = [&](size_t cut) {
    const size_t blank = bytes.rfind("\n\n", cut - 2);
    const size_t begin = blank == std::string::npos ? head.size() : blank + 2;
    const std::string rest = bytes.substr(begin, cut - begin);
    const std::string_view data = std::string_view(rest).substr(std::min<size_t>(6, rest.size()));
    const bool whole = data.ends_with('\n') || data == "[DONE]" ||
                       (cut + 1 < bytes.size() && bytes.compare(cut, 2, "\n\n") == 0);
    return rest.starts_with("data:") && !data.empty() && !whole;
  };
  for (size_t cut = head.size() + 2; cut <= bytes.size(); ++cut) {
    const RequestRecord record = PlayCut(std::string_view(bytes).substr(0, cut), {});
    INFO("after " << cut << " bytes: " << record.error);
    Outcome expected = Outcome::kOk;
    if (half_event(cut)) {
      expected = Outcome::kTruncated;
    } else if (cut + 2 < first_output) {
      expected = Outcome::kNoOutput;
    } else if (cut + 2 < finished) {
      expected = Outcome::kTruncated;
    }
    CHECK(OutcomeName(record.outcome) == OutcomeName(expected));
    // In two reads the same, wherever the second begins.
    for (size_t second = 1; second < cut; ++second)
      REQUIRE(PlayCut(std::string_view(bytes).substr(0, cut), {second}) == record);
  }
}

TEST_CASE("an event with a name of its own that is no JSON says nothing, however it is cut") {
  const std::string plain = std::string(kUntilClose) + Data(Content(" a")) + Data(Content(" b", "\"stop\""));
  const std::string bytes = std::string(kUntilClose) + Data("ping", "ping") + Data(Content(" a")) +
                            Data("2026-01-01 still here", "keep-alive") + Data(Content(" b", "\"stop\""));
  const RequestRecord expected = PlayCut(plain, {});
  CHECK(expected.outcome == Outcome::kOk);
  CHECK(expected.events.size() == 2);
  for (size_t cut = 1; cut < bytes.size(); ++cut) REQUIRE(PlayCut(bytes, {cut}) == expected);
}

TEST_CASE("an answer far longer than was asked for ends, whatever the server has yet to say") {
  RequestRecord record;
  StreamReader reader;
  reader.Begin(&record, nullptr, 3);
  CHECK(reader.Feed(ChunkedHead() + Event(Content("a")) + Event(Content("b")) + Event(Content("c")), 1,
                    std::nullopt) == StreamReader::State::kReading);
  CHECK(reader.Feed(Event(Content("d")) + Event(Content("e")), 2, std::nullopt) ==
        StreamReader::State::kEnded);
  CHECK(record.outcome == Outcome::kProtocol);
  CHECK(record.error.find("more than 3 output events") != std::string::npos);
  CHECK(record.events.size() == 3);
  CHECK_FALSE(reader.reusable());
}

TEST_CASE("the status of an answer whose head is refused is kept") {
  const RequestRecord record = Play({{1, "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n\r\n"}});
  CHECK(record.outcome == Outcome::kProtocol);
  CHECK(record.http_status == 200);
}

TEST_CASE("a connection is used again only after a complete answer that allows it") {
  const auto reusable = [](const std::string& bytes) {
    RequestRecord record;
    StreamReader reader;
    reader.Begin(&record, nullptr);
    reader.Feed(bytes, 1, std::nullopt);
    return reader.reusable();
  };
  CHECK(reusable(ChunkedHead() + Event(Content("a")) + kDone));
  CHECK_FALSE(reusable(ChunkedHead("Connection: close\r\n") + Event(Content("a")) + kDone));
  CHECK_FALSE(reusable(ChunkedHead() + Event(Content("a")) + Event("[DONE]")));
  CHECK_FALSE(reusable(ChunkedHead() + Event(Content("a")) + kDone + "HTTP/1.1 200 OK\r\n"));
  CHECK(reusable("HTTP/1.1 500 Oops\r\nContent-Length: 1\r\n\r\nx"));
}

TEST_CASE("an absurd usage is none: the events are counted, and it is told") {
  const auto play = [](const std::string& count, RequestRecord* record) {
    StreamReader reader;
    reader.Begin(record, nullptr);
    const std::string usage =
        R"({"choices":[],"usage":{"prompt_tokens":7,"completion_tokens":)" + count + "}}";
    reader.Feed(ChunkedHead() + Event(Content("a")) + Event(Content("b", "\"stop\"")) + Event(usage) + kDone,
                1, std::nullopt);
    return reader.absurd_usage();
  };
  RequestRecord record;
  CHECK(play("9223372036854775807", &record));
  CHECK(record.outcome == Outcome::kOk);
  CHECK(record.output_tokens == 2);
  CHECK(record.output_tokens_counted);
  CHECK(record.input_tokens == 7);
  RequestRecord usual;
  CHECK_FALSE(play("3", &usual));
  CHECK(usual.output_tokens == 3);
}

TEST_CASE("live answers are the decoded text") {
  std::string answer;
  Play({{1, ChunkedHead()},
        {2, Event(Content("a\\u00e9\\n"))},
        {3, Event(Content(" b"))},
        {4, Event(Delta(R"({"reasoning":"no"})"))},
        {5, kDone}},
       std::nullopt, &answer);
  CHECK(answer == "a\xc3\xa9\n b");
}

TEST_CASE("captured answers of real engines read the same at every split point", "[recorded][C21]") {
  const auto shared = poolmark::test::SharedData();
  if (!shared.has_value()) return;
  const std::string root = *shared + "/data/engines/";
  int files = 0, events_alone = 0, without_usage = 0;
  const auto tree = ListTree(root);
  REQUIRE(tree.ok());
  for (const std::string& file : *tree) {
    const bool events = file.ends_with(".sse");
    if ((!events && !file.ends_with(".http")) || file.find("stream") == std::string::npos) continue;
    // Where only the events were kept, they come as an answer that lasts until the connection closes.
    if (events && FileExists(root + file.substr(0, file.size() - 4) + ".http")) continue;
    const std::string bytes =
        (events ? "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n" : "") + *ReadFile(root + file);
    const RequestRecord whole = PlayCut(bytes, {});
    INFO(file << ": " << whole.error);
    ++(events ? events_alone : files);
    CHECK(whole.outcome == Outcome::kOk);
    const bool counted = bytes.find("\"completion_tokens\"") == std::string::npos;
    CHECK(whole.output_tokens_counted == counted);
    without_usage += counted ? 1 : 0;
    CHECK(whole.events.size() >= 3);
    // Engines may hold back a token (a stop token, a part of a character): never more events than tokens.
    CHECK(static_cast<int64_t>(whole.events.size()) <= *whole.output_tokens);
    CHECK(whole.input_tokens.value_or(0) > (counted ? -1 : 0));
    bool same = true;
    for (size_t cut = 1; cut < bytes.size(); ++cut) same = same && PlayCut(bytes, {cut}) == whole;
    CHECK(same);
    std::vector<size_t> all;
    for (size_t i = 1; i < bytes.size(); ++i) all.push_back(i);
    CHECK(PlayCut(bytes, all) == whole);
  }
  CHECK(files >= 12);
  CHECK(events_alone >= 9);
  CHECK(without_usage == 1);  // a completion whose request asked for none
}

}  // namespace poolmark::load::test
