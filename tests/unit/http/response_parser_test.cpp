#include "common/http/response_parser.h"

#include <catch2/catch.hpp>

namespace poolmark::http {
namespace {

struct Parsed {
  bool done = false;
  int status = 0;
  bool keep_alive = false;
  std::string body;
  std::string rest;
  std::string error;
  bool operator==(const Parsed&) const = default;
};

// Parses `text` given in pieces that end at `cuts`, then a close.
Parsed Parse(std::string_view text, const std::vector<size_t>& cuts, bool no_body = false) {
  ResponseParser parser;
  parser.Reset(no_body);
  Parsed parsed;
  size_t from = 0;
  std::vector<size_t> ends = cuts;
  ends.push_back(text.size());
  for (const size_t end : ends) {
    std::string_view in = text.substr(from, end - from);
    from = end;
    std::string_view piece;
    for (;;) {
      const auto step = parser.Next(&in, &piece);
      if (step == ResponseParser::Step::kNeedMore) break;
      if (step == ResponseParser::Step::kBody) parsed.body += piece;
      if (step == ResponseParser::Step::kDone || step == ResponseParser::Step::kError) {
        parsed.done = step == ResponseParser::Step::kDone;
        parsed.error = parser.error();
        parsed.status = parser.status();
        parsed.keep_alive = parser.keep_alive();
        parsed.rest = std::string(in) + std::string(text.substr(from));
        return parsed;
      }
    }
  }
  parsed.done = parser.Closed() == ResponseParser::Step::kDone;
  parsed.status = parser.status();
  parsed.keep_alive = parser.keep_alive();
  parsed.error = parser.error();
  return parsed;
}

}  // namespace

TEST_CASE("a response gives the same at every split point") {
  for (const std::string text :
       {"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhelloHTTP/1.1", "HTTP/1.1 204 No Content\r\n\r\n",
        "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nTransfer-Encoding: "
        "chunked\r\n\r\n5;x=\"y\"\r\nhello\r\nA\r\n0123456789\r\n0\r\nTrailer: x\r\n\r\n",
        "HTTP/1.0 200 OK\n\nuntil the end",
        "HTTP/1.1 200\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"}) {
    const Parsed whole = Parse(text, {});
    INFO(text << whole.error);
    CHECK(whole.done);
    for (size_t cut = 0; cut <= text.size(); ++cut) CHECK(Parse(text, {cut}) == whole);
    std::vector<size_t> all;
    for (size_t i = 1; i < text.size(); ++i) all.push_back(i);
    CHECK(Parse(text, all) == whole);
  }
  CHECK(Parse("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhellonext", {}).rest == "next");
  CHECK_FALSE(Parse("HTTP/1.0 200 OK\r\n\r\nx", {}).keep_alive);
  CHECK(Parse("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n", {}, true).done);
}

TEST_CASE("broken and hostile responses are errors that say what is wrong") {
  const auto error = [](const std::string& text) {
    const Parsed parsed = Parse(text, {});
    INFO(text.substr(0, 100));
    CHECK_FALSE(parsed.done);
    CHECK_FALSE(parsed.keep_alive);
    CHECK_FALSE(parsed.error.empty());
    return parsed.error;
  };
  CHECK(error("SSH-2.0-OpenSSH\r\n") == "the answer is not HTTP/1.x");
  CHECK(error("") == "the connection was closed before an answer");
  error("HTTP/2 200 OK\r\n\r\n");
  error("HTTP/1.1 20x OK\r\n\r\n");
  error("HTTP/1.1 999 OK\r\n\r\n");
  error("HTTP/1.1 101 Switching Protocols\r\n\r\n");
  error("HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n");
  error("HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello");
  error("HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n");
  error("HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999\r\n\r\n");
  error("HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n");
  error("HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n\r\n");
  error("HTTP/1.1 200 OK\r\n folded\r\n\r\n");
  error("HTTP/1.1 200 OK\r\nno colon\r\n\r\n");
  error("HTTP/1.1 200 OK\r\n" + std::string(70000, 'a'));
  const std::string chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
  error(chunked + "zz\r\n");
  error(chunked + "\r\n");
  error(chunked + "fffffffffffffffff\r\n");
  error(chunked + "3\r\nabcd\r\n");
  error(chunked + "3;" + std::string(5000, 'x'));
  error(chunked + "0\r\n" + std::string(70000, 't'));
  CHECK(error(chunked + "3\r\nab") == "the connection was closed before the end of the body");
  CHECK(error("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhell") ==
        "the connection was closed before the end of the body");
}

}  // namespace poolmark::http
