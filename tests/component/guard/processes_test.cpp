// Processes under a real guard: started, seen to end, stopped, and never left behind.
#include <elf.h>
#include <signal.h>
#include <sys/stat.h>

#include <cstring>
#include <fstream>

#include "agent/guard/cgroup.h"
#include "agent/guard/log_store.h"
#include "agent/guard/ports.h"
#include "agent/guard/proc.h"
#include "common/base/files.h"
#include "tests/component/guard/guard_fixture.h"
#include "tests/support/shared_data.h"

using namespace poolmark;
using namespace poolmark::test;
using std::chrono::seconds;

namespace {

// Waits until the script has written a pid into its work directory.
int PidFrom(const GuardFixture& fixture, const std::string& name) {
  int pid = 0;
  REQUIRE(WaitFor([&] {
    std::ifstream file(fixture.work_dir() + "/" + name);
    return static_cast<bool>(file >> pid) && pid > 0;
  }));
  return pid;
}

void NoCgroup(process::GuardStart* start) {
  start->use_cgroup = false;
}

}  // namespace

TEST_CASE("a process is started, its output kept, its end seen", "[C25][live]") {
  GuardFixture fixture;
  Record process = fixture.StartShell("engine-0", "echo hello; echo wrong >&2; exit 7");
  CHECK(process.Signed("pid").value() > 0);
  fixture.WaitState("engine-0", "exited");
  CHECK(fixture.Status("engine-0").Get("code") == "7");
  CHECK(fixture.Log("engine-0") == "hello\nwrong\n");
  auto events = fixture.TearDown();
  CHECK(GuardFixture::Clean(events));
  REQUIRE(GuardFixture::Items(events, "process").size() == 1);
  CHECK(GuardFixture::Items(events, "process")[0].Get("detail") == "exit code 7");
  CHECK_FALSE(FileExists(fixture.work_dir()));
}

TEST_CASE("progress lines have a stream of their own when asked for", "[live]") {
  GuardFixture fixture;
  fixture.StartShell("load", "echo '{\"sent\":1}'; echo note >&2", {{"split", "1"}});
  fixture.WaitState("load", "exited");
  CHECK(fixture.Log("load", "out") == "{\"sent\":1}\n");
  CHECK(fixture.Log("load") == "note\n");
}

TEST_CASE("an engine that ignores SIGTERM and detaches is gone after tear-down", "[C25][live]") {
  // Both ways of containment: cgroup v2, and subreaper with marker.
  bool cgroup = GENERATE(true, false);
  GuardFixture fixture(cgroup ? std::function<void(process::GuardStart*)>() : NoCgroup);
  // The leader and two detached children (setsid; double fork with a new name) all ignore SIGTERM.
  fixture.StartShell(
      "engine-0",
      "trap '' TERM\n"
      "setsid sh -c 'trap \"\" TERM; echo $$ > $WORK/child; while :; do sleep 1; done' &\n"
      "sh -c 'setsid sh -c \"trap : TERM; echo \\$\\$ > $WORK/grandchild; while :; do sleep 1; done\" &'\n"
      "echo $$ > $WORK/leader\n"
      "while :; do sleep 1; done");
  int leader = PidFrom(fixture, "leader");
  int child = PidFrom(fixture, "child");
  int grandchild = PidFrom(fixture, "grandchild");
  auto events = fixture.TearDown(std::chrono::milliseconds(300));
  CHECK(GuardFixture::Clean(events));
  CHECK(GuardFixture::Items(events, "process")[0].Get("forced") == "1");
  for (int pid : {leader, child, grandchild}) CHECK_FALSE(ProcessExists(pid));
  CHECK(GuardFixture::Items(events, "cgroup").empty() != (cgroup && !guard::CgroupBase().empty()));
}

TEST_CASE("an engine that ends at SIGTERM is not forced", "[live]") {
  GuardFixture fixture;
  fixture.StartShell("engine-0", "trap 'echo bye; exit 0' TERM; echo up; while :; do sleep 0.05; done");
  REQUIRE(WaitFor([&] { return fixture.Log("engine-0") == "up\n"; }));
  auto events = fixture.TearDown(seconds(20));
  CHECK(GuardFixture::Clean(events));
  CHECK(GuardFixture::Items(events, "process")[0].Get("forced") == "0");
  CHECK(fixture.Log("engine-0") == "up\nbye\n");
}

TEST_CASE("when a leader is killed its workers are killed with it", "[C25][live]") {
  GuardFixture fixture;
  Record process = fixture.StartShell("engine-0",
                                      "setsid sh -c 'echo $$ > $WORK/worker; exec sleep 1000' &\n"
                                      "exec sleep 1000");
  int worker = PidFrom(fixture, "worker");
  kill(static_cast<pid_t>(*process.Signed("pid")), SIGKILL);
  fixture.WaitState("engine-0", "exited");
  CHECK(fixture.Status("engine-0").Get("signal") == "9");
  CHECK(WaitFor([&] { return !ProcessExists(worker); }, seconds(2)));
}

