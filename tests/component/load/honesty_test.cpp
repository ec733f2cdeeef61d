// What a load says of itself where its circumstances are unusual: requests that end before their time,
// answers longer than the load, a program that was held up, servers that are slow to connect, limits of this
// machine.
#include <sys/socket.h>

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>
#include <thread>

#include "common/base/clock.h"
#include "common/base/json.h"
#include "tests/component/load/fixture.h"
#include "tests/component/load/plans.h"
#include "tests/support/front.h"
#include "tests/support/raw_server.h"
#include "tests/support/token_server.h"

namespace poolmark::load::test {
namespace {

using poolmark::test::Front;
using poolmark::test::OneToken;
using poolmark::test::Process;
using poolmark::test::RawConnection;
using poolmark::test::RawServer;
using poolmark::test::TempDir;
using poolmark::test::TokenServer;

// Sessions of one turn; the first one holds the program up when it is sent.
class HoldUp final : public SessionSource {
 public:
  HoldUp(std::vector<milliseconds> at, milliseconds held) : at_(std::move(at)), held_(held) {}
  std::optional<uint64_t> size() const override { return at_.size(); }
  std::unique_ptr<Session> Open(uint64_t number) override {
    if (number >= at_.size()) return nullptr;
    return std::make_unique<One>(at_[number], number == 0 ? held_ : milliseconds(0));
  }
  std::string_view api_path() const override { return "/v1/chat/completions"; }

 private:
  class One final : public Session {
   public:
    One(milliseconds at, milliseconds held) : at_(at), held_(held) {}
    std::string_view id() const override { return "s"; }
    size_t turns() const override { return 1; }
    TurnPlan turn(size_t) const override {
      TurnPlan plan;
      plan.at = at_;
      return plan;
    }
    void Render(size_t, std::string* body) override {
      std::this_thread::sleep_for(held_);
      *body += "{}";
    }

