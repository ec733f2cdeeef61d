// What a load tells while it runs and at its end: stdout that cannot be written, progress, exports, signals.
#include <algorithm>
#include <catch2/catch.hpp>
#include <csignal>
#include <nlohmann/json.hpp>

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

Done InShell(const std::string& script, const std::vector<std::string>& program) {
  const TempDir dir;
  std::vector<std::string> argv = {"sh", "-c", script, "sh"};
  argv.insert(argv.end(), program.begin(), program.end());
  Process process(argv, dir / "run");
  const auto code = process.Wait(60000);
  return {code.value_or(-1), process.out(), process.err()};
}

bool SaysIn(const Json& notes, const std::string& text) {
  return std::any_of(notes.begin(), notes.end(), [&](const Json& note) {
    return note.get<std::string>().find(text) != std::string::npos;
  });
}

}  // namespace

TEST_CASE("a summary that cannot be written is no success, in any form", "[live]") {
  if (NoProgram()) return;
  TokenServer server({.tokens = 2});
  const TempDir dir;
  const std::string plan = WritePlan(dir, "p", PlanOf(server, Synthetic(4), {{"concurrency", 2}}));
  const std::vector<std::vector<std::string>> loads = {
      Quick(server, {"-c", "2", "-n", "4", "--out", dir / "o"}),
      Quick(server, {"-c", "2", "-n", "4", "-o", "json"}),
      Quick(server, {"--find-knee", "--slo", "ttft=1us", "-c", "1", "-n", "2", "-o", "json"}),
      {"--plan", plan}};
  std::vector<std::vector<std::string>> commands;
  for (const auto& load : loads) commands.push_back(LoadArgv(load));
  commands.push_back({kProgram, "report", dir / "o"});
  commands.push_back({kProgram, "report", dir / "o", "-o", "json"});
  commands.push_back({kProgram, "load", "--help"});
  for (const auto& command : commands) {
    const Done done = InShell("exec \"$@\" >/dev/full", command);
    std::string words;
    for (const std::string& word : command) words += word + " ";
    INFO(words << "\n" << done.err);
    CHECK(done.code == 1);
    CHECK(done.err.find("writing the output: ") != std::string::npos);
  }
  // The loads were whole all the same.
  CHECK(FileExists(dir / "o/load.json"));
  CHECK(FileExists(dir / "p/load.json"));
}

TEST_CASE("a load whose progress nobody reads any more goes on and leaves its files", "[live]") {
  if (NoProgram()) return;
  TokenServer server({.tokens = 2, .first = milliseconds(5)});
  for (const char* processes : {"1", "2"}) {
    const TempDir dir;
    const std::string plan = WritePlan(
        dir, "p",
        PlanOf(server, Synthetic(400), {{"concurrency", 1}}, {{"processes", std::atoi(processes)}}));
    // More than a second; the reader is gone after the first line. What is printed then is lost, as `head`
    // wants it.
    const std::vector<std::vector<std::string>> loads = {
        Quick(server,
              {"-c", "1", "-n", "300", "--processes", processes, "--progress", "text", "--out", dir / "o"}),
        {"--plan", plan}};
    for (const auto& load : loads) {
      const Done done =
          InShell("{ \"$@\"; echo $? >" + (dir / "code") + "; } 2>&1 | head -n 1", LoadArgv(load));
      INFO(done.out);
      const int code = std::atoi(ReadFile(dir / "code")->c_str());
      CHECK((code == 141 || code == 0));  // 0: `head` was still there
    }
    CHECK(ReadRecords(dir / "o/requests.jsonl.zst")->size() == 300);
    CHECK(FileExists(dir / "o/load.json"));
    CHECK(ReadRecords(dir / "p/requests.jsonl.zst")->size() == 400);
    CHECK(FileExists(dir / "p/load.json"));
  }
}

TEST_CASE("the last line of progress is the load at its end", "[live]") {
  if (NoProgram()) return;
  TokenServer server({.tokens = 2});
  const TempDir dir;
  const Done done = Poolmark(Quick(server, {"-c", "2", "-n", "7", "--progress", "json", "--out", dir / "o"}));
  REQUIRE(done.code == 0);
  const auto lines = ParseJsonLines(done.err, "progress");
  REQUIRE(lines.ok());
  REQUIRE_FALSE(lines->empty());
  CHECK(lines->back()["ended"] == 7);
  CHECK(lines->back()["in_flight"] == 0);
  // The same lines as in the file.
  CHECK(*lines == *ParseJsonLines(*ReadFile(dir / "o/timeline.jsonl"), "timeline"));
}

TEST_CASE("both exports of one load", "[live]") {
  if (NoProgram()) return;
  TokenServer server({.tokens = 2});
  for (const std::vector<std::string>& how : std::vector<std::vector<std::string>>{
           {"--export", "aiperf,vllm"}, {"--export", "aiperf", "--export", "vllm"}}) {
    const TempDir dir;
    auto arguments = Quick(server, {"-c", "2", "-n", "4", "--out", dir / "o"});
    arguments.insert(arguments.end(), how.begin(), how.end());
    const Done done = Poolmark(arguments);
    INFO(done.err);
    REQUIRE(done.code == 0);
    for (const char* name : {"profile_export.jsonl", "profile_export_aiperf.json", "vllm.json"})
      CHECK(FileExists(dir / ("o/" + std::string(name))));
  }
}

TEST_CASE("a load whose terminal goes ends with whole files, and says what was cut off", "[live]") {
  if (NoProgram()) return;
  TokenServer server({.tokens = 2000, .first = milliseconds(1), .between = milliseconds(20)});
  for (const int signal : {SIGHUP, SIGTERM}) {
    for (const char* processes : {"1", "2"}) {
      const TempDir dir;
      const int before = server.requests();
      Process process(LoadArgv(Quick(server, {"-c", "4", "--duration", "600s", "--processes", processes,
                                              "--out", dir / "o", "-o", "json"})),
                      dir / "run");
      REQUIRE(WaitFor([&] { return server.requests() == before + 4; }));
      process.Signal(signal);
      const auto code = process.Wait(30000);
      INFO(processes << " processes, signal " << signal << ": " << process.err());
      REQUIRE(code == 130);
      const Json summary = *ParseJson(process.out());
      CHECK(summary["interrupted"] == true);
      CHECK(SaysIn(summary["notes"], "4 requests were cut off by the interruption"));
      CHECK_FALSE(SaysIn(summary["notes"], "drain"));
      CHECK(ReadRecords(dir / "o/requests.jsonl.zst")->size() == 4);
    }
  }
}

TEST_CASE("nohup keeps the end of the terminal from a load", "[live]") {
  if (NoProgram()) return;
  TokenServer server({.tokens = 2, .first = milliseconds(10)});
  const Done done = InShell("trap '' HUP; \"$@\" & load=$!; sleep 0.3; kill -HUP $load; wait $load",
                            LoadArgv(Quick(server, {"-c", "1", "-n", "100", "-o", "json"})));
  CHECK(done.code == 0);
  CHECK((*ParseJson(done.out))["ok"] == 100);
}

}  // namespace poolmark::load::test