TEST_CASE("stopping one process leaves the others", "[live]") {
  bool cgroup = GENERATE(true, false);
  GuardFixture fixture(cgroup ? std::function<void(process::GuardStart*)>() : NoCgroup);
  fixture.StartShell("engine-0", "trap '' TERM; setsid sleep 1000 & while :; do sleep 1; done");
  Record other = fixture.StartShell("engine-1", "exec sleep 1000");
  fixture.Must(Record("stop").Add("epoch", 3).Add("id", "engine-0").Add("grace_ns", 100'000'000));
  fixture.WaitState("engine-0", "exited");
  REQUIRE(WaitFor([&] { return fixture.Status("engine-0").Get("empty") == "1"; }));
  CHECK(fixture.Status("engine-0").Get("forced") == "1");
  CHECK(ProcessExists(static_cast<int>(*other.Signed("pid"))));
  // It can be started again under its name, by a new request.
  fixture.StartShell("engine-0", "exec sleep 1000", {{"request", "again"}});
  CHECK(fixture.Status("engine-0").Get("running") == "1");
  CHECK(GuardFixture::Clean(fixture.TearDown(seconds(1))));
}

TEST_CASE("a process that writes over its environment is still known as its own", "[C25][live]") {
  // As redis-server does to show a title: the marker is gone. Here the environment is emptied instead.
  const bool cgroup = GENERATE(true, false);
  GuardFixture fixture(cgroup ? std::function<void(process::GuardStart*)>() : NoCgroup);
  const int port = FreePort();
  fixture.StartShell("store",
                     "trap '' TERM; env -i sleep 1000 & echo $! > $WORK/helper\n"
                     "exec env -i redis-server --save '' --bind 127.0.0.1 --port " +
                         std::to_string(port));
  Record other = fixture.StartShell("engine-0", "exec sleep 1000");
  const int helper = PidFrom(fixture, "helper");
  REQUIRE(WaitFor([&] { return !guard::CanBindPort(static_cast<uint16_t>(port)); }));
  Record ask("owns");
  ask.Add("epoch", 3).Add("id", "store").Add("port", port);
  const GuardReply answer = fixture.Must(ask);
  REQUIRE(answer.data.size() == 1);
  CHECK(answer.data[0].Get("held") == "1");
  fixture.Must(Record("stop").Add("epoch", 3).Add("id", "store").Add("grace_ns", 100'000'000));
  fixture.WaitState("store", "exited");
  CHECK(WaitFor([&] { return !ProcessExists(helper); }));
  CHECK(WaitFor([&] { return guard::CanBindPort(static_cast<uint16_t>(port)); }));
  CHECK(ProcessExists(static_cast<int>(*other.Signed("pid"))));
  CHECK(GuardFixture::Clean(fixture.TearDown(seconds(1))));
}

TEST_CASE("a light fork bomb is stopped", "[C25][live]") {
  bool cgroup = GENERATE(true, false);
  GuardFixture fixture(cgroup ? std::function<void(process::GuardStart*)>() : NoCgroup);
  // Forks anew whenever one dies, forty at a time, each in a session of its own.
  fixture.StartShell(
      "engine-0",
      "cat > bomb.sh <<'E'\ntrap '' TERM\nwhile :; do setsid sh -c 'trap \"\" TERM; sleep 0.2' & "
      "setsid sh -c 'trap \"\" TERM; sleep 0.3' & wait; done\nE\n"
      "for i in 1 2 3 4 5 6 7 8; do setsid sh bomb.sh & done; echo go; wait");
  REQUIRE(WaitFor([&] { return fixture.Log("engine-0") == "go\n"; }));
  auto events = fixture.TearDown(std::chrono::milliseconds(200));
  CHECK(GuardFixture::Clean(events));
  for (int pid : guard::AllPids())
    CHECK_FALSE(guard::HasEnvironmentWord(pid, "POOLMARK_RUN=" + fixture.run_name()));
}

TEST_CASE("a log flood is bounded, its head kept, and a closed log is no end", "[live]") {
  GuardFixture fixture([](process::GuardStart* start) { start->log_segment_bytes = 1u << 20; });
  fixture.StartShell(
      "flood", "echo first; head -c 60000000 /dev/zero; echo last; exec >/dev/null 2>&1; exec sleep 1000");
  guard::LogReader reader(fixture.run_dir() + "/logs/flood/log");
  REQUIRE(WaitFor([&] { return reader.End() == 60'000'000 + 6 + 5; }, seconds(120)));
  CHECK(reader.Read(0, 6).data == "first\n");
  CHECK(reader.Read(reader.End() - 5, 10).data == "last\n");
  guard::LogPiece piece = reader.Read(5u << 20, 10);
  CHECK(piece.lost_bytes > 0);
  CHECK(piece.offset == (5u << 20) + piece.lost_bytes);
  CHECK(ListDir(fixture.run_dir() + "/logs/flood/log")->size() <= 10);
  CHECK(fixture.Status("flood").Get("running") == "1");
}