   private:
    milliseconds at_, held_;
  };
  std::vector<milliseconds> at_;
  milliseconds held_;
};

std::vector<std::string> WithOpenFiles(int most, const std::vector<std::string>& arguments) {
  std::vector<std::string> argv = {"sh", "-c",     "ulimit -n " + std::to_string(most) + "; exec \"$@\"",
                                   "sh", kProgram, "load"};
  argv.insert(argv.end(), arguments.begin(), arguments.end());
  return argv;
}

}  // namespace

TEST_CASE("requests that end before the duration are measured over the time that they took", "[live][H3]") {
  TokenServer server({.tokens = 2, .first = milliseconds(100)});
  for (uint64_t LoadOptions::*limit : {&LoadOptions::measured_requests, &LoadOptions::max_requests}) {
    LoadOptions options = Closed(server.url(), 4);
    options.duration = seconds(60);
    options.*limit = 8;
    ListedSource source = ListedSource::Endless();
    const Outcomes load = Run(options, source);
    const Summary& summary = load.result.summary;
    CHECK(summary.ok == 8);
    // Two rounds of 100 ms: no server of four users at a time is faster.
    CHECK(summary.window_s >= 0.2);
    CHECK(summary.window_s < 30);
    CHECK(summary.requests_per_second <= 40);
    CHECK(summary.output_tokens_per_second <= 80);
    CHECK(summary.whole_run);
    int64_t last = 0;
    for (const RequestRecord& record : load.records) last = std::max(last, record.end);
    CHECK(load.result.window.end == last);
  }
}

TEST_CASE("processes that wait for answers are not busy", "[live]") {
  if (NoProgram()) return;
  TokenServer server({.tokens = 2, .first = milliseconds(300), .between = milliseconds(20)});
  for (const char* requests : {"8", "16"}) {
    const TempDir dir;
    const Done done = Poolmark(
        Quick(server, {"-c", "8", "-n", requests, "--processes", "2", "--out", dir / "o", "-o", "json"}));
    INFO(done.err << done.out);
    REQUIRE(done.code == 0);
    const Json summary = *ParseJson(done.out);
    CHECK(summary["ok"] == std::atoi(requests));
    for (const Json& note : summary["notes"])
      CHECK(note.get<std::string>().find("event loops were busy") == std::string::npos);
    // Start-up and drain are the program's time, and not the load's.
    CHECK(summary["client"]["cpu_of_load_s"] >= 0);
    CHECK(summary["client"]["cpu_of_load_s"] < summary["client"]["cpu_s"]);
  }
}

TEST_CASE("a rate whose steps end before what was asked for says so", "[live]") {
  TokenServer server({.tokens = 1});
  const auto note_of = [&](const char* rate, uint64_t requests, milliseconds duration) {
    LoadOptions options = Open(server.url(), rate);
    options.measured_requests = requests;
    if (duration > milliseconds(0)) options.duration = duration;
    ListedSource source = ListedSource::Endless();
    std::string found;
    for (const std::string& note : Run(options, source).result.summary.notes)
      if (note.starts_with("the steps of the rate ended")) found += note;
    return found;
  };
  CHECK(note_of("100:100ms,200:100ms", 100, milliseconds(0)) ==
        "the steps of the rate ended after 200ms, with 30 of the 100 requests that were asked for");
  CHECK(note_of("100:100ms", 0, milliseconds(300)) ==
        "the steps of the rate ended after 100ms of the 300ms that the load was to last");
  LoadOptions limited = Open(server.url(), "100:100ms");
  limited.max_requests = 50;
  ListedSource source = ListedSource::Endless();
  CHECK_THAT(Run(limited, source).result.summary.notes,
             Catch::VectorContains(
                 std::string("the steps of the rate ended after 100ms, before the limit of 50 requests")));
  CHECK(note_of("100:100ms", 10, milliseconds(0)).empty());
  CHECK(note_of("100:100ms", 10, milliseconds(300)).empty());
  CHECK(note_of("100:100ms", 0, milliseconds(0)).empty());
  CHECK(note_of("100:100ms", 0, milliseconds(100)).empty());
  CHECK(note_of("100:100ms,100", 30, milliseconds(0)).empty());
}

TEST_CASE("what is in flight at the end of a load counts in its concurrency", "[live]") {
  TokenServer server({.tokens = 1, .first = milliseconds(900)});
  LoadOptions options = Closed(server.url(), 3, 2);
  options.duration = milliseconds(400);
  ListedSource source = ListedSource::Endless();
  const Outcomes load = Run(options, source);
  CHECK(load.result.summary.ok == 3);
  CHECK(load.result.summary.client.achieved_concurrency > 2);
  CHECK(load.result.summary.client.achieved_concurrency < 3.001);
}

TEST_CASE("the most in flight are those of one moment, not the sum of the loops' own", "[live][C21]") {
  TokenServer server({.tokens = 1, .first = milliseconds(60)});
  LoadOptions options = Closed(server.url(), 1, 2);
  options.mode = LoadOptions::Mode::kTrace;
  // Every second session is the other loop's: three of one, and when they are long over three of the other.
  ListedSource::Sessions sessions;
  for (int i = 0; i < 6; ++i) sessions.push_back({{.at = milliseconds(i % 2 == 0 ? 0 : 900)}});
  ListedSource source(std::move(sessions));
  const Outcomes load = Run(options, source);
  CHECK(load.result.summary.ok == 6);
  CHECK(load.result.summary.client.loops == 2);
  CHECK(load.result.summary.client.max_in_flight == MostInFlight(load.records));
}

TEST_CASE("a trace sends all that was due before its end, also when the program was held up beyond it",
          "[live][D4][C22]") {
  TokenServer server({.tokens = 1});
  LoadOptions options = Closed(server.url(), 1);
  options.mode = LoadOptions::Mode::kTrace;
  options.duration = milliseconds(2600);
  // Those after two seconds are looked at later than the hold-up begins; the last one is due after the end.
  HoldUp source({milliseconds(0), milliseconds(100), milliseconds(2200), milliseconds(2400),
                 milliseconds(2500), milliseconds(2700)},
                milliseconds(2800));
  const Outcomes load = Run(options, source);
  CHECK(load.result.summary.requests == 5);
  CHECK(load.result.summary.ok == 5);
  CHECK(*load.result.summary.client.schedule_error_max_ms > 300);
}

TEST_CASE("arrivals of sessions end with the sessions", "[live]") {
  TokenServer server({.tokens = 1, .first = milliseconds(60)});
  LoadOptions options = Open(server.url(), "200");
  options.rate_of_sessions = true;
  ListedSource source(ListedSource::Sessions(5, {ListedTurn{}, ListedTurn{}, ListedTurn{}}));
  const Outcomes load = Run(options, source);
  CHECK(load.result.summary.ok == 15);
  CHECK(load.result.summary.client.unfilled_arrivals == 0);
}

TEST_CASE("a connection's set-up is no schedule error", "[live]") {
  const TempDir dir;
  TokenServer server({.tokens = 1, .first = milliseconds(1), .close_each = true});
  Front front(server.port(), true, dir / "ca.pem", 0, milliseconds(150));
  LoadOptions options = Open("https://127.0.0.1:" + std::to_string(front.port()), "20");
  options.tls.ca_file = dir / "ca.pem";
  ListedSource source = ListedSource::Single(20);
  const Outcomes load = Run(options, source);
  const Summary& summary = load.result.summary;
  CHECK(summary.ok == 20);
  REQUIRE(summary.connect.has_value());
  CHECK(summary.connect->p50 >= 150);
  CHECK(*summary.client.schedule_error_p50_ms < 150);
}

TEST_CASE("a planned start finds connections that a server with a short patience has not closed", "[live]") {
  RawServer server([](RawConnection& connection) {
    const timeval patience{2, 0};
    setsockopt(connection.fd(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    while (!connection.ReadRequest().empty()) {
      if (!connection.Write(OneToken())) return;
    }
  });
  for (const int ahead : {0, 4}) {
    RunSettings settings;
    settings.start_at_wall = RealClock().Wall() + seconds(ahead) + milliseconds(500);
    ListedSource source = ListedSource::Single(40);
    const Outcomes load = Run(Closed(server.url(), 8, 2), source, settings);
    INFO(ahead << " s");
    CHECK(load.result.summary.ok == 40);
    for (const RequestRecord& record : load.records) CHECK(record.connect.value_or(0) >= 0);
  }
}

TEST_CASE("requests that this machine's limit of files fails are the client's own", "[live]") {
  if (NoProgram()) return;
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  WARN("skipped: a sanitized program that has no descriptor left cannot check its own virtual tables");
  return;
#endif
  TokenServer server({.tokens = 1, .first = milliseconds(1500)});
  const TempDir dir;
  Process process(WithOpenFiles(150, Quick(server, {"--rate", "400", "-n", "300", "-o", "json"})),
                  dir / "run");
  const int code = process.Wait(60000).value_or(-1);
  INFO(process.out() << process.err());
  REQUIRE(code == 0);
  const Json summary = *ParseJson(process.out());
  CHECK(summary["client"]["own_limits"].get<int>() > 100);
  CHECK(summary["client"]["own_limits"] == summary["outcomes"]["connect"]);
  CHECK(summary["client"]["limited"] == true);
  CHECK(summary["notes"].dump().find("not the server's doing") != std::string::npos);
}

TEST_CASE("a load that is spread over machines needs the open files of its own part", "[live]") {
  if (NoProgram()) return;
  TokenServer server({.tokens = 1});
  const TempDir dir;
  for (const auto& [workers, expected] : {std::pair{1, 2}, {4, 0}}) {
    const std::string plan = WritePlan(
        dir, "o", PlanOf(server, Synthetic(80), {{"concurrency", 160}}, WorkerOf(0, workers, Soon())));
    Process process(WithOpenFiles(150, {"--plan", plan}), dir / "run");
    const auto code = process.Wait(60000);
    INFO(workers << " workers: " << process.err());
    CHECK(code.value_or(-1) == expected);
  }
}

}  // namespace poolmark::load::test
