// Heartbeats, lost controllers, killed agents and guards.
#include <signal.h>

#include "agent/guard/items.h"
#include "agent/guard/ledger.h"
#include "agent/guard/proc.h"
#include "common/base/files.h"
#include "tests/component/agent/agent_fixture.h"

using namespace poolmark;
using namespace poolmark::test;
using namespace std::chrono_literals;

namespace {

int GuardPid(const AgentFixture& fixture) {
  guard::LedgerContent content = guard::ReadLedger(fixture.RunDirectory() + "/ledger");
  int pid = 0;
  for (const guard::Record& record : content.records) {
    if (record.name == "run") pid = static_cast<int>(record.Signed("guard_pid").value_or(0));
  }
  REQUIRE(pid > 0);
  return pid;
}

bool MarkerGone(const std::string& run) {
  for (int pid : guard::AllPids()) {
    if (guard::HasEnvironmentWord(pid, "POOLMARK_RUN=" + run)) return false;
  }
  return true;
}

std::string RunName(const AgentFixture& fixture) {
  std::string directory = fixture.RunDirectory();
  return directory.substr(directory.rfind('/') + 1);
}

}  // namespace

TEST_CASE("an agent registers with its facts and beats with its clock", "[L1][C6][live]") {
  AgentFixture fixture;
  fixture.StartAgent();
  REQUIRE(WaitFor([&] { return fixture.registry.beats >= 3; }));
  v1::RegisterRequest registered = fixture.registry.last_register();
  CHECK(registered.machine() == "n1");
  CHECK(registered.address() == fixture.agent->address());
  CHECK(registered.facts().cpus() > 0);
  CHECK(registered.facts().executables(0) == "sh");
  v1::HeartbeatRequest beat = fixture.registry.last_beat();
  CHECK(beat.previous_reply_wall_ns() >= beat.previous_sent_wall_ns());
  CHECK(beat.sent_wall_ns() > beat.previous_reply_wall_ns());
  fixture.registry.register_again = true;
  CHECK(WaitFor([&] { return fixture.registry.registers >= 2; }));
}

TEST_CASE("an agent that was revoked and enrolled again comes back without a restart", "[L1][L2][live]") {
  AgentFixture fixture;
  fixture.StartAgent();
  REQUIRE(WaitFor([&] { return fixture.registry.beats >= 3; }));
  REQUIRE(*fixture.cluster.ca().Revoke(true, "n1") == 1);
  fixture.refuse_revoked = true;
  REQUIRE(WaitFor([&] { return fixture.controller->counts().denied >= 2; }));
  const int before = fixture.registry.beats;
  // What `poolmark-agent join TOKEN` does beside it.
  auto fresh = fixture.cluster.ca().Issue(rpc::Role::kAgent, "n1", std::chrono::hours(1));
  REQUIRE(fresh.ok());
  REQUIRE(rpc::InstallIdentity(fixture.Config().tls_dir, *fresh, RealClock()).ok());
  CHECK(WaitFor([&] { return fixture.registry.beats >= before + 3; }, 60s));
}

TEST_CASE("a machine tells at once that its allow-list was changed", "[L1][live]") {
  AgentFixture fixture;
  fixture.StartAgent();
  REQUIRE(WaitFor([&] { return fixture.registry.beats >= 1; }));
  CHECK(fixture.registry.last_register().facts().secrets_size() == 0);
  fixture.Allow("version: 1\nexecutables:\n  sh: /bin/sh\nsecrets: {hf: [sh]}\n");
  CHECK(WaitFor([&] { return fixture.registry.last_register().facts().secrets_size() == 1; }));
}

TEST_CASE("heartbeats keep a lease alive, silence ends it, and the proof is there afterwards",
          "[C25][live]") {
  AgentFixture fixture;
  fixture.registry.lease_ttl_ns = 1'500'000'000;
  fixture.StartAgent([](agent::AgentConfig* config) { config->grace = 300ms; });
  REQUIRE(fixture.Acquire(1, "job-1", 1500ms).ok());
  auto started = fixture.Start(fixture.Shell("engine-n1", "trap '' TERM; while :; do sleep 1; done"));
  REQUIRE(started.ok());
  int pid = started->status().pid();
  // Twice the lease, renewed all along.
  int beats = fixture.registry.beats;
  REQUIRE(WaitFor([&] { return fixture.registry.beats > beats + 25; }));
  CHECK(ProcessExists(pid));
  // The controller no longer renews.
  fixture.registry.lease_ttl_ns = 0;
  CHECK(WaitFor([&] { return !ProcessExists(pid); }, 8s));
  // The guard writes its verdict, then ends: a heartbeat may still see it between the two.
  REQUIRE(WaitFor([&] {
    v1::HeartbeatRequest beat = fixture.registry.last_beat();
    return beat.held_size() == 1 && beat.held(0).state() == "stopped_by_lease" && !beat.held(0).guard_alive();
  }));
  v1::HeldJob held = fixture.registry.last_beat().held(0);
  CHECK(held.clean());
  CHECK(held.open_items() == 0);
  auto proof = fixture.TearDown();
  CHECK(AgentFixture::Clean(proof));
  CHECK(WaitFor([&] { return fixture.registry.last_beat().held_size() == 0; }));
}

