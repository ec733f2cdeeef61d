// Facts that take long keep nobody waiting but who asked for them.
#include <cstdlib>

#include "agent/api/facts_keeper.h"
#include "common/base/files.h"
#include "tests/component/agent/agent_fixture.h"
#include "tests/support/fake_clock.h"

using namespace poolmark;
using namespace poolmark::test;
using namespace std::chrono_literals;

namespace {

// A reader of facts that waits until it is let go on; its readings are numbered by `cpus`.
struct SlowReader {
  std::mutex mutex;
  std::condition_variable_any changed;
  uint32_t begun = 0;
  uint32_t may_end = 0;

  v1::Facts Read(std::stop_token stop) {
    std::unique_lock lock(mutex);
    const uint32_t mine = ++begun;
    changed.notify_all();
    changed.wait(lock, stop, [&] { return may_end >= mine; });
    v1::Facts facts;
    facts.set_cpus(mine);
    return facts;
  }
  void LetEnd(uint32_t number) {
    std::lock_guard lock(mutex);
    may_end = number;
    changed.notify_all();
  }
  bool AwaitBegun(uint32_t number) {
    return WaitFor([&] {
      std::lock_guard lock(mutex);
      return begun >= number;
    });
  }
};

// A vendor tool that hangs as long as the file beside it is there.
struct HangingTool {
  TempDir dir;
  std::string path = std::getenv("PATH");
  HangingTool() {
    Hang(true);
    REQUIRE(AtomicWriteFile(dir / "nvidia-smi",
                            "#!/bin/sh\nwhile [ -e " + (dir / "hold") +
                                " ]; do sleep 0.05; done\necho 'no devices were found' >&2\nexit 6\n",
                            0755)
                .ok());
    setenv("PATH", (dir.path() + ":" + path).c_str(), 1);
  }
  ~HangingTool() { setenv("PATH", path.c_str(), 1); }
  void Hang(bool on) {
    if (on)
      REQUIRE(AtomicWriteFile(dir / "hold", "").ok());
    else
      REQUIRE(unlink((dir / "hold").c_str()) == 0);
  }
};

}  // namespace

TEST_CASE("facts that are asked for are read after the question, and two who wait share a reading") {
  SlowReader reader;
  FakeClock clock;
  agent::FactsKeeper keeper([&](std::stop_token stop) { return reader.Read(stop); }, &clock);
  CHECK_FALSE(keeper.Last().facts);
  keeper.Ask();
  REQUIRE(reader.AwaitBegun(1));
  keeper.Ask();  // one runs: no second
  const auto never = [] { return false; };
  std::optional<v1::Facts> first, second;
  {
    std::jthread a([&] { first = keeper.Fresh(never); });
    std::jthread b([&] { second = keeper.Fresh(never); });
    // Who gives up goes, and the reading goes on.
    CHECK_FALSE(keeper.Fresh([] { return true; }));
    CHECK_FALSE(keeper.Last().facts);
    reader.LetEnd(1000);
  }
  REQUIRE(first);
  REQUIRE(second);
  CHECK(first->cpus() >= 2);
  CHECK(second->cpus() >= 2);
  const auto known = keeper.Last();
  REQUIRE(known.facts);
  clock.Advance(70s);
  CHECK(keeper.Last().age == known.age + 70s);
  // The keeper ends although a reading runs.
  reader.LetEnd(0);
  keeper.Ask();
  REQUIRE(reader.AwaitBegun(known.facts->cpus() + 1));
}

TEST_CASE("a vendor tool that hangs stops no heartbeat, and its facts come when they are there",
          "[L1][live]") {
  HangingTool tool;
  AgentFixture fixture;
  fixture.StartAgent();
  REQUIRE(WaitFor([&] { return fixture.registry.beats >= 3; }, 15s));
  CHECK_FALSE(fixture.registry.last_register().has_facts());
  tool.Hang(false);
  REQUIRE(WaitFor([&] { return fixture.registry.last_register().has_facts(); }));
  CHECK(fixture.registry.last_register().facts().cpus() > 0);
  CHECK(fixture.registry.last_register().facts().executables(0) == "sh");

  // Asked anew, under load: who asked gives up, the machine beats on, and an edit is told at once.
  tool.Hang(true);
  v1::GetFactsRequest request;
  request.set_refresh(true);
  CHECK(rpc::Call(*fixture.stub, &v1::AgentService::Stub::GetFacts, request, 1s).status().code() ==
        absl::StatusCode::kDeadlineExceeded);
  const int beats = fixture.registry.beats;
  fixture.Allow("version: 1\nexecutables:\n  bash: /bin/bash\n");
  REQUIRE(WaitFor(
      [&] {
        const v1::RegisterRequest last = fixture.registry.last_register();
        return last.facts().executables_size() == 1 && last.facts().executables(0) == "bash";
      },
      10s));
  REQUIRE(WaitFor([&] { return fixture.registry.beats >= beats + 3; }, 10s));
  // An agent ends although its tool does not.
  fixture.StopAgent();
}
