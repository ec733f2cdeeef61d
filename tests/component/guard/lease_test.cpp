// Leases, the guard's end, and what comes after it.
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/guard/cgroup.h"
#include "agent/guard/items.h"
#include "agent/guard/ports.h"
#include "agent/guard/proc.h"
#include "common/base/files.h"
#include "tests/component/guard/guard_fixture.h"

using namespace poolmark;
using namespace poolmark::test;
using std::chrono::milliseconds;
using std::chrono::seconds;

namespace {

int PidOf(const Record& process) {
  return static_cast<int>(process.Signed("pid").value());
}

class Listener {
 public:
  explicit Listener(int port) : fd_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    int one = 1;
    setsockopt(fd_.get(), SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    REQUIRE(bind(fd_.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) == 0);
    REQUIRE(listen(fd_.get(), 1) == 0);
  }

 private:
  guard::UniqueFd fd_;
};

}  // namespace

TEST_CASE("without an agent a lease that runs out ends everything in time and leaves the proof",
          "[C25][live]") {
  GuardFixture fixture([](process::GuardStart* start) {
    start->deadline = RealClock().Boot() + milliseconds(1500);
    start->grace = milliseconds(500);
  });
  Record stubborn = fixture.StartShell("engine-0", "trap '' TERM; while :; do sleep 1; done");
  // Nobody renews. Lease 1.5 s + grace 0.5 s + kill.
  CHECK(WaitFor([&] { return !ProcessExists(PidOf(stubborn)); }, seconds(6)));
  REQUIRE(WaitFor([&] { return !guard::LedgerIsLocked(fixture.run_dir() + "/ledger"); }));
  guard::RunState state = guard::Fold(fixture.Ledger().records);
  CHECK(state.finished);
  CHECK(state.clean);
  CHECK(state.cause == "the lease ran out");
  CHECK(state.open_items() == 0);
  CHECK_FALSE(FileExists(fixture.work_dir()));
}

TEST_CASE("a renewed lease holds, and never gets shorter", "[live]") {
  GuardFixture fixture([](process::GuardStart* start) { start->deadline = RealClock().Boot() + seconds(2); });
  Nanoseconds late = RealClock().Boot() + seconds(600);
  fixture.Must(Record("renew").Add("epoch", 3).Add("deadline", late.count()));
  fixture.Must(Record("renew").Add("epoch", 3).Add("deadline", (late - seconds(599)).count()));
  CHECK(fixture.Must(Record("hello")).ok.Signed("deadline") == late.count());
  auto stale = fixture.client().Ask(Record("renew").Add("epoch", 2).Add("deadline", late.count()));
  CHECK_FALSE(stale.ok());
  // A higher epoch takes over, and the old one is refused from then on.
  fixture.Must(Record("renew").Add("epoch", 4).Add("deadline", late.count()));
  CHECK_FALSE(fixture.client().Ask(Record("renew").Add("epoch", 3).Add("deadline", late.count())).ok());
}

TEST_CASE("kill -9 of the guard kills its children, and its ledger can be taken over", "[C25][live]") {
  bool cgroup = GENERATE(true, false);
  GuardFixture fixture([&](process::GuardStart* start) { start->use_cgroup = cgroup; });
  int port = FreePort();
  fixture.Must(Record("directory").Add("epoch", 3).Add("base", fixture.work_dir()).Add("path", "tier/kv"));
  Record engine = fixture.StartShell(
      "engine-0",
      "echo x > $WORK/tier/kv/block; setsid sh -c 'echo $$ > $WORK/pid; exec sleep 1000' & "
      "echo up; exec sleep 1000",
      {{"port", std::to_string(port)}});
  REQUIRE(WaitFor([&] {
    return FileExists(fixture.work_dir() + "/pid") && !ReadFile(fixture.work_dir() + "/pid")->empty();
  }));
  int detached = std::stoi(*ReadFile(fixture.work_dir() + "/pid"));
  fixture.KillGuard();
  CHECK(WaitFor([&] { return !ProcessExists(PidOf(engine)); }, seconds(2)));
  fixture.Adopt();
  CHECK(fixture.Must(Record("hello")).ok.Get("phase") == "orphaned");
  auto start = fixture.client().Ask(fixture.StartRequest("engine-1", "sleep 1"));
  CHECK_FALSE(start.ok());
  auto events = fixture.TearDown();
  CHECK(GuardFixture::Clean(events));
  CHECK_FALSE(ProcessExists(detached));
  CHECK_FALSE(FileExists(fixture.work_dir()));
}

