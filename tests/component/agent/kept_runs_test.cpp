// What an agent keeps of runs that have ended.
#include <sys/time.h>

#include <catch2/catch.hpp>

#include "agent/api/runs.h"
#include "agent/guard/ledger.h"
#include "agent/guard/proc.h"
#include "common/base/files.h"
#include "tests/support/temp_dir.h"

using namespace poolmark;
using namespace poolmark::test;

namespace {

struct Machine {
  TempDir dir;
  agent::AgentConfig config;
  Machine() {
    config.state_dir = dir / "state";
    config.work_dir = dir / "work";
    config.guard = "/bin/false";  // nothing of it is to be swept
  }
  std::string Directory(const std::string& run) const { return dir / ("state/runs/" + run); }
  // A run that was torn down with proof `age` ago and left a log of a MiB; the controller has seen that.
  void Ended(const std::string& run, std::chrono::seconds age, bool acknowledged = true) {
    REQUIRE(MakeDirs(Directory(run) + "/logs").ok());
    guard::Ledger ledger;
    REQUIRE(ledger.Open(Directory(run) + "/ledger").ok());
    std::vector<guard::Record> records(3);
    records[0] = guard::Record("run").Add("run", run).Add("job", "job").Add("epoch", 1);
    records[0].Add("boot", guard::BootId());
    records[1] = guard::Record("teardown").Add("cause", "the job ended").Add("keep", 0);
    records[2] = guard::Record("torn_down").Add("clean", 1).Add("left", 0).Add("cause", "the job ended");
    REQUIRE(ledger.Append(records).ok());
    REQUIRE(AtomicWriteFile(Directory(run) + "/logs/engine.0", std::string(1u << 20, 'x')).ok());
    if (!acknowledged) return;
    const std::string mark = Directory(run) + "/acknowledged";
    REQUIRE(AtomicWriteFile(mark, "").ok());
    const timeval then{time(nullptr) - age.count(), 0};
    const timeval times[2] = {then, then};
    REQUIRE(utimes(mark.c_str(), times) == 0);
  }
  std::vector<std::string> Left() {
    agent::Runs runs(config, std::nullopt, std::nullopt);
    REQUIRE(runs.Open().ok());
    auto names = ListDir(dir / "state/runs");
    REQUIRE(names.ok());
    return *names;
  }
};

using Names = std::vector<std::string>;

}  // namespace

TEST_CASE("logs of ended runs are kept for a day and within their bytes, the oldest go first") {
  using namespace std::chrono_literals;
  Machine machine;
  machine.Ended("job-e1-aaaaaa", 25h);
  machine.Ended("job-e2-bbbbbb", 3h);
  machine.Ended("job-e3-cccccc", 2h);
  machine.Ended("job-e4-dddddd", 1h);
  machine.Ended("job-e0-unseen", 50h, false);  // the proof is still to be told
  CHECK(machine.Left() == Names{"job-e0-unseen", "job-e2-bbbbbb", "job-e3-cccccc", "job-e4-dddddd"});
  machine.config.keep_logs_bytes = (5u << 20) / 2;
  CHECK(machine.Left() == Names{"job-e0-unseen", "job-e3-cccccc", "job-e4-dddddd"});
  machine.config.keep_logs_bytes = 0;
  CHECK(machine.Left() == Names{"job-e0-unseen", "job-e4-dddddd"});  // the newest one may just be read
}

TEST_CASE("a lease file that is empty or cut anywhere: the grants of the ledgers still count") {
  using namespace std::chrono_literals;
  const std::string whole = R"({"schema_version":1,"epoch":9,"job":"job"})";
  for (size_t cut = 0; cut <= whole.size(); ++cut) {
    INFO(whole.substr(0, cut));
    Machine machine;
    machine.Ended("job-e4-dddddd", 1h);
    REQUIRE(AtomicWriteFile(machine.dir / "state/lease.json", whole.substr(0, cut)).ok());
    agent::Runs runs(machine.config, std::nullopt, std::nullopt);
    REQUIRE(runs.Open().ok());
    CHECK(runs.highest_epoch() == (cut == whole.size() ? 9 : 4));
  }
}
