// A limited number of connections: it holds, none is left unused while requests wait, and no server is
// starved.
#include <algorithm>
#include <atomic>
#include <catch2/catch.hpp>
#include <memory>
#include <thread>

#include "tests/component/load/fixture.h"
#include "tests/support/front.h"
#include "tests/support/token_server.h"

namespace poolmark::load::test {
namespace {

using poolmark::test::OneToken;
using poolmark::test::RawConnection;
using poolmark::test::TokenServer;

// Servers that know how many requests are in flight at all of them together.
class Servers {
 public:
  Servers(size_t count, milliseconds takes) {
    for (size_t i = 0; i < count; ++i) {
      servers_.push_back(std::make_unique<TokenServer>(poolmark::test::TokenServerOptions{
          .answer = [this, takes, i](RawConnection& connection, const std::string&, int) {
            const int now = ++in_flight_;
            int most = most_;
            while (most < now && !most_.compare_exchange_weak(most, now)) {
            }
            order_[order_size_++ % order_.size()] = static_cast<int>(i);
            std::this_thread::sleep_for(takes);
            --in_flight_;  // before the client can know the end
            return connection.Write(OneToken());
          }}));
    }
  }
  LoadOptions Everywhere(LoadOptions options) const {
    options.urls.clear();
    for (const auto& server : servers_)
      options.urls.push_back(*http::JoinApi(server->url(), "/v1/chat/completions"));
    return options;
  }
  std::string url() const { return servers_[0]->url(); }
  int most() const { return most_; }
  int connections() const {
    int sum = 0;
    for (const auto& server : servers_) sum += server->connections();
    return sum;
  }
  const TokenServer& at(size_t i) const { return *servers_[i]; }
  // Of the first `n` requests that came, those of server `i`.
  int64_t Early(size_t n, int i) const {
    return std::count(order_.begin(), order_.begin() + static_cast<long>(n), i);
  }

 private:
  std::atomic<int> in_flight_{0};
  std::atomic<int> most_{0};
  std::atomic<size_t> order_size_{0};
  std::array<std::atomic<int>, 4096> order_{};
  std::vector<std::unique_ptr<TokenServer>> servers_;  // last: its threads use the rest
};

}  // namespace

TEST_CASE("concurrency is exact for any loops, servers and just as many connections", "[live][C21]") {
  for (const auto& [users, loops, urls] :
       {std::tuple{3u, 2, 1u}, {4u, 3, 1u}, {7u, 3, 2u}, {4u, 2, 3u}, {5u, 1, 4u}, {2u, 8, 2u}}) {
    Servers servers(urls, milliseconds(4));
    LoadOptions options = servers.Everywhere(Closed(servers.url(), users, loops));
    options.max_connections = users;
    ListedSource source = ListedSource::Single(60);
    const Outcomes load = Run(options, source);
    INFO(users << " users, " << loops << " loops, " << urls << " URLs");
    CHECK(load.result.summary.ok == 60);
    CHECK(servers.most() == static_cast<int>(users));
    CHECK(load.result.summary.client.max_in_flight == users);
    CHECK(load.result.summary.client.waited_for_connection == 0);
    for (uint32_t i = 0; i < urls; ++i) CHECK(servers.at(i).requests() == static_cast<int>(60 / urls));
  }
}

TEST_CASE("a concurrency that the connections cannot hold is refused", "[live]") {
  Servers servers(2, milliseconds(1));
  LoadOptions options = servers.Everywhere(Closed(servers.url(), 8, 2));
  options.max_connections = 7;
  ListedSource source = ListedSource::Single(8);
  const auto refused = RunLoad(options, source, {});
  REQUIRE_FALSE(refused.ok());
  CHECK(refused.status().code() == absl::StatusCode::kInvalidArgument);
  CHECK(refused.status().message().find(
            "concurrency 8 cannot be held: 8 users of one process share 7 connections") != std::string::npos);
  CHECK(servers.at(0).requests() + servers.at(1).requests() == 0);
}

TEST_CASE("with fewer connections than servers each is asked in turn", "[live][C22]") {
  Servers servers(3, milliseconds(5));
  LoadOptions options = servers.Everywhere(Open(servers.url(), "2000", 4));
  options.max_connections = 1;  // one loop remains
  ListedSource source = ListedSource::Single(60);
  const Outcomes load = Run(options, source);
  CHECK(load.result.summary.ok == 60);
  CHECK(servers.most() == 1);
  CHECK(load.result.summary.client.loops == 1);
  // Who waited longest goes first: all three are served all the time.
  for (int i = 0; i < 3; ++i) {
    CHECK(servers.at(static_cast<size_t>(i)).requests() == 20);
    CHECK(servers.Early(30, i) >= 8);
  }
}

TEST_CASE("each server keeps its share of the connections, without closing any to change sides",
          "[live][C22]") {
  Servers servers(2, milliseconds(10));
  LoadOptions options = servers.Everywhere(Open(servers.url(), "4000"));
  options.max_connections = 4;
  ListedSource source = ListedSource::Single(80);
  const Outcomes load = Run(options, source);
  CHECK(load.result.summary.ok == 80);
  CHECK(servers.most() == 4);
  for (int i = 0; i < 2; ++i) CHECK(servers.Early(40, i) >= 12);
  // Four at the beginning; near the end, when one has no more to do, its connections may go to the other.
  CHECK(servers.connections() <= 10);
}

TEST_CASE("a connection more than the servers can share evenly does not change sides with each request",
          "[live][C22]") {
  Servers servers(2, milliseconds(3));
  LoadOptions options = servers.Everywhere(Open(servers.url(), "4000"));
  options.max_connections = 3;
  ListedSource source = ListedSource::Single(150);
  const Outcomes load = Run(options, source);
  CHECK(load.result.summary.ok == 150);
  CHECK(servers.most() == 3);
  for (int i = 0; i < 2; ++i) {
    CHECK(servers.at(static_cast<size_t>(i)).requests() == 75);
    CHECK(servers.Early(60, i) >= 20);
  }
  CHECK(servers.connections() <= 50);
}

// One session whose turns have bodies of these lengths.
class Bodies final : public SessionSource {
 public:
  explicit Bodies(std::vector<size_t> lengths) : lengths_(std::move(lengths)) {}
  std::optional<uint64_t> size() const override { return 1; }
  std::unique_ptr<Session> Open(uint64_t number) override {
    return number == 0 ? std::make_unique<One>(lengths_) : nullptr;
  }
  std::string_view api_path() const override { return "/v1/chat/completions"; }