TEST_CASE("strangers survive a tear-down untouched", "[live]") {
  GuardFixture fixture;
  // A stranger's process, port, directory and shared memory, beside ours.
  process::GuardStart other;
  GuardFixture stranger;
  Record their_process = stranger.StartShell("engine-0", "exec sleep 1000");
  int their_port = FreePort();
  Listener listener(their_port);
  std::string their_dir = fixture.dir("work/stranger");
  REQUIRE(MakeDirs(their_dir).ok());
  std::string their_segment = "/poolmark-stranger-" + fixture.run_name();
  int segment = shm_open(their_segment.c_str(), O_CREAT | O_RDWR, 0600);
  REQUIRE(segment >= 0);

  int our_port = FreePort();
  std::string our_segment = "poolmark-ours-" + fixture.run_name();
  fixture.StartShell(
      "engine-0",
      "exec 9>/dev/shm/" + our_segment + "; ln -s " + their_dir + " $WORK/link; echo up; exec sleep 1000",
      {{"port", std::to_string(our_port)}});
  REQUIRE(WaitFor([&] { return fixture.Log("engine-0") == "up\n"; }));
  // One that appears while ours run is still a stranger's.
  std::string late_segment = their_segment + "-late";
  int late = shm_open(late_segment.c_str(), O_CREAT | O_RDWR, 0600);
  auto events = fixture.TearDown();
  CHECK(GuardFixture::Clean(events));
  Record memory = GuardFixture::Items(events, "shared_memory").at(0);
  CHECK(memory.Get("proof") == "removed " + our_segment);
  CHECK(memory.Get("detail").find(late_segment.substr(1)) != std::string::npos);
  CHECK_FALSE(FileExists("/dev/shm/" + our_segment));
  CHECK(FileExists("/dev/shm" + their_segment));
  CHECK(FileExists("/dev/shm" + late_segment));
  CHECK(ProcessExists(PidOf(their_process)));
  CHECK(FileExists(their_dir));
  CHECK_FALSE(guard::CanBindPort(static_cast<uint16_t>(their_port)));
  shm_unlink(their_segment.c_str());
  shm_unlink(late_segment.c_str());
  close(segment);
  close(late);
}

TEST_CASE("System V segments: ours go, one that a stranger made meanwhile stays and is named", "[live]") {
  GuardFixture fixture;
  fixture.StartShell("engine-0",
                     "exec python3 -c 'import ctypes, time; print(ctypes.CDLL(None).shmget(0, 4096, 0o1600), "
                     "flush=True); time.sleep(1000)'");
  REQUIRE(WaitFor([&] { return fixture.Log("engine-0").find('\n') != std::string::npos; }));
  const int ours = std::stoi(fixture.Log("engine-0"));
  REQUIRE(ours >= 0);
  const int theirs = shmget(IPC_PRIVATE, 4096, 0600 | IPC_CREAT);
  REQUIRE(theirs >= 0);
  auto events = fixture.TearDown();
  shmid_ds facts{};
  const bool stays = shmctl(theirs, IPC_STAT, &facts) == 0;
  shmctl(theirs, IPC_RMID, nullptr);
  CHECK(stays);
  CHECK(GuardFixture::Clean(events));
  const Record memory = GuardFixture::Items(events, "shared_memory").at(0);
  CHECK(memory.Get("proof") == "removed System V segment " + std::to_string(ours));
  CHECK(memory.Get("detail").find("System V segment " + std::to_string(theirs)) != std::string::npos);
  CHECK(shmctl(ours, IPC_STAT, &facts) != 0);
}

