// Plays a recorded or written answer into a StreamReader.
#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/load/record.h"
#include "common/load/stream.h"
#include "tests/support/raw_server.h"

namespace poolmark::load::test {

inline constexpr int64_t kMillisecond = 1'000'000;

// An SSE answer of one chunk an event, as engines send it.
inline std::string Event(const std::string& data, const std::string& eol = "\n") {
  return poolmark::test::Chunk("data: " + data + eol + eol);
}
inline std::string Delta(const std::string& delta, const std::string& finish = "null") {
  return R"({"id":"c","object":"chat.completion.chunk","choices":[{"index":0,"delta":)" + delta +
         R"(,"finish_reason":)" + finish + "}]}";
}
inline std::string Content(const std::string& text, const std::string& finish = "null") {
  return Delta(R"({"content":")" + text + R"("})", finish);
}
inline std::string Usage(int prompt, int completion) {
  return R"({"id":"c","choices":[],"usage":{"prompt_tokens":)" + std::to_string(prompt) +
         R"(,"completion_tokens":)" + std::to_string(completion) + "}}";
}

// What arrives when, in milliseconds after the send at 0.
using Script = std::vector<std::pair<double, std::string>>;

// Sent at time 0; ends with `close` where the answer does not end by itself.
inline RequestRecord Play(const Script& script, std::optional<std::string> close = std::nullopt,
                          std::string* answer = nullptr) {
  RequestRecord record;
  StreamReader reader;
  reader.Begin(&record, answer);
  int64_t now = 0;
  for (const auto& [at, bytes] : script) {
    now = static_cast<int64_t>(at * kMillisecond);
    if (reader.Feed(bytes, now, std::nullopt) == StreamReader::State::kEnded) return record;
  }
  reader.Closed(now, close.value_or(""));
  return record;
}

// The same answer at one instant, cut at `cuts`.
inline RequestRecord PlayCut(std::string_view bytes, const std::vector<size_t>& cuts) {
  RequestRecord record;
  StreamReader reader;
  reader.Begin(&record, nullptr);
  size_t from = 0;
  std::vector<size_t> ends = cuts;
  ends.push_back(bytes.size());
  for (const size_t end : ends) {
    // A copy of its own, so that a view kept too long shows under ASan.
    const std::string piece(bytes.substr(from, end - from));
    from = end;
    if (!piece.empty() && reader.Feed(piece, 7, 5) == StreamReader::State::kEnded) return record;
  }
  reader.Closed(7, "");
  return record;
}

inline double Milliseconds(const std::optional<int64_t>& time) {
  return static_cast<double>(time.value()) / kMillisecond;
}

}  // namespace poolmark::load::test