 private:
  class One final : public Session {
   public:
    explicit One(const std::vector<size_t>& lengths) : lengths_(lengths) {}
    std::string_view id() const override { return "s"; }
    size_t turns() const override { return lengths_.size(); }
    TurnPlan turn(size_t) const override { return {}; }
    void Render(size_t index, std::string* body) override { *body += Text(lengths_[index]); }

   private:
    const std::vector<size_t>& lengths_;
  };
  std::vector<size_t> lengths_;

 public:
  static std::string Text(size_t length) {
    std::string text(length, '.');
    for (size_t i = 0; i < length; ++i) text[i] = static_cast<char>('a' + i * 7 % 26);
    return text;
  }
};

TEST_CASE("over TLS a request is as few records as hold it", "[live]") {
  const poolmark::test::TempDir dir;
  // The record's largest text is 16384 bytes; the head has some 200.
  for (const auto& [length, records] :
       {std::pair<size_t, int>{0, 1}, {300, 1}, {16000, 1}, {16384, 2}, {300'000, 19}}) {
    TokenServer server({.tokens = 1});
    poolmark::test::Front front(server.port(), true, dir / "ca.pem");
    LoadOptions options = Closed("https://127.0.0.1:" + std::to_string(front.port()), 1);
    options.tls.ca_file = dir / "ca.pem";
    Bodies source({length, length, length});
    const Outcomes load = Run(options, source);
    INFO(length << " bytes");
    CHECK(load.result.summary.ok == 3);
    CHECK(front.records() == 3 * records);
    for (const std::string& body : server.bodies()) CHECK(body == Bodies::Text(length));
  }
}

TEST_CASE("a server that is asked later gets connections of those that are idle", "[live]") {
  // All of the first server's sessions come first; its connections are idle when the second one is asked.
  Servers servers(2, milliseconds(2));
  LoadOptions options = servers.Everywhere(Closed(servers.url(), 1));
  options.mode = LoadOptions::Mode::kTrace;
  options.max_connections = 2;
  ListedSource::Sessions sessions;
  for (int i = 0; i < 8; ++i) sessions.push_back({{.at = milliseconds(i % 2 == 0 ? 0 : 400)}});
  std::stable_sort(sessions.begin(), sessions.end(),
                   [](const auto& a, const auto& b) { return *a[0].at < *b[0].at; });
  ListedSource source(std::move(sessions));
  const Outcomes load = Run(options, source);
  CHECK(load.result.summary.ok == 8);
  CHECK(servers.at(0).requests() == 4);
  CHECK(servers.at(1).requests() == 4);
  CHECK(servers.most() <= 2);
}

}  // namespace poolmark::load::test
