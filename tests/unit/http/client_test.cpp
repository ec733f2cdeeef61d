#include "common/http/client.h"

#include <catch2/catch.hpp>

#include "common/http/stoppable_client.h"
#include "tests/support/raw_server.h"
#include "tests/support/temp_dir.h"

namespace poolmark::http {
namespace {

using test::RawConnection;
using test::RawServer;

Request Get(const std::string& url) {
  Request request;
  request.url = *ParseUrl(url);
  return request;
}

RawServer::Serve Answer(const std::string& answer) {
  return [answer](RawConnection& connection) {
    if (!connection.ReadRequest().empty()) connection.Write(answer);
  };
}

}  // namespace

TEST_CASE("an answer comes with status, headers and body over IPv4, IPv6 and a Unix socket") {
  const test::TempDir dir;
  const std::string answer =
      "HTTP/1.1 404 Not Found\r\nX-Thing: a\r\nx-thing: b\r\nContent-Length: 5\r\n\r\nhello";
  RawServer v4(Answer(answer));
  RawServer v6(Answer(answer), "", true);
  RawServer local(Answer(answer), dir / "s");
  const auto client = MakeClient();
  for (const std::string& url : {v4.url(), v6.url(), local.url()}) {
    INFO(url);
    const auto response = client->Send(Get(url));
    INFO(response.status());
    REQUIRE(response.ok());
    CHECK(response->status == 404);
    CHECK(response->body == "hello");
    CHECK(response->header("X-THING") == "a");
    CHECK_FALSE(response->header("absent").has_value());
  }
}

TEST_CASE("a POST carries its body, length and headers as given") {
  std::string seen;
  RawServer server([&](RawConnection& connection) {
    seen = connection.ReadRequest();
    connection.Write("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
  });
  Request request = Get(server.url() + "/v1/x?y=1");
  request.method = "POST";
  request.headers = {{"Content-Type", "application/json"}};
  request.body = std::string(300000, 'x');
  REQUIRE(MakeClient()->Send(request).ok());
  CHECK(seen.starts_with("POST /v1/x?y=1 HTTP/1.1\r\nHost: 127.0.0.1:"));
  CHECK(seen.find("Content-Length: 300000\r\n") != std::string::npos);
  CHECK(seen.ends_with("xxx"));
  request.headers = {{"X-A", "b\r\nX-Injected: c"}};
  CHECK_FALSE(MakeClient()->Send(request).ok());
}

TEST_CASE("a stream gives its pieces as they arrive and can be stopped") {
  RawServer server([&](RawConnection& connection) {
    connection.ReadRequest();
    connection.Write(test::ChunkedHead() + test::Chunk("one"));
    connection.ReadRequest();  // waits until the client goes
  });
  std::string seen;
  const auto response = MakeClient()->Stream(Get(server.url()), [&](std::string_view piece, Nanoseconds at) {
    CHECK(at > Nanoseconds(0));
    seen += piece;
    return seen != "one";
  });
  REQUIRE(response.ok());
  CHECK(seen == "one");
  CHECK(response->body.empty());
  RawServer refusing(Answer("HTTP/1.1 503 Busy\r\nContent-Length: 4\r\n\r\nbusy"));
  bool called = false;
  const auto refused =
      MakeClient()->Stream(Get(refusing.url()), [&](std::string_view, Nanoseconds) { return called = true; });
  REQUIRE(refused.ok());
  CHECK(refused->status == 503);
  CHECK(refused->body == "busy");
  CHECK_FALSE(called);
}

TEST_CASE("a stop ends the call that waits for its answer, and later ones before they begin") {
  std::stop_source stop;
  RawServer server([&](RawConnection& connection) {
    connection.ReadRequest();
    stop.request_stop();
    connection.PeerCloses();
  });
  const auto client = MakeStoppableClient(stop.get_token());
  Request request = Get(server.url());
  request.timeout = std::chrono::seconds(60);
  const auto response = client->Send(request);
  CHECK(response.status().code() == absl::StatusCode::kCancelled);
  CHECK(std::string(response.status().message()).find("stopped while reading the answer") !=
        std::string::npos);
  CHECK(client->Send(request).status().code() == absl::StatusCode::kCancelled);
  // Another client is not concerned.
  RawServer other(Answer("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"));
  CHECK(MakeStoppableClient({})->Send(Get(other.url())).ok());
}

TEST_CASE("transport failures name the URL and what was being done") {
  uint16_t closed_port = 0;
  {
    RawServer server(Answer(""));
    closed_port = server.port();
  }
  const std::string closed = "http://127.0.0.1:" + std::to_string(closed_port) + "/p";
  auto response = MakeClient()->Send(Get(closed));
  REQUIRE_FALSE(response.ok());
  CHECK(std::string(response.status().message()).find(closed) != std::string::npos);
  CHECK(std::string(response.status().message()).find("connect") != std::string::npos);

  RawServer silent([](RawConnection& connection) {
    connection.ReadRequest();
    connection.PeerCloses();
  });
  Request request = Get(silent.url());
  request.timeout = std::chrono::milliseconds(60);
  response = MakeClient()->Send(request);
  CHECK(std::string(response.status().message())
            .find("timed out while reading the answer after 60 ms in all") != std::string::npos);
  request.timeout = std::chrono::seconds(10);
  request.idle_timeout = std::chrono::milliseconds(50);
  response = MakeClient()->Send(request);
  CHECK(std::string(response.status().message()).find("50 ms without a byte") != std::string::npos);

  RawServer large(Answer("HTTP/1.1 200 OK\r\n\r\n" + std::string(2000, 'x')));
  request = Get(large.url());
  request.max_body_bytes = 1000;
  CHECK(std::string(MakeClient()->Send(request).status().message()).find("more than 1000 bytes") !=
        std::string::npos);
  CHECK_FALSE(MakeClient()->Send(Get("http://no-such-host.invalid/")).ok());
}

}  // namespace poolmark::http