TEST_CASE("kill -9 of the agent: the guard lives, a new agent takes it over", "[C25][live]") {
  AgentFixture fixture;
  fixture.StartProgram();
  REQUIRE(fixture.Acquire().ok());
  auto started =
      fixture.Start(fixture.Shell("engine-n1", "i=0; while :; do i=$((i+1)); echo $i; sleep 0.01; done"));
  REQUIRE(started.ok());
  int pid = started->status().pid();
  v1::ProcessSpec slow = fixture.Shell("engine-n2", "exec sleep 1000");
  slow.mutable_ready()->set_tcp_address("127.0.0.1:" + std::to_string(FreePort()));
  slow.mutable_ready()->set_within_ns(std::chrono::nanoseconds(2s).count());
  REQUIRE(fixture.Start(slow).ok());
  fixture.WaitState("engine-n1", v1::PROCESS_STATE_READY);
  int guard = GuardPid(fixture);
  fixture.KillProgram(SIGKILL);
  CHECK(ProcessExists(guard));
  CHECK(ProcessExists(pid));
  fixture.StartProgram();
  REQUIRE(WaitFor([&] {
    v1::RegisterRequest registered = fixture.registry.last_register();
    return registered.held_size() == 1 && registered.held(0).guard_alive() &&
           registered.held(0).job_id() == "job-1";
  }));
  // The new agent knows the state of before, and goes on looking at what was still starting.
  CHECK(fixture.WaitState("engine-n1", v1::PROCESS_STATE_READY).pid() == pid);
  CHECK(fixture.WaitState("engine-n2", v1::PROCESS_STATE_FAILED).message().find("not ready after") == 0);
  // Not a line of the log is lost.
  std::string log = fixture.Log("engine-n1");
  int expected = 0;
  size_t at = 0;
  for (size_t end; (end = log.find('\n', at)) != std::string::npos; at = end + 1) {
    REQUIRE(log.substr(at, end - at) == std::to_string(++expected));
  }
  CHECK(expected > 10);
  CHECK(AgentFixture::Clean(fixture.TearDown()));
  CHECK_FALSE(ProcessExists(pid));
  CHECK_FALSE(ProcessExists(guard));
}

TEST_CASE("SIGTERM to the agent leaves guard and engines alone", "[live]") {
  AgentFixture fixture;
  fixture.StartProgram();
  REQUIRE(fixture.Acquire().ok());
  auto started = fixture.Start(fixture.Shell("engine-n1", "exec sleep 1000"));
  REQUIRE(started.ok());
  fixture.KillProgram(SIGTERM);
  CHECK(ProcessExists(started->status().pid()));
  fixture.StartProgram();
  CHECK(AgentFixture::Clean(fixture.TearDown()));
}

TEST_CASE("kill -9 of the guard: its processes die and the agent sweeps", "[C25][live]") {
  AgentFixture fixture;
  fixture.StartAgent();
  REQUIRE(fixture.Acquire().ok());
  v1::ProcessSpec spec = fixture.Shell("engine-n1", "setsid sleep 1000 & echo x > tier/x; exec sleep 1000");
  spec.add_directories()->set_path("tier");
  auto started = fixture.Start(spec);
  REQUIRE(started.ok());
  std::string run = RunName(fixture);
  kill(GuardPid(fixture), SIGKILL);
  CHECK(WaitFor([&] { return !ProcessExists(started->status().pid()); }, 2s));
  CHECK(WaitFor([&] { return MarkerGone(run); }));
  CHECK(WaitFor([&] { return !FileExists(fixture.dir / "work/job-1"); }));
  auto proof = fixture.TearDown();
  CHECK(AgentFixture::Clean(proof));
  bool forced_or_gone = false;
  for (const auto& message : proof) forced_or_gone = forced_or_gone || message.item().kind() == "process";
  CHECK(forced_or_gone);
  // The machine is free for the next job.
  CHECK(fixture.Acquire(2, "job-2").ok());
}

