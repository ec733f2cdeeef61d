// How a load ends: by its duration, with what its schedule owes, by an interruption, by its sessions.
#include <algorithm>
#include <atomic>
#include <catch2/catch.hpp>

#include "tests/component/load/fixture.h"
#include "tests/support/token_server.h"

namespace poolmark::load::test {

using poolmark::test::Silence;
using poolmark::test::TokenServer;

TEST_CASE("a held load starts nothing after its end and lets what runs finish", "[live][H4][H3]") {
  TokenServer server({.tokens = 2, .first = milliseconds(120)});
  LoadOptions options = Closed(server.url(), 3);
  options.duration = milliseconds(300);
  options.warm_up = milliseconds(100);
  ListedSource source = ListedSource::Endless();
  const Outcomes load = Run(options, source);
  CHECK(load.result.summary.outcomes[static_cast<size_t>(Outcome::kCancelled)] == 0);
  int64_t last_start = 0;
  int64_t last_end = 0;
  uint64_t in_window = 0;
  for (const RequestRecord& record : load.records) {
    in_window += record.started >= 100'000'000 ? 1 : 0;
    last_start = std::max(last_start, record.started);
    last_end = std::max(last_end, record.end);
  }
  CHECK(last_start < 300'000'000);
  CHECK(last_end > 300'000'000);
  // Three rounds of three users, on a machine that is not too busy.
  CHECK(in_window >= 3);
  CHECK(load.result.summary.requests == in_window);
  CHECK(load.result.summary.warm_up_requests == load.records.size() - in_window);
  CHECK(load.result.summary.window_s == Approx(0.2).margin(0.001));
  CHECK_FALSE(load.result.summary.client.ran_out_at_s.has_value());
}

TEST_CASE("what a schedule owes at the end of the load is sent in the drain, or told as cut off",
          "[live][C22][H4]") {
  TokenServer server({.tokens = 1, .first = milliseconds(10)});
  LoadOptions options = Open(server.url(), "400");
  options.max_connections = 1;
  options.duration = milliseconds(100);
  ListedSource all = ListedSource::Endless();
  const Outcomes sent = Run(options, all);
  // 40 arrivals are due before the end; one connection serves about ten of them by then.
  CHECK(sent.result.summary.requests == 40);
  CHECK(sent.result.summary.ok == 40);
  CHECK(sent.result.summary.ttft->max > 300);
  CHECK(sent.result.summary.client.unsent_arrivals == 0);
  // The wait for the one connection is not this program's delay.
  CHECK(*sent.result.summary.client.connection_wait_max_ms > 200);
  options.drain = milliseconds(50);
  ListedSource again = ListedSource::Endless();
  const Outcomes cut = Run(options, again);
  CHECK(cut.records.size() == 40);
  CHECK(Count(cut, Outcome::kCancelled) > 0);
  CHECK(Count(cut, Outcome::kCancelled) + Count(cut, Outcome::kOk) == 40);
  CHECK(cut.result.summary.warnings.size() == 2);  // more than 1 % failed, a short window
}

TEST_CASE("a request whose connection comes free at the very end of the load is still owed", "[live][H4]") {
  // Three arrivals at once, one connection: the first answer ends after the load, between two sweeps.
  TokenServer server({.tokens = 1, .first = milliseconds(150)});
  LoadOptions options = Closed(server.url(), 1);
  options.mode = LoadOptions::Mode::kTrace;
  options.max_connections = 1;
  options.duration = milliseconds(130);
  ListedSource source(ListedSource::Sessions{
      {{.at = milliseconds(0)}}, {{.at = milliseconds(0)}}, {{.at = milliseconds(0)}}});
  const Outcomes load = Run(options, source);
  CHECK(load.result.summary.ok == 3);
  CHECK(load.result.summary.client.unsent_arrivals == 0);
}

TEST_CASE("the drain has a bound, and what it cuts off is told", "[live][H4]") {
  TokenServer server({.answer = Silence});
  LoadOptions options = Closed(server.url(), 2);
  options.duration = milliseconds(50);
  options.drain = milliseconds(100);
  ListedSource source = ListedSource::Endless();
  const Outcomes load = Run(options, source);
  CHECK(Count(load, Outcome::kCancelled) == 2);
  CHECK(load.result.summary.total_s < 10);  // a request may take ten minutes
}

TEST_CASE("an interrupted load drains and leaves a complete file", "[live]") {
  TokenServer server({.tokens = 3, .first = milliseconds(20), .between = milliseconds(5)});
  std::atomic<int> stop{0};
  RunSettings settings;
  settings.stop = &stop;
  settings.tick_every = milliseconds(50);
  int ticks = 0;
  settings.on_tick = [&](const Tick& tick) {
    CHECK(tick.in_flight <= 4);
    if (++ticks == 3) stop = 1;
  };
  ListedSource source = ListedSource::Endless();
  LoadOptions options = Closed(server.url(), 4, 2);
  const Outcomes load = Run(options, source, settings);
  CHECK(load.result.summary.interrupted);
  CHECK(load.records.size() == static_cast<size_t>(server.requests()));
  CHECK(Count(load, Outcome::kOk) == load.records.size());
}

TEST_CASE("a load that runs out of sessions says when", "[live][H7]") {
  TokenServer server({.tokens = 1, .first = milliseconds(10)});
  LoadOptions options = Closed(server.url(), 2);
  options.duration = seconds(5);
  ListedSource source = ListedSource::Single(6);
  const Outcomes load = Run(options, source);
  CHECK(load.result.summary.ok == 6);
  CHECK(load.result.summary.total_s < 5);  // it does not wait for an end that brings nothing
  REQUIRE(load.result.summary.client.ran_out_at_s.has_value());
  CHECK(load.result.summary.client.users_without_session == 2);
}

}  // namespace poolmark::load::test
