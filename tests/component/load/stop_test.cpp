// Loads that end before they begin, whose start is refused or whose processes die.
#include <algorithm>
#include <catch2/catch.hpp>
#include <csignal>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "common/base/clock.h"
#include "common/base/files.h"
#include "common/base/json.h"
#include "tests/component/load/fixture.h"
#include "tests/component/load/plans.h"
#include "tests/support/token_server.h"
#include "tests/support/waiting.h"

namespace poolmark::load::test {

using poolmark::test::Process;
using poolmark::test::TempDir;
using poolmark::test::TokenServer;
using poolmark::test::WaitFor;

namespace {

// The plan of worker 0 of 2, with results in <dir>/o.
std::string WorkersPlan(const TempDir& dir, const TokenServer& server, int processes, int64_t start) {
  Json plan = PlanOf(server, Synthetic(20), {{"concurrency", 8}}, WorkerOf(0, 2, start));
  plan["processes"] = processes;
  return WritePlan(dir, "o", plan);
}

std::vector<pid_t> ChildrenOf(pid_t parent) {
  std::vector<pid_t> children;
  const auto names = ListDir("/proc");
  for (const std::string& name : *names) {
    const int pid = std::atoi(name.c_str());
    const auto stat = pid > 0 ? ReadPseudoFile("/proc/" + name + "/stat") : Result<std::string>("");
    if (!stat.ok() || stat->empty()) continue;
    // "PID (NAME) STATE PPID …", and NAME may hold anything.
    const size_t at = stat->rfind(") ");
    if (at != std::string::npos && std::atoi(stat->c_str() + at + 4) == parent) children.push_back(pid);
  }
  return children;
}

}  // namespace

TEST_CASE("a planned start that is past is refused, and nothing stays", "[live]") {
  if (NoProgram()) return;
  TokenServer server({.tokens = 2});
  for (const int processes : {1, 2}) {
    const TempDir dir;
    const Done done = Poolmark({"--plan", WorkersPlan(dir, server, processes, 1'000'000'000)});
    INFO(processes << " processes: " << done.out << done.err);
    CHECK(done.code == 2);
    CHECK(done.err.find("in the past") != std::string::npos);
    CHECK(done.err.find("later one") != std::string::npos);
    CHECK(ListDir(dir / "o")->empty());
  }
  CHECK(server.requests() == 0);
}

TEST_CASE("a signal before the planned start ends the load at once, with nothing sent", "[live]") {
  if (NoProgram()) return;
  TokenServer server({.tokens = 2});
  for (const int signal : {SIGTERM, SIGINT}) {
    for (const int processes : {1, 2}) {
      const TempDir dir;
      const int64_t start = (RealClock().Wall() + std::chrono::hours(5)).count();
      Process process({kProgram, "load", "--plan", WorkersPlan(dir, server, processes, start)}, dir / "run");
      REQUIRE(WaitFor([&] { return process.out().find("\"start\"") != std::string::npos; }));
      process.Signal(signal);
      const auto code = process.Wait(30000);  // five hours, were it to wait
      INFO(processes << " processes, signal " << signal << ": " << process.out() << process.err());
      REQUIRE(code == 130);
      const auto events = ParseJsonLines(process.out(), "events");
      REQUIRE(events.ok());
      const Json& end = events->back();
      CHECK(end["event"] == "end");
      CHECK(end["summary"]["interrupted"] == true);
      CHECK(end["summary"]["requests"] == 0);
      // It began when it was stopped.
      CHECK(end["started_wall_ns"].get<int64_t>() < start);
      CHECK(end["window_ns"]["total_end"].get<int64_t>() >= 0);
      CHECK(ReadRecords(dir / "o/requests.jsonl.zst")->empty());
    }
  }
  CHECK(server.requests() == 0);
}

TEST_CASE("a load process that is killed is named with its signal, and the others' records stay", "[live]") {
  if (NoProgram()) return;
  TokenServer server({.tokens = 2, .first = milliseconds(2)});
  const TempDir dir;
  Process process(
      LoadArgv(Quick(server, {"-c", "4", "--duration", "600s", "--processes", "2", "--out", dir / "o"})),
      dir / "run");
  // Each process has some two users of the four.
  REQUIRE(WaitFor([&] { return server.requests() >= 100; }));
  const std::vector<pid_t> children = ChildrenOf(process.pid());
  REQUIRE(children.size() == 2);
  kill(children.back(), SIGKILL);
  const auto code = process.Wait(30000);
  INFO(process.out() << process.err());
  REQUIRE(code == 1);
  CHECK(process.err().find("ended by signal 9 (SIGKILL)") != std::string::npos);
  CHECK(process.err().find(dir / "o/requests.*.jsonl.zst") != std::string::npos);
  CHECK_FALSE(FileExists(dir / "o/load.json"));
  CHECK_FALSE(FileExists(dir / "o/requests.jsonl.zst"));
  size_t whole = 0;
  for (const char* part : {"o/requests.0.part.jsonl.zst", "o/requests.1.part.jsonl.zst"}) {
    if (!FileExists(dir / part)) continue;
    const auto records = ReadRecords(dir / part);
    REQUIRE(records.ok());
    CHECK_FALSE(records->empty());
    ++whole;
  }
  CHECK(whole == 1);
  // The dead one's is kept under a name that says what it is, and read as far as it goes.
  size_t torn = 0;
  for (const char* part : {"o/requests.0.part.partial.jsonl.zst", "o/requests.1.part.partial.jsonl.zst"})
    torn += FileExists(dir / part) ? 1 : 0;
  CHECK(torn == 1);
  const auto names = ListDir(dir / "o");
  CHECK(std::none_of(names->begin(), names->end(),
                     [](const std::string& name) { return name.ends_with(".tmp"); }));
  // The next load there begins with nothing of it.
  REQUIRE(Poolmark(Quick(server, {"-c", "1", "-n", "2", "--out", dir / "o"})).code == 0);
  CHECK(ListDir(dir / "o")->size() == 3);
  CHECK(ChildrenOf(process.pid()).empty());
}

}  // namespace poolmark::load::test