TEST_CASE("agent and guard both killed: the next agent finds the ledger and cleans", "[C25][live]") {
  AgentFixture fixture;
  fixture.StartProgram();
  REQUIRE(fixture.Acquire().ok());
  auto started = fixture.Start(fixture.Shell("engine-n1", "setsid sleep 1000 & exec sleep 1000"));
  REQUIRE(started.ok());
  std::string run = RunName(fixture);
  int guard = GuardPid(fixture);
  fixture.KillProgram(SIGKILL);
  kill(guard, SIGKILL);
  fixture.StartProgram();
  CHECK(WaitFor([&] { return MarkerGone(run); }));
  REQUIRE(WaitFor([&] {
    v1::HeartbeatRequest beat = fixture.registry.last_beat();
    return beat.held_size() == 1 && beat.held(0).state() == "torn_down" && beat.held(0).clean();
  }));
  CHECK(AgentFixture::Clean(fixture.TearDown()));
}

TEST_CASE("a damaged ledger is named, only its run is swept, and the machine is not called clean", "[live]") {
  AgentFixture fixture;
  fixture.StartProgram();
  REQUIRE(fixture.Acquire().ok());
  auto started = fixture.Start(fixture.Shell("engine-n1", "setsid sleep 1000 & exec sleep 1000"));
  REQUIRE(started.ok());
  std::string run = RunName(fixture);
  int guard = GuardPid(fixture);
  fixture.KillProgram(SIGKILL);
  kill(guard, SIGKILL);
  std::string ledger = fixture.RunDirectory() + "/ledger";
  std::string text = *ReadFile(ledger);
  text[text.size() / 2] = static_cast<char>(text[text.size() / 2] ^ 4);
  REQUIRE(AtomicWriteFile(ledger, text, 0600).ok());
  fixture.StartProgram();
  CHECK(WaitFor([&] { return MarkerGone(run); }));
  REQUIRE(WaitFor([&] {
    v1::HeartbeatRequest beat = fixture.registry.last_beat();
    return beat.held_size() == 1 && beat.held(0).state() == "torn_down";
  }));
  CHECK_FALSE(fixture.registry.last_beat().held(0).clean());
  CHECK(ReadFile(fixture.dir / "agent.log")->find(ledger + ":") != std::string::npos);
  auto proof = fixture.TearDown();
  CHECK_FALSE(AgentFixture::Clean(proof));
  CHECK(proof.back().leftovers_size() > 0);
}

TEST_CASE("a controller that owns the job no more has it torn down at registration", "[live]") {
  AgentFixture fixture;
  fixture.StartAgent();
  REQUIRE(fixture.Acquire().ok());
  auto started = fixture.Start(fixture.Shell("engine-n1", "exec sleep 1000"));
  REQUIRE(started.ok());
  {
    std::lock_guard lock(fixture.registry.mutex);
    fixture.registry.tear_down = "job-1";
  }
  fixture.registry.register_again = true;
  CHECK(WaitFor([&] { return !ProcessExists(started->status().pid()); }));
}

TEST_CASE("the agent stays small", "[live]") {
  AgentFixture fixture;
  fixture.StartProgram();
  REQUIRE(fixture.Acquire().ok());
  REQUIRE(fixture.Start(fixture.Shell("engine-n1", "exec sleep 1000")).ok());
  REQUIRE(WaitFor([&] { return fixture.registry.beats >= 20; }));
  std::string status = guard::ReadPseudo("/proc/" + std::to_string(fixture.program) + "/status");
  long kilobytes = std::strtol(status.c_str() + status.find("VmRSS:") + 6, nullptr, 10);
  long anonymous = std::strtol(status.c_str() + status.find("RssAnon:") + 8, nullptr, 10);
  WARN("agent RSS " << kilobytes << " kB, of it anonymous " << anonymous << " kB");
  CHECK(kilobytes < 30 * 1024);
}

TEST_CASE("what was left is looked at again when the controller asks again", "[live]") {
  AgentFixture fixture;
  std::string disk = fixture.dir / "nvme";
  REQUIRE(MakeDirs(disk).ok());
  fixture.StartAgent([&](agent::AgentConfig* config) { config->directories = {disk}; });
  REQUIRE(fixture.Acquire().ok());
  v1::ProcessSpec spec = fixture.Shell("engine-n1", "exec sleep 1000");
  spec.add_directories()->set_path(disk + "/kv");
  REQUIRE(fixture.Start(spec).ok());
  // Somebody puts another directory in its place: it is not ours to delete.
  REQUIRE(rename((disk + "/kv").c_str(), (disk + "/moved").c_str()) == 0);
  REQUIRE(MakeDirs(disk + "/kv").ok());
  auto proof = fixture.TearDown();
  CHECK_FALSE(AgentFixture::Clean(proof));
  REQUIRE(proof.back().leftovers_size() == 1);
  CHECK(proof.back().leftovers(0) == "directory " + disk + "/kv");
  REQUIRE(RemoveTree(disk + "/kv").ok());
  CHECK(AgentFixture::Clean(fixture.TearDown()));
}
