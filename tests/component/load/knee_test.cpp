// The search for the knee: where it ends, what it leaves, what its levels cost.
#include <sys/resource.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <csignal>
#include <nlohmann/json.hpp>
#include <thread>

#include "common/base/files.h"
#include "common/base/json.h"
#include "common/report/knee_page.h"
#include "tests/component/load/fixture.h"
#include "tests/component/load/process.h"
#include "tests/component/load/program.h"
#include "tests/support/token_server.h"
#include "tests/support/waiting.h"

namespace poolmark::load::test {
namespace {

using poolmark::test::OneToken;
using poolmark::test::Process;
using poolmark::test::RawConnection;
using poolmark::test::TempDir;
using poolmark::test::TokenServer;
using poolmark::test::WaitFor;

// Answers after a second while more than ten requests are there, soon else.
class CrowdedServer {
 public:
  explicit CrowdedServer(milliseconds soon)
      : server_({.answer = [this, soon](RawConnection& connection, const std::string&, int) {
          std::this_thread::sleep_for(++there_ > 10 ? milliseconds(1000) : soon);
          --there_;
          return connection.Write(OneToken());
        }}) {}
  const TokenServer& get() const { return server_; }

 private:
  std::atomic<int> there_{0};
  TokenServer server_;
};

double ChildSeconds() {
  rusage usage{};
  getrusage(RUSAGE_CHILDREN, &usage);
  return static_cast<double>(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
         static_cast<double>(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
}

}  // namespace

TEST_CASE("the search for the knee stops where the limits no longer hold", "[live][E5]") {
  if (NoProgram()) return;
  CrowdedServer server(milliseconds(20));
  const TempDir dir;
  const Done done = Poolmark(Quick(server.get(), {"--find-knee", "--slo", "ttft=700ms", "-n", "24", "-o",
                                                  "json", "--out", dir / "sweep"}));
  INFO(done.err << done.out);
  const Json result = *ParseJson(done.out);
  for (const Json& level : result["levels"]) {
    if (!level["summary"]["client"]["limited"].get<bool>()) continue;
    // The machine is too busy to hold a level; then the knee is below it, as the search says.
    WARN("the client was too slow at level " << level["level"]);
    CHECK(result["knee"] < level["level"]);
    return;
  }
  REQUIRE(done.code == 0);
  CHECK(result["knee"].get<double>() >= 8);
  CHECK(result["knee"].get<double>() <= 15);
  CHECK(result["levels"].size() >= 5);
  CHECK(*ParseJson(*ReadFile(dir / "sweep/knee.json")) == result);
  CHECK(FileExists(dir / "sweep/c8/requests.jsonl.zst"));
}

TEST_CASE("the processor time of a level's processes is the level's own", "[live]") {
  if (NoProgram()) return;
  CrowdedServer server(milliseconds(5));
  const TempDir dir;
  const double before = ChildSeconds();
  const Done done = Poolmark(Quick(server.get(), {"--find-knee", "--slo", "ttft=700ms", "-c", "2", "-n", "40",
                                                  "--processes", "2", "-o", "json", "--out", dir / "sweep"}));
  const double used = ChildSeconds() - before;
  INFO(done.err << done.out);
  const Json result = *ParseJson(done.out);
  REQUIRE_FALSE(result["levels"].empty());  // a busy machine holds fewer
  double of_levels = 0;
  for (const Json& level : result["levels"]) {
    CHECK(level["summary"]["client"]["cpu_of_load_s"].get<double>() > 0);
    of_levels += level["summary"]["client"]["cpu_s"].get<double>();
  }
  // The levels together used no more than the program and its processes.
  CHECK(of_levels <= used + 0.001);
}

TEST_CASE("a search for the knee whose level measures nothing says so", "[live]") {
  if (NoProgram()) return;
  TokenServer server({.tokens = 2, .first = milliseconds(5)});
  const Done done = Poolmark(Quick(server, {"--find-knee", "--slo", "ttft=10s", "-c", "1", "--duration",
                                            "100ms", "--warm-up-requests", "500", "-o", "json"}));
  INFO(done.err << done.out);
  CHECK(done.code == 1);
  const Json result = *ParseJson(done.out);
  CHECK(result["levels"].empty());
  CHECK(result["knee"].is_null());
  CHECK(result["error"].get<std::string>().find("no request began in the level's measured window") !=
        std::string::npos);
}

TEST_CASE("a search for the knee that is interrupted tells the levels that it measured", "[live][E5]") {
  if (NoProgram()) return;
  std::atomic<int> answered{0};
  TokenServer server({.answer = [&](RawConnection& connection, const std::string&, int) {
    // Slow enough that a busy machine's own delay is small beside it: a level that it spoils would end the
    // search.
    ++answered;
    std::this_thread::sleep_for(milliseconds(200));
    return connection.Write(OneToken());
  }});
  const TempDir dir;
  Process process(LoadArgv(Quick(server, {"--find-knee", "--slo", "ttft=10s", "-n", "8", "--out",
                                          dir / "sweep", "-o", "json"})),
                  dir / "run");
  REQUIRE(WaitFor([&] { return answered >= 10; }));
  process.Signal(SIGINT);
  CHECK(process.Wait(60000).value_or(-1) == 130);
  INFO(process.out() << process.err());
  const Json printed = *ParseJson(process.out());
  CHECK(printed["interrupted"] == true);
  CHECK(printed["knee"].is_null());
  CHECK(printed["levels"].size() >= 1);
  CHECK(printed["highest_passed"].is_number());
  CHECK(*ParseJson(*ReadFile(dir / "sweep/knee.json")) == printed);
  const Done done = Poolmark({dir / "sweep"}, "report");
  CHECK(done.code == 1);
  CHECK(done.out.find("interrupted") != std::string::npos);
  CHECK(report::KneeCharts(*report::ReadKneeReport(dir / "sweep")).size() == 1);
  CHECK(ReadFile(dir / "sweep/report.html")->find("charts-data") != std::string::npos);
}

}  // namespace poolmark::load::test
