#include "agent/sim/process.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <ctime>

#include "agent/sim/tcp.h"

extern char** environ;

namespace poolmark::sim {
namespace {

sigset_t EndSignals() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGTERM);
  sigaddset(&set, SIGINT);
  return set;
}

}  // namespace

void PrepareSignals() {
  signal(SIGPIPE, SIG_IGN);
  sigset_t set = EndSignals();
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
}

int WaitForSignal() {
  sigset_t set = EndSignals();
  int number = 0;
  while (sigwait(&set, &number) != 0) {
  }
  return number;
}

void AnnouncePort(const std::string& host, int port) {
  std::printf("listening %s:%d\n", host.c_str(), port);
  std::fflush(stdout);
}

Status StartDetachedChild(const ChildOptions& options) {
  std::string seconds = std::to_string(options.lives.count() / 1'000'000'000) + "s";
  std::vector<std::string> words = {"poolmark-sim", "child", "--detach", "--for", seconds};
  if (options.ignore_sigterm) words.push_back("--ignore-sigterm");
  if (options.listen) words.push_back("--listen");
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSID | POSIX_SPAWN_SETSIGMASK);
  sigset_t none;
  sigemptyset(&none);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addclosefrom_np(&actions, 3);
  pid_t pid = 0;
  int error = posix_spawn(&pid, "/proc/self/exe", &actions, &attributes, argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  posix_spawnattr_destroy(&attributes);
  if (error != 0) return FromErrno("detached child", "starting", error);
  // The child forks and ends; its child belongs to init.
  int status = 0;
  while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  return absl::OkStatus();
}

int RunChild(const ChildOptions& options) {
  if (options.detach) {
    pid_t pid = fork();
    if (pid < 0) return 1;
    if (pid > 0) {
      std::printf("child %d\n", pid);
      std::fflush(stdout);
      _exit(0);
    }
    setsid();
  }
  if (options.ignore_sigterm) {
    signal(SIGTERM, SIG_IGN);
  } else {
    sigset_t set = EndSignals();
    pthread_sigmask(SIG_UNBLOCK, &set, nullptr);
  }
  if (options.listen) {
    int port = 0;
    if (auto fd = ListenTcp("127.0.0.1", &port); fd.ok()) AnnouncePort("127.0.0.1", port);
  }
  timespec span{static_cast<time_t>(options.lives.count() / 1'000'000'000),
                static_cast<long>(options.lives.count() % 1'000'000'000)};
  while (nanosleep(&span, &span) != 0 && errno == EINTR) {
  }
  return 0;
}

}  // namespace poolmark::sim
