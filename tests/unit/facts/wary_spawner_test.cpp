// A tool that hangs is asked once, and all that hang together do not keep a reading for long.
#include "agent/facts/wary_spawner.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <thread>

#include "agent/facts/gpus.h"
#include "agent/facts/tools.h"
#include "common/base/files.h"
#include "tests/support/fake_spawner.h"
#include "tests/support/temp_dir.h"

using namespace poolmark;
using namespace poolmark::agent;
using namespace std::chrono_literals;

namespace {

size_t Starts(const test::FakeSpawner& spawner, const std::string& tool) {
  return static_cast<size_t>(std::count_if(spawner.started.begin(), spawner.started.end(),
                                           [&](const Command& command) { return command.argv[0] == tool; }));
}

}  // namespace

TEST_CASE("a tool that hung is not asked for its version, and what is said of it is that it hangs", "[C7]") {
  test::TempDir dir;
  REQUIRE(MakeDirs(dir / "usr/bin").ok());
  REQUIRE(AtomicWriteFile(dir / "usr/bin/nvidia-smi", "#!/bin/sh\n", 0755).ok());
  test::FakeSpawner tools;
  tools.Add("nvidia-smi", "", 0, "", "", true);
  WarySpawner wary(&tools);
  const auto gpus = ReadGpus(wary, dir.path(), 20s);
  REQUIRE(gpus.size() == 1);
  CHECK(gpus[0].failure.find("did not end within 20s") != std::string::npos);
  const ToolInfo tool = LookUpTool("nvidia-smi", &wary, dir.path());
  CHECK(tool.path == dir / "usr/bin/nvidia-smi");
  CHECK(tool.version.empty());
  CHECK(tool.note.find("did not end within 20s a moment ago") != std::string::npos);
  CHECK(Starts(tools, "nvidia-smi") == 1);
  // Asked again in the same round: the same word of it.
  const auto again = ReadGpus(wary, dir.path(), 30s);
  REQUIRE(again.size() == 1);
  CHECK(again[0].hangs);
  CHECK(Starts(tools, "nvidia-smi") == 1);
}

TEST_CASE("a short wait in vain is not a tool that hangs") {
  test::FakeSpawner tools;
  tools.Add("ping", "", 0, "", "", true);
  WarySpawner wary(&tools);
  for (int i = 0; i < 3; ++i) CHECK(RunCommand(wary, {{"ping", "-c1", "10.0.0.2"}, {}}, 5s)->timed_out);
  CHECK(Starts(tools, "ping") == 3);
}

TEST_CASE("when many tools hang, the last ones are not waited for") {
  test::FakeSpawner tools;
  for (const char* name : {"a", "b", "c"}) tools.Add(name, "", 0, "", "", true);
  tools.Add("sh", "quick");
  WarySpawner wary(&tools);
  for (const char* name : {"a", "b", "c"}) CHECK(RunCommand(wary, {{name}, {}}, 20s)->timed_out);
  const auto refused = RunCommand(wary, {{"sh"}, {}}, 20s);
  CHECK(refused.status().code() == absl::StatusCode::kDeadlineExceeded);
  CHECK(std::string(refused.status().message()).find("1m were spent") != std::string::npos);
  // What is not installed is still said to be so.
  CHECK(RunCommand(wary, {{"no-such-tool-anywhere"}, {}}, 20s).status().code() ==
        absl::StatusCode::kNotFound);
}

TEST_CASE("a wait ends when it is told to, and nothing is started after") {
  std::stop_source stop;
  const auto real = MakeSpawner();
  WarySpawner wary(real.get(), stop.get_token());
  auto child = wary.Start({{"sleep", "1000"}, {}});
  REQUIRE(child.ok());
  std::jthread later([&] { stop.request_stop(); });
  CHECK_FALSE((*child)->Wait(1000s));
  CHECK((*child)->Stop(0s).exit_signal.has_value());
  CHECK_FALSE(wary.Start({{"true"}, {}}).ok());
}