TEST_CASE("a secret reaches the process and neither its log nor the ledger", "[C12][live]") {
  GuardFixture fixture;
  fixture.StartShell("engine-0", "echo \"token is $HF_TOKEN.\"; printf 'hf_CAN'; sleep 0.1; echo ARYpart",
                     {{"secret", "HF_TOKEN=hf_CANARY"}});
  fixture.WaitState("engine-0", "exited");
  REQUIRE(WaitFor([&] { return fixture.Log("engine-0").find("part") != std::string::npos; }));
  CHECK(fixture.Log("engine-0") == "token is [redacted].\n[redacted]part\n");
  CHECK(ReadFile(fixture.run_dir() + "/ledger")->find("hf_CANARY") == std::string::npos);
}

TEST_CASE("a secret of one process is taken out of what all others print", "[I12][live]") {
  GuardFixture fixture;
  fixture.StartShell("store", "while [ ! -e go ]; do sleep 0.01; done; echo said hf_CANARY later");
  fixture.StartShell("engine-0", "exec sleep 1000",
                     {{"secret", "HF_TOKEN=hf_CANARY"}, {"redact", "of-another"}});
  fixture.StartShell("router", "echo upstream: hf_CANARY, of-another; env | grep -c -e CANARY -e of-another");
  fixture.WaitState("router", "exited");
  REQUIRE(AtomicWriteFile(fixture.work_dir() + "/go", "").ok());
  fixture.WaitState("store", "exited");
  REQUIRE(WaitFor([&] { return fixture.Log("router").find("\n0\n") != std::string::npos; }));
  CHECK(fixture.Log("router") == "upstream: [redacted], [redacted]\n0\n");
  REQUIRE(WaitFor([&] { return fixture.Log("store").find("later") != std::string::npos; }));
  CHECK(fixture.Log("store") == "said [redacted] later\n");
}

TEST_CASE("what cannot be executed says why and nothing stays", "[live]") {
  GuardFixture fixture;
  Record request = fixture.StartRequest("engine-0", "x");
  request.fields[2].second = "/does/not/exist";
  auto reply = fixture.client().Ask(request);
  REQUIRE_FALSE(reply.ok());
  CHECK(std::string(reply.status().message()).find("cannot execute '/does/not/exist': No such file") !=
        std::string::npos);
  CHECK(fixture.Status("engine-0").Get("state") == "failed");
  CHECK(GuardFixture::Clean(fixture.TearDown()));
}

TEST_CASE("a repeated start has one effect, a late one none", "[live]") {
  GuardFixture fixture;
  Record first = fixture.StartShell("engine-0", "exec sleep 1000", {{"request", "r1"}});
  CHECK(fixture.StartShell("engine-0", "exec sleep 1000", {{"request", "r1"}}).Get("pid") ==
        first.Get("pid"));
  CHECK(fixture.StartShell("engine-0", "exec sleep 1000", {{"request", "r2"}}).Get("already") == "1");
  fixture.Must(Record("stop").Add("epoch", 3).Add("id", "engine-0").Add("grace_ns", 0));
  fixture.WaitState("engine-0", "exited");
  // The first request, delivered once more after the stop.
  CHECK(fixture.StartShell("engine-0", "exec sleep 1000", {{"request", "r1"}}).Get("state") == "exited");
  Record stale = fixture.StartRequest("engine-1", "exec sleep 1000");
  stale.fields[0].second = "2";
  auto refused = fixture.client().Ask(stale);
  REQUIRE_FALSE(refused.ok());
  CHECK(ErrorOf(refused.status()).code == "stale_epoch");
}

TEST_CASE("the guard's program stands alone and has no fixed address") {
  const auto program = ReadFile(BuiltProgram("poolmark-guard"), 64u << 20);
  REQUIRE(program.ok());
  Elf64_Ehdr header;
  REQUIRE(program->size() > sizeof header);
  std::memcpy(&header, program->data(), sizeof header);
  CHECK(header.e_type == ET_DYN);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  for (size_t i = 0; i < header.e_phnum; ++i) {
    Elf64_Phdr part;
    const size_t at = header.e_phoff + i * sizeof part;
    REQUIRE(at + sizeof part <= program->size());
    std::memcpy(&part, program->data() + at, sizeof part);
    CHECK(part.p_type != PT_INTERP);
  }
#endif
}

TEST_CASE("the guard serves its own user only and stays small", "[live]") {
  GuardFixture fixture;
  struct stat facts;
  REQUIRE(stat((fixture.run_dir() + "/guard.sock").c_str(), &facts) == 0);
  CHECK((facts.st_mode & 0777) == 0600);
  fixture.StartShell("engine-0", "exec sleep 1000");
  std::string status = guard::ReadPseudo("/proc/" + std::to_string(fixture.guard_pid()) + "/status");
  long kilobytes = std::strtol(status.c_str() + status.find("VmRSS:") + 6, nullptr, 10);
  WARN("guard RSS " << kilobytes << " kB");
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  CHECK(kilobytes < 5 * 1024);
#endif
}
