// Sessions: turns, think times, sub-agents, traces, warm-ups.
#include <algorithm>
#include <catch2/catch.hpp>
#include <map>

#include "tests/component/load/fixture.h"
#include "tests/support/token_server.h"
#include "tests/support/waiting.h"

namespace poolmark::load::test {

using poolmark::test::RawConnection;
using poolmark::test::StreamOf;
using poolmark::test::TokenServer;
using poolmark::test::WaitFor;

TEST_CASE("turns follow each other with their think times; live answers go into the next turn",
          "[live][C21][D3]") {
  TokenServer server({.tokens = 2});
  ListedSource source(ListedSource::Sessions(2, {{}, {.think = milliseconds(80)}, {.think = seconds(100)}}),
                      true);
  LoadOptions options = Closed(server.url(), 2);
  options.think_cap = milliseconds(100);
  const Outcomes load = Run(options, source);
  REQUIRE(load.records.size() == 6);
  std::map<std::pair<uint64_t, uint32_t>, RequestRecord> by;
  for (const RequestRecord& record : load.records) by[{record.session, record.turn}] = record;
  for (uint64_t session = 0; session < 2; ++session) {
    CHECK(by[{session, 1}].started - by[{session, 0}].end >= 80'000'000);
    CHECK(by[{session, 1}].started - by[{session, 0}].end < 2'000'000'000);
    CHECK(by[{session, 2}].started - by[{session, 1}].end >= 100'000'000);
  }
  const std::vector<std::string> bodies = server.bodies();
  CHECK(std::any_of(bodies.begin(), bodies.end(), [](const std::string& b) {
    return b.find("\"turn\":2,\"history\":\" t0 t1 t0 t1\"") != std::string::npos;
  }));
}

TEST_CASE("a failed turn ends a session with live answers, and only such a one", "[live]") {
  const auto serve = [](RawConnection& connection, const std::string&, int number) {
    return connection.Write(number == 0 ? "HTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n" : StreamOf(1));
  };
  for (const bool live : {true, false}) {
    TokenServer server({.answer = serve});
    ListedSource source(ListedSource::Sessions(2, {{}, {}, {}}), live);
    const Outcomes load = Run(Closed(server.url(), 1), source);
    CHECK(load.records.size() == (live ? 4u : 6u));
    CHECK(load.result.summary.client.abandoned_turns == (live ? 2u : 0u));
  }
}

TEST_CASE("sub-agents run beside their parent", "[live][D1]") {
  const TokenServer* seen = nullptr;
  // The three sub-agents are answered when all of them have been asked.
  const auto serve = [&seen](RawConnection& connection, const std::string&, int number) {
    if (number >= 1 && number <= 3) WaitFor([&] { return seen->requests() >= 4; });
    return connection.Write(StreamOf(1));
  };
  TokenServer server({.answer = serve});
  seen = &server;
  ListedSource source(
      ListedSource::Sessions(1, {{}, {.after = {0}}, {.after = {0}}, {.after = {0}}, {.after = {1, 2, 3}}}));
  const Outcomes load = Run(Closed(server.url(), 1), source);
  CHECK(load.records.size() == 5);
  CHECK(server.max_in_flight() == 3);
  CHECK(load.records.back().turn == 4);
}

TEST_CASE("a trace keeps its times, its simultaneous arrivals and its speed-up", "[live][D4]") {
  TokenServer server({.tokens = 1});
  ListedSource::Sessions sessions;
  for (int burst = 0; burst < 3; ++burst) {
    for (int i = 0; i < 10; ++i)
      sessions.push_back({{.at = milliseconds(400 * burst)}, {.at = milliseconds(400 * burst + 200)}});
  }
  for (const int loops : {1, 2}) {
    LoadOptions options = Closed(server.url(), 1, loops);
    options.mode = LoadOptions::Mode::kTrace;
    options.speedup = 2;
    ListedSource source(sessions);
    const Outcomes load = Run(options, source);
    CHECK(load.result.summary.ok == 60);
    for (const RequestRecord& record : load.records) {
      const int64_t due = static_cast<int64_t>(record.session / 10) * 200'000'000 + record.turn * 100'000'000;
      // A turn waits for the one before it; a session's first turn waits for nothing.
      CHECK(*record.intended >= due);
      if (record.turn == 0) CHECK(*record.intended == due);
      CHECK(record.started >= *record.intended);
    }
  }
}

TEST_CASE("arrivals send turns that wait before they open sessions", "[live][C22][D3]") {
  TokenServer server({.tokens = 1});
  ListedSource source(ListedSource::Sessions(10, {{}, {}, {}}));
  const Outcomes load = Run(Open(server.url(), "200"), source);
  CHECK(load.result.summary.ok == 30);
  CHECK(server.requests() == 30);
  std::vector<int64_t> intended;
  for (const RequestRecord& record : load.records) intended.push_back(*record.intended);
  std::sort(intended.begin(), intended.end());
  for (size_t i = 1; i < intended.size(); ++i) {
    // Arrivals of a slow machine may find no turn ready; those that send keep to the schedule.
    CHECK(intended[i] > intended[i - 1]);
    CHECK(intended[i] % 5'000'000 == 0);
  }
  LoadOptions sessions = Open(server.url(), "200");
  sessions.rate_of_sessions = true;
  ListedSource again(ListedSource::Sessions(10, {{}, {}, {}}));
  CHECK(Run(sessions, again).result.summary.ok == 30);
}

TEST_CASE("warm-up by requests, primers and a limit of requests", "[live][H1][H3]") {
  TokenServer server({.tokens = 1, .first = milliseconds(2)});
  LoadOptions options = Closed(server.url(), 2);
  options.warm_up_requests = 10;
  options.max_requests = 30;
  ListedSource source(ListedSource::Sessions(1, {{.primer = true}, {}}), false, true);
  const Outcomes load = Run(options, source);
  CHECK(load.records.size() == 30);
  CHECK(server.requests() == 30);
  CHECK(load.result.summary.requests + load.result.summary.warm_up_requests + load.result.summary.primers ==
        30);
  CHECK(load.result.summary.primers >= 14);
  CHECK(load.result.summary.warm_up_requests >= 4);
  CHECK(load.result.summary.warm_up_requests <= 6);
}

TEST_CASE("users start evenly over the ramp", "[live]") {
  TokenServer server({.tokens = 1, .first = milliseconds(300)});
  LoadOptions options = Closed(server.url(), 4);
  options.ramp_up = milliseconds(200);
  ListedSource source = ListedSource::Single(4);
  const Outcomes load = Run(options, source);
  for (const RequestRecord& record : load.records) {
    CHECK(record.started >= static_cast<int64_t>(record.session) * 50'000'000);
    CHECK(record.started < static_cast<int64_t>(record.session) * 50'000'000 + 2'000'000'000);
  }
}

}  // namespace poolmark::load::test
