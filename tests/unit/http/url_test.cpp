#include <catch2/catch.hpp>

#include "common/http/client.h"

namespace poolmark::http {

TEST_CASE("URLs of every kind are read and written") {
  const auto check = [](const std::string& text, const std::string& expected) {
    const auto url = ParseUrl(text);
    INFO(text << ": " << url.status());
    REQUIRE(url.ok());
    CHECK(url->ToString() == expected);
  };
  check("http://host", "http://host:80/");
  check("http://host:8000/v1?x=1#frag", "http://host:8000/v1?x=1");
  check("http://host?x=1", "http://host:80/?x=1");
  check("https://a.example/p", "https://a.example:443/p");
  check("http://[::1]:18080/metrics", "http://[::1]:18080/metrics");
  check("http://[fe80::1%eth0]", "http://[fe80::1%eth0]:80/");
  check("unix:/run/x.sock:/v1/models", "unix:/run/x.sock:/v1/models");
  check("unix:/run/x.sock", "unix:/run/x.sock:/");
}

TEST_CASE("bad URLs are refused with the reason") {
  for (const std::string text :
       {"", "host:80", "ftp://host/", "http://", "http://:80", "http://host:", "http://host:0",
        "http://host:65536", "http://host:8a", "http://user:secret@host/", "http://ho st/", "http://host/a b",
        "http://host/a\r\nX: y", "http://[::1", "http://[zz]:1/", "http://[::1]x",
        "unix:", "http://h\xc3\xa9/", "http://[::1]:"}) {
    INFO(text);
    const auto url = ParseUrl(text);
    CHECK_FALSE(url.ok());
    CHECK(url.status().message().find("url") != std::string::npos);
  }
  CHECK_FALSE(ParseUrl("unix:/" + std::string(120, 'a')).ok());
}

TEST_CASE("an API path joins a base with or without /v1") {
  const auto join = [](const std::string& base) { return JoinApi(base, "/v1/chat/completions")->ToString(); };
  CHECK(join("http://h:1") == "http://h:1/v1/chat/completions");
  CHECK(join("http://h:1/") == "http://h:1/v1/chat/completions");
  CHECK(join("http://h:1/v1") == "http://h:1/v1/chat/completions");
  CHECK(join("http://h:1/v1/") == "http://h:1/v1/chat/completions");
  CHECK(join("http://h:1/openai/v1") == "http://h:1/openai/v1/chat/completions");
  CHECK(join("unix:/s:/v1") == "unix:/s:/v1/chat/completions");
  CHECK(JoinApi("http://h:1/v1", "/metrics")->ToString() == "http://h:1/v1/metrics");
  CHECK_FALSE(JoinApi("http://h/?a=b", "/v1/x").ok());
}

TEST_CASE("a base with the whole endpoint is taken for what it means") {
  CHECK(JoinApi("http://h:1/v1/chat/completions", "/v1/chat/completions")->ToString() ==
        "http://h:1/v1/chat/completions");
  CHECK(JoinApi("http://h:1/a/v1/completions/", "/v1/completions")->ToString() ==
        "http://h:1/a/v1/completions");
  CHECK(JoinApi("http://h:1/v1/completions", "/metrics")->ToString() == "http://h:1/metrics");
  CHECK(JoinApi("http://h:1/v1/chat/completions", "/tokenize")->ToString() == "http://h:1/tokenize");
  for (const auto& [base, path] : {std::pair("http://h:1/v1/chat/completions", "/v1/completions"),
                                   std::pair("http://h:1/v1/completions", "/v1/chat/completions")}) {
    const auto other = JoinApi(base, path);
    REQUIRE_FALSE(other.ok());
    CHECK(other.status().message().find("another endpoint") != std::string::npos);
  }
}

}  // namespace poolmark::http
