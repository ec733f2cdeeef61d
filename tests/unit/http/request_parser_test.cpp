#include "common/http/request_parser.h"

#include <catch2/catch.hpp>

using namespace poolmark::http;
using State = RequestParser::State;

namespace {

// Feeds `text` in pieces of `step` bytes until the first request ends.
RequestParser ParseRequest(std::string_view text, size_t step, size_t max_body = 1000) {
  RequestParser parser(max_body);
  std::string pending;
  for (size_t at = 0; at < text.size() && parser.state() != State::kDone && parser.state() != State::kBad;
       at += step) {
    pending += text.substr(at, step);
    pending.erase(0, parser.Feed(pending));
  }
  return parser;
}

}  // namespace

TEST_CASE("a request is read alike in any cut of its bytes") {
  const std::string text =
      "POST /v1/chat%2Fx?a=b HTTP/1.1\r\nHost: h\r\nX-One:  two \r\nContent-Length: 5\r\n\r\nhello";
  for (size_t step : {1u, 2u, 3u, 7u, 1000u}) {
    CAPTURE(step);
    RequestParser parser = ParseRequest(text, step);
    REQUIRE(parser.state() == State::kDone);
    CHECK(parser.request().method == "POST");
    CHECK(parser.request().path == "/v1/chat/x");
    CHECK(parser.request().query == "a=b");
    CHECK(parser.request().header("x-one") == "two");
    CHECK(parser.request().body == "hello");
    CHECK(parser.keep_alive());
  }
}

TEST_CASE("a chunked body is put together, trailers are dropped") {
  const std::string text =
      "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n"
      "3;ext=1\r\nabc\r\nA\r\n0123456789\r\n0\r\nTrailer: x\r\n\r\n";
  for (size_t step : {1u, 5u, 1000u}) {
    RequestParser parser = ParseRequest(text, step);
    REQUIRE(parser.state() == State::kDone);
    CHECK(parser.request().body == "abc0123456789");
  }
}

TEST_CASE("a second request on the connection starts where the first ended") {
  RequestParser parser(100);
  std::string input = "GET /a HTTP/1.1\r\nHost: h\r\n\r\nGET /b HTTP/1.0\r\n\r\n";
  input.erase(0, parser.Feed(input));
  REQUIRE(parser.state() == State::kDone);
  CHECK(parser.request().path == "/a");
  parser.Next();
  input.erase(0, parser.Feed(input));
  REQUIRE(parser.state() == State::kDone);
  CHECK(parser.request().path == "/b");
  CHECK_FALSE(parser.keep_alive());
  CHECK(input.empty());
}

TEST_CASE("hostile requests are refused with their status") {
  struct Case {
    const char* what;
    std::string text;
    int status;
  };
  const std::string ok = "GET / HTTP/1.1\r\nHost: h\r\n";
  const Case cases[] = {
      {"no version", "GET /\r\n\r\n", 400},
      {"HTTP/2 preface", "PRI * HTTP/2.0\r\n\r\n", 505},
      {"binary", std::string("\x16\x03\x01\x00\x05 x\r\n\r\n", 11), 400},
      {"bare LF", "GET / HTTP/1.1\nHost: h\r\n\r\n", 400},
      {"folded line", ok + " folded\r\n\r\n", 400},
      {"space before colon", ok + "A : b\r\n\r\n", 400},
      {"no host", "GET / HTTP/1.1\r\n\r\n", 400},
      {"two hosts", ok + "Host: i\r\n\r\n", 400},
      {"both framings", ok + "Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n", 400},
      {"two lengths", ok + "Content-Length: 1\r\nContent-Length: 2\r\n\r\n", 400},
      {"negative length", ok + "Content-Length: -1\r\n\r\n", 400},
      {"huge length", ok + "Content-Length: 99999999999999999999\r\n\r\n", 400},
      {"over the bound", ok + "Content-Length: 1001\r\n\r\n", 413},
      {"unknown coding", ok + "Transfer-Encoding: gzip, chunked\r\n\r\n", 501},
      {"bad escape", "GET /%zz HTTP/1.1\r\nHost: h\r\n\r\n", 400},
      {"NUL escape", "GET /%00 HTTP/1.1\r\nHost: h\r\n\r\n", 400},
      {"chunk size", ok + "Transfer-Encoding: chunked\r\n\r\nxyz\r\n", 400},
      {"chunk bomb", ok + "Transfer-Encoding: chunked\r\n\r\n7fffffff\r\n", 413},
      {"chunk overrun", ok + "Transfer-Encoding: chunked\r\n\r\n1\r\nab\r\n", 400},
      {"endless head", ok + "A: " + std::string(70000, 'a'), 431},
  };
  for (const Case& c : cases) {
    for (size_t step : {1u, 4096u}) {
      CAPTURE(c.what, step);
      RequestParser parser = ParseRequest(c.text, step);
      CHECK(parser.state() == State::kBad);
      CHECK(parser.error_status() == c.status);
      CHECK_FALSE(parser.error().empty());
    }
  }
  std::string many = ok;
  for (int i = 0; i < 200; ++i) many += "A: b\r\n";
  CHECK(ParseRequest(many + "\r\n", 4096).error_status() == 431);
}
