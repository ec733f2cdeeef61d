// agent.yaml, the shipped examples, and the systemd unit.
#include "agent/api/config.h"

#include <catch2/catch.hpp>
#include <cstdlib>
#include <set>

#include "absl/strings/str_replace.h"
#include "agent/api/beneath.h"
#include "agent/process/allow_list.h"
#include "common/base/files.h"
#include "tests/support/shared_data.h"
#include "tests/support/temp_dir.h"

using namespace poolmark;
using namespace poolmark::agent;
using poolmark::test::TempDir;

TEST_CASE("the shipped configuration is read, also with every line switched on") {
  std::string text = *ReadFile(test::Source("deploy/config/agent.yaml"));
  REQUIRE(ParseAgentConfig(text, "agent.yaml").ok());
  // Settings are commented as "# key: value", prose as sentences.
  std::string all;
  size_t begin = 0;
  for (size_t end; (end = text.find('\n', begin)) != std::string::npos; begin = end + 1) {
    std::string line = text.substr(begin, end - begin);
    bool setting = line.rfind("# ", 0) == 0 && line.find(": ") != std::string::npos &&
                   line.find_first_of(" ", 2) == line.find(": ") + 1;
    bool is_key = setting && line.find_first_not_of("abcdefghijklmnopqrstuvwxyz_", 2) == line.find(": ");
    all += (is_key ? line.substr(2) : line) + "\n";
  }
  auto config = ParseAgentConfig(all, "agent.yaml");
  INFO(config.status());
  REQUIRE(config.ok());
  CHECK(config->machine == "gpu1");
  CHECK(config->directories == std::vector<std::string>{"/nvme/poolmark"});
  CHECK(config->log_segment_bytes == 10u << 20);
  CHECK(config->keep_logs_bytes == AgentConfig().keep_logs_bytes);
  AgentConfig defaults;
  CHECK(config->listen == defaults.listen);
  CHECK(config->state_dir == defaults.state_dir);
  CHECK(config->grace == defaults.grace);
  CHECK(process::AllowList::Parse(*ReadFile(test::Source("deploy/config/allow.yaml")), "allow.yaml").ok());
}

TEST_CASE("an agent that is root runs engines as root only when that is asked for") {
  auto with = [](const std::string& run_as, unsigned uid, std::set<std::string> users) {
    AgentConfig config;
    config.run_as = run_as;
    return EnginesUser(config, uid, [users](const std::string& user) { return users.count(user) != 0; });
  };
  CHECK(*with("", 0, {"poolmark-run"}) == "poolmark-run");
  CHECK(*with("", 1000, {"poolmark-run"}) == "");
  CHECK(*with("gpu", 0, {"gpu", "poolmark-run"}) == "gpu");
  CHECK(*with("root", 0, {"root", "poolmark-run"}) == "root");
  auto refused = with("", 0, {"root"});
  CHECK(refused.status().code() == absl::StatusCode::kFailedPrecondition);
  CHECK(std::string(refused.status().message()).find("root") != std::string::npos);
  CHECK(with("gpu", 0, {"poolmark-run"}).status().code() == absl::StatusCode::kNotFound);
  // As shipped: never root.
  auto shipped = ParseAgentConfig(*ReadFile(test::Source("deploy/config/agent.yaml")), "agent.yaml");
  REQUIRE(shipped.ok());
  CHECK(shipped->run_as == kEnginesUser);
}

TEST_CASE("all mistakes of agent.yaml are told at once") {
  auto config = ParseAgentConfig(
      "machine: [a]\nlisten_adress: x\nstop_grace: soon\ncontainment: docker\nlog_segment: 1\ndirectories: "
      "/x\n",
      "agent.yaml");
  REQUIRE_FALSE(config.ok());
  std::string text(config.status().message());
  for (const char* part : {"agent.yaml:1:1 machine", "agent.yaml:2:1 listen_adress", "did you mean 'listen'",
                           "stop_grace", "containment", "64KiB", "agent.yaml:6:1"}) {
    INFO(part);
    CHECK(text.find(part) != std::string::npos);
  }
  CHECK_FALSE(ParseAgentConfig("a: [", "agent.yaml").ok());
  AgentConfig nameless;
  CHECK_FALSE(CompleteConfig(&nameless).ok());
}

TEST_CASE("the agent's systemd unit is well formed") {
  if (std::system("command -v systemd-analyze >/dev/null 2>&1") != 0) {
    WARN("skipped: no systemd-analyze here");
    return;
  }
  TempDir dir;
  std::string unit = *ReadFile(test::Source("deploy/systemd/poolmark-agent.service"));
  unit = absl::StrReplaceAll(unit, {{"/usr/bin/poolmark-agent", test::BuiltProgram("poolmark-agent")},
                                    {"Documentation=man:poolmark-agent(8)\n", ""}});
  REQUIRE(AtomicWriteFile(dir / "poolmark-agent.service", unit).ok());
  std::string command =
      "systemd-analyze verify --man=no " + (dir / "poolmark-agent.service") + " >" + (dir / "out") + " 2>&1";
  int code = std::system(command.c_str());
  INFO(*ReadFile(dir / "out"));
  CHECK(code == 0);
}

TEST_CASE("nothing outside a job's directory is opened, also while links are swapped in") {
  TempDir dir;
  REQUIRE(MakeDirs(dir / "root/sub").ok());
  REQUIRE(AtomicWriteFile(dir / "root/sub/file", "inside").ok());
  REQUIRE(AtomicWriteFile(dir / "outside", "outside").ok());
  REQUIRE(symlink((dir.path()).c_str(), (dir / "root/up").c_str()) == 0);
  uint64_t size = 0;
  CHECK(OpenBeneath(dir / "root", "sub/file", &size).ok());
  CHECK(size == 6);
  for (const std::string& bad :
       {std::string("../outside"), std::string("up/outside"), std::string("/etc/passwd"), std::string("sub"),
        std::string(""), std::string("sub/../../outside"), std::string("sub\0/file", 9)}) {
    INFO(bad);
    CHECK_FALSE(OpenBeneath(dir / "root", bad, &size).ok());
  }
  CHECK_FALSE(WriteBeneath(dir / "root", "up/new", "x", {}, {}).ok());
  CHECK_FALSE(FileExists(dir / "new"));
  CHECK(WriteBeneath(dir / "root", "sub/new", "x", {}, {}).ok());
  // A hard link to a file outside: not ours to overwrite.
  REQUIRE(link((dir / "outside").c_str(), (dir / "root/sub/hard").c_str()) == 0);
  CHECK_FALSE(WriteBeneath(dir / "root", "sub/hard", "x", {}, {}).ok());
  CHECK(*ReadFile(dir / "outside") == "outside");
  auto files = ListBeneath(dir / "root", "", 100);
  REQUIRE(files.ok());
  CHECK(files->size() == 3);
  CHECK_FALSE(ListBeneath(dir / "root", "up", 100).ok());
  CHECK_FALSE(ListBeneath(dir / "root", "", 2).ok());
}