TEST_CASE("a port held by a stranger is refused with its holder's name", "[C3][live]") {
  GuardFixture fixture;
  int port = FreePort();
  Listener listener(port);
  Record request = fixture.StartRequest("engine-0", "sleep 1000");
  request.Add("port", port);
  auto refused = fixture.client().Ask(request);
  REQUIRE_FALSE(refused.ok());
  CHECK(ErrorOf(refused.status()).code == "port_busy");
  CHECK(ErrorOf(refused.status()).message.find("pid " + std::to_string(getpid())) != std::string::npos);
}

TEST_CASE("a directory that was there before is not ours to make or to delete", "[C26][live]") {
  GuardFixture fixture;
  std::string base = fixture.dir("nvme");
  REQUIRE(MakeDirs(base + "/shared").ok());
  fixture.Must(Record("directory").Add("epoch", 3).Add("base", base).Add("path", "shared/run/kv"));
  REQUIRE(AtomicWriteFile(base + "/shared/run/kv/block", "x").ok());
  REQUIRE(symlink("/etc", (base + "/shared/link").c_str()) == 0);
  for (const char* bad : {"../x", "/etc/x", "shared/link/x", "a//b", "."}) {
    CHECK_FALSE(
        fixture.client().Ask(Record("directory").Add("epoch", 3).Add("base", base).Add("path", bad)).ok());
  }
  CHECK(GuardFixture::Clean(fixture.TearDown()));
  CHECK(FileExists(base + "/shared"));
  CHECK_FALSE(FileExists(base + "/shared/run"));
}

TEST_CASE("a directory that was there before is no disk tier", "[C26][M22][live]") {
  GuardFixture fixture;
  const std::string base = fixture.dir("nvme");
  REQUIRE(MakeDirs(base + "/kv").ok());
  REQUIRE(AtomicWriteFile(base + "/kv/strangers", "x").ok());
  const auto ask = [&](const char* path) {
    return fixture.client().Ask(Record("directory").Add("epoch", 3).Add("base", base).Add("path", path));
  };
  const auto refused = ask("kv");
  REQUIRE_FALSE(refused.ok());
  CHECK(ErrorOf(refused.status()).code == "exists");
  // This run's own is asked for again when its process is started again.
  REQUIRE(ask("own").ok());
  REQUIRE(ask("own").ok());
  CHECK(GuardFixture::Clean(fixture.TearDown()));
  CHECK(FileExists(base + "/kv/strangers"));
  CHECK_FALSE(FileExists(base + "/own"));
}

TEST_CASE("a tier whose process is started again begins empty", "[C26][M22][live]") {
  GuardFixture fixture;
  const std::string base = fixture.dir("nvme");
  REQUIRE(MakeDirs(base).ok());
  const Record tier =
      Record("directory").Add("epoch", 3).Add("base", base).Add("path", "kv").Add("emptied", 1);
  fixture.Must(tier);
  REQUIRE(MakeDirs(base + "/kv/deep").ok());
  REQUIRE(AtomicWriteFile(base + "/kv/deep/block", "x").ok());
  fixture.Must(tier);
  CHECK(ListDir(base + "/kv")->empty());
  REQUIRE(AtomicWriteFile(base + "/kv/block", "x").ok());
  // Without the word it is left as it is: what a process goes on with.
  fixture.Must(Record("directory").Add("epoch", 3).Add("base", base).Add("path", "kv"));
  CHECK(FileExists(base + "/kv/block"));
  CHECK(GuardFixture::Clean(fixture.TearDown()));
  CHECK_FALSE(FileExists(base + "/kv"));
}

TEST_CASE("a directory that was swapped for another is left and told", "[C26][live]") {
  GuardFixture fixture;
  std::string base = fixture.dir("nvme");
  REQUIRE(MakeDirs(base).ok());
  fixture.Must(Record("directory").Add("epoch", 3).Add("base", base).Add("path", "kv"));
  REQUIRE(rename((base + "/kv").c_str(), (base + "/moved").c_str()) == 0);
  REQUIRE(MakeDirs(base + "/kv/precious").ok());
  auto events = fixture.TearDown();
  CHECK_FALSE(GuardFixture::Clean(events));
  CHECK(FileExists(base + "/kv/precious"));
}

