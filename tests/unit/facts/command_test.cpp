#include "agent/facts/command.h"

#include <signal.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cerrno>
#include <thread>

#include "common/base/files.h"
#include "tests/support/temp_dir.h"
#include "tests/support/waiting.h"

using namespace poolmark;
using namespace poolmark::agent;
using namespace std::chrono_literals;

namespace {
// Gone, or a zombie that init has yet to reap. A signal takes a moment to arrive.
bool GoneSoon(int pid) {
  const Nanoseconds deadline = RealClock().Steady() + 10s;
  while (RealClock().Steady() < deadline) {
    const auto stat = ReadPseudoFile("/proc/" + std::to_string(pid) + "/stat");
    if (!stat.ok() || stat->find(") Z ") != std::string::npos) return true;
    std::this_thread::yield();
  }
  return false;
}
Command Shell(const std::string& script) {
  return {{"/bin/sh", "-c", script}, {}};
}
}  // namespace

TEST_CASE("a command's output, errors and exit code come back") {
  const auto spawner = MakeSpawner();
  const auto output = RunCommand(*spawner, Shell("echo out; echo err >&2; exit 3"), 10s);
  REQUIRE(output.ok());
  CHECK(output->out == "out\n");
  CHECK(output->err == "err\n");
  CHECK(output->exit_code == 3);
  CHECK_FALSE(output->ok());
  CHECK(Describe(Shell(""), *output) == "/bin/sh exited with 3: err");
}

TEST_CASE("the environment is minimal and arguments pass no shell") {
  setenv("POOLMARK_CANARY", "leak", 1);
  const auto spawner = MakeSpawner();
  Command command{{"env"}, {{"ADDED", "a b"}}};
  const auto output = RunCommand(*spawner, command, 10s);
  REQUIRE(output.ok());
  CHECK(output->out.find("POOLMARK_CANARY") == std::string::npos);
  CHECK(output->out.find("ADDED=a b\n") != std::string::npos);
  const auto echoed = RunCommand(*spawner, {{"echo", "$(id)", ";", "x"}, {}}, 10s);
  CHECK(echoed->out == "$(id) ; x\n");
}

TEST_CASE("a missing tool is NOT_FOUND, and nothing is started") {
  const auto spawner = MakeSpawner();
  CHECK(RunCommand(*spawner, {{"no-such-tool-anywhere"}, {}}, 1s).status().code() ==
        absl::StatusCode::kNotFound);
  CHECK(RunCommand(*spawner, {{}, {}}, 1s).status().code() == absl::StatusCode::kInternal);
}

TEST_CASE("a command that does not end is stopped with everything it started") {
  const auto spawner = MakeSpawner();
  // parent and grandchild ignore SIGTERM
  const std::string script = "trap '' TERM; (trap '' TERM; while :; do sleep 1; done) & echo $!; wait";
  const auto output = RunCommand(*spawner, Shell(script), 300ms);
  REQUIRE(output.ok());
  CHECK(output->timed_out);
  CHECK(output->exit_signal == SIGKILL);
  CHECK(GoneSoon(std::stoi(output->out)));
}

TEST_CASE("a child that has ended leaves no process of its group behind") {
  const auto spawner = MakeSpawner();
  const auto output = RunCommand(*spawner, Shell("sleep 100 & echo $!"), 10s);
  REQUIRE(output.ok());
  CHECK(output->exit_code == 0);  // does not wait for the pipe that the grandchild holds
  CHECK(GoneSoon(std::stoi(output->out)));
}

TEST_CASE("endless output is cut, not kept") {
  const auto spawner = MakeSpawner();
  Command command = Shell("head -c 3000000 /dev/zero; echo done >&2");
  command.max_output_bytes = 1000;
  const auto output = RunCommand(*spawner, command, 20s);
  REQUIRE(output.ok());
  CHECK(output->out.size() == 1000);
  CHECK(output->truncated);
  CHECK(output->exit_code == 0);
  CHECK(output->err == "done\n");
}

TEST_CASE("destroying a child ends it") {
  const auto spawner = MakeSpawner();
  int pid = 0;
  {
    auto child = spawner->Start({{"sleep", "100"}, {}});
    REQUIRE(child.ok());
    pid = (*child)->pid();
    CHECK_FALSE((*child)->ended());
  }
  CHECK(::kill(pid, 0) == -1);
  CHECK(errno == ESRCH);
}

TEST_CASE("a child that SIGKILL does not end keeps nobody, and its tool is not started again meanwhile") {
  // What hangs in a driver cannot be made here. To its parent, a child that another process traces looks the
  // same: it is killed, and stays until the tracer lets it go.
  test::TempDir dir;
  REQUIRE(AtomicWriteFile(dir / "hangs", "#!/bin/sh\nexec sleep 1000\n", 0755).ok());
  const Command command{{dir / "hangs"}, {}};
  const auto spawner = MakeSpawner();
  auto child = spawner->Start(command);
  REQUIRE(child.ok());
  const int pid = (*child)->pid();
  int ready[2];
  REQUIRE(::pipe(ready) == 0);
  const int tracer = ::fork();
  if (tracer == 0) {
    const char seized = ::ptrace(PTRACE_SEIZE, pid, nullptr, nullptr) == 0 ? 'y' : 'n';
    (void)!::write(ready[1], &seized, 1);
    for (;;) ::pause();
  }
  char seized = '?';
  REQUIRE(::read(ready[0], &seized, 1) == 1);
  ::close(ready[0]);
  ::close(ready[1]);
  if (seized == 'y') {
    CHECK_FALSE((*child)->Wait(10ms));
    (*child)->Stop(0s);
    CHECK((*child)->ended());
    const auto again = spawner->Start(command);
    CHECK(again.status().code() == absl::StatusCode::kDeadlineExceeded);
    CHECK(std::string(again.status().message()).find(std::to_string(pid)) != std::string::npos);
    CHECK(RunCommand(*spawner, Shell("true"), 10s)->ok());  // others are
  } else {
    WARN("skipped: this machine does not let a test trace another process");
  }
  ::kill(tracer, SIGKILL);
  ::waitpid(tracer, nullptr, 0);
  // Gone at last: reaped, and started again.
  if (seized == 'y') CHECK(test::WaitFor([&] { return spawner->Start(command).ok(); }));
  child->reset();
  CHECK(::kill(pid, 0) == -1);
}

TEST_CASE("executables are found in absolute directories of the path only") {
  test::TempDir dir;
  REQUIRE(MakeDirs(dir / "usr/bin").ok());
  REQUIRE(AtomicWriteFile(dir / "usr/bin/tool", "#!/bin/sh\n", 0755).ok());
  REQUIRE(AtomicWriteFile(dir / "usr/bin/data", "x", 0644).ok());
  CHECK(FindExecutable("tool", dir.path(), "/bin:/usr/bin") == dir / "usr/bin/tool");
  CHECK_FALSE(FindExecutable("data", dir.path(), "/usr/bin"));
  CHECK_FALSE(FindExecutable("bin", dir.path(), "/usr"));
  CHECK_FALSE(FindExecutable("tool", "/", ".:relative"));
  CHECK_FALSE(FindExecutable(""));
}
