#include "common/http/sse.h"

#include <catch2/catch.hpp>
#include <vector>

namespace poolmark::http {
namespace {

struct Seen {
  std::string name, data, comment;
  bool operator==(const Seen&) const = default;
};

std::vector<Seen> ParseSse(std::string_view text, const std::vector<size_t>& cuts = {}) {
  SseParser parser;
  std::vector<Seen> seen;
  const auto sink = [&](const SseEvent& event) {
    seen.push_back({std::string(event.name), std::string(event.data), std::string(event.comment)});
  };
  size_t from = 0;
  for (const size_t cut : cuts) {
    // A copy of its own, so that a view kept too long shows under ASan.
    const std::string piece(text.substr(from, cut - from));
    CHECK(parser.Feed(piece, sink));
    from = cut;
  }
  const std::string last(text.substr(from));
  CHECK(parser.Feed(last, sink));
  parser.End(sink);
  return seen;
}

std::vector<Seen> Data(const std::vector<std::string>& data) {
  std::vector<Seen> seen;
  for (const std::string& item : data) seen.push_back({"", item, ""});
  return seen;
}

}  // namespace

TEST_CASE("events of every form are read, at every split point") {
  const std::vector<std::pair<std::string, std::vector<Seen>>> cases = {
      {"data: a\n\ndata: b\n\n", Data({"a", "b"})},
      {"data: a\r\n\r\ndata: b\r\n\r\n", Data({"a", "b"})},
      {"data: a\r\rdata: b\r\r", Data({"a", "b"})},
      {"data:a\n\ndata:  b\n\n", Data({"a", " b"})},
      {"data: a\ndata: b\ndata\n\n", Data({"a\nb\n"})},
      {"\xef\xbb\xbf"
       "data: a\n\n",
       Data({"a"})},
      {": hello\n\ndata: a\n\n", Data({"a"})},
      {"id: 1\nretry: 5\nunknown: x\ndata: a\n\n", Data({"a"})},
      {"event: error\ndata: {\"x\":1}\n\n", {{"error", "{\"x\":1}", ""}}},
      {"event: error\n: engine died\n\n", {{"error", "", "engine died"}}},
      {": engine died\nevent: error\n\n", {{"error", "", "engine died"}}},
      {"data: last without a blank line", Data({"last without a blank line"})},
      {"data: last\n", Data({"last"})},
      {"data: u\xe2\x80\xa8v\xc2\x85w\n\n", Data({"u\xe2\x80\xa8v\xc2\x85w"})},
      {"data:\n\n", Data({""})},
      {"\n\n\n\n", {}},
      {"", {}},
      {"data: [DONE]\n\ndata: [DONE]\n\n", Data({"[DONE]", "[DONE]"})},
      {"datax: a\n\ndata: a\n\n", Data({"a"})},
      {"data: a\n\r\ndata: b\r\n\ndata: c\n\n", Data({"a", "b", "c"})},
  };
  for (const auto& [text, expected] : cases) {
    INFO(text);
    std::vector<Seen> whole = ParseSse(text);
    // A comment before an event that has none of its own business is harmless; only errors look at it.
    for (Seen& seen : whole) {
      if (seen.name.empty()) seen.comment.clear();
    }
    CHECK(whole == expected);
    const auto full = ParseSse(text);
    for (size_t cut = 0; cut <= text.size(); ++cut) CHECK(ParseSse(text, {cut}) == full);
    std::vector<size_t> all;
    for (size_t i = 1; i < text.size(); ++i) all.push_back(i);
    CHECK(ParseSse(text, all) == full);
  }
}

TEST_CASE("an event beyond the limit ends the stream instead of filling the memory") {
  SseParser parser(1000);
  const auto sink = [](const SseEvent&) {};
  bool good = true;
  for (int i = 0; i < 3000 && good; ++i) good = parser.Feed("x", sink);
  CHECK_FALSE(good);
  parser.Reset();
  good = true;
  for (int i = 0; i < 3000 && good; ++i) good = parser.Feed("data: y\n", sink);
  CHECK_FALSE(good);
}

}  // namespace poolmark::http