TEST_CASE("a cycle ends with the lease kept and the next one starts afresh", "[C27][live]") {
  GuardFixture fixture;
  fixture.StartShell("engine-0", "echo x > $WORK/old; exec sleep 1000", {{"request", "r1"}});
  CHECK(GuardFixture::Clean(fixture.TearDown(seconds(2), true)));
  CHECK(ListDir(fixture.work_dir())->size() == 1);  // the marker
  fixture.StartShell("engine-0", "exec sleep 1000", {{"request", "r2"}});
  CHECK(GuardFixture::Clean(fixture.TearDown(seconds(2))));
  CHECK_FALSE(FileExists(fixture.work_dir()));
}

TEST_CASE("a ledger cut or damaged anywhere still leads to a swept machine", "[live]") {
  // A whole run's ledger, its guard killed.
  GuardFixture fixture;
  Record engine = fixture.StartShell("engine-0", "setsid sleep 1000 & exec sleep 1000");
  fixture.KillGuard();
  std::string ledger = fixture.run_dir() + "/ledger";
  std::string whole = *ReadFile(ledger);
  // Somewhere inside, cut; the first byte of a line flipped; nothing left at all.
  enum Damage { kCut, kFlip, kEmpty };
  Damage damage = GENERATE(kCut, kFlip, kEmpty);
  std::string broken = damage == kCut ? whole.substr(0, whole.size() - 20) : damage == kEmpty ? "" : whole;
  if (damage == kFlip) broken[whole.find('\n') + 3] ^= 1;
  {
    FILE* file = fopen(ledger.c_str(), "wb");
    fwrite(broken.data(), 1, broken.size(), file);
    fclose(file);
  }
  fixture.Adopt();
  auto events = fixture.TearDown();
  for (int pid : guard::AllPids())
    CHECK_FALSE(guard::HasEnvironmentWord(pid, "POOLMARK_RUN=" + fixture.run_name()));
  CHECK_FALSE(FileExists(fixture.work_dir()));
  if (damage != kCut) {
    CHECK_FALSE(GuardFixture::Clean(events));
    CHECK(GuardFixture::Items(events, "ledger").at(0).Get("name").find(ledger + ":") == 0);
  }
}

TEST_CASE("a lease that runs out while a cycle is torn down ends the run after it", "[C25][live]") {
  GuardFixture fixture([](process::GuardStart* start) {
    start->deadline = RealClock().Boot() + milliseconds(700);
    start->grace = milliseconds(200);
  });
  fixture.StartShell("engine-0", "trap '' TERM; while :; do sleep 1; done");
  fixture.Must(
      Record("teardown").Add("epoch", 3).Add("cause", "cycle").Add("grace_ns", 1'500'000'000).Add("keep", 1));
  REQUIRE(WaitFor([&] { return !guard::LedgerIsLocked(fixture.run_dir() + "/ledger"); }));
  guard::RunState state = guard::Fold(fixture.Ledger().records);
  CHECK(state.finished);
  CHECK(state.clean);
  CHECK_FALSE(FileExists(fixture.work_dir()));
}

TEST_CASE("a directory with very many files is removed while requests are answered", "[C26][live]") {
  GuardFixture fixture;
  fixture.Must(Record("directory").Add("epoch", 3).Add("base", fixture.work_dir()).Add("path", "tier"));
  for (int i = 0; i < 20000; ++i) {
    FILE* file = fopen((fixture.work_dir() + "/tier/" + std::to_string(i)).c_str(), "wb");
    REQUIRE(file != nullptr);
    fclose(file);
  }
  fixture.Must(Record("teardown").Add("epoch", 3).Add("cause", "end").Add("grace_ns", 0));
  // Until it is gone every question has an answer, or the guard has ended its work.
  int answered = 0;
  while (fixture.client().Ask(Record("hello"), seconds(2)).ok()) ++answered;
  CHECK(answered > 0);
  REQUIRE(WaitFor([&] { return !guard::LedgerIsLocked(fixture.run_dir() + "/ledger"); }));
  CHECK_FALSE(FileExists(fixture.work_dir()));
}
