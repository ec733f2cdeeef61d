#include "agent/process/guard_launcher.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>

#include <thread>
#include <vector>

#include "agent/guard/unique_fd.h"
#include "agent/process/guard_client.h"
#include "common/base/files.h"

extern char** environ;

namespace poolmark::process {
namespace {

struct SpawnSettings {
  SpawnSettings() {
    posix_spawn_file_actions_init(&actions);
    posix_spawnattr_init(&attributes);
  }
  ~SpawnSettings() {
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attributes);
  }
  SpawnSettings(const SpawnSettings&) = delete;
  SpawnSettings& operator=(const SpawnSettings&) = delete;
  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
};

std::vector<std::string> Arguments(const GuardStart& start) {
  std::vector<std::string> argv = {start.program, "--dir",  start.run_directory, "--run", start.run,
                                   "--job",       start.job};
  auto number = [&](const char* flag, auto value) { argv.insert(argv.end(), {flag, std::to_string(value)}); };
  number("--epoch", start.epoch);
  number("--deadline", start.deadline.count());
  number("--grace", start.grace.count());
  number("--kill-wait", start.kill_wait.count());
  number("--command-limit", start.command_limit.count());
  if (!start.work_name.empty())
    argv.insert(argv.end(), {"--work-base", start.work_base, "--work-name", start.work_name});
  if (start.uid) number("--uid", *start.uid);
  if (start.gid) number("--gid", *start.gid);
  if (start.log_segment_bytes) number("--log-segment", *start.log_segment_bytes);
  if (!start.use_cgroup) argv.push_back("--no-cgroup");
  if (start.adopt) argv.push_back("--adopt");
  return argv;
}

}  // namespace

Result<int> StartGuard(const GuardStart& start) {
  std::vector<std::string> words = Arguments(start);
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  std::string log = start.run_directory + "/guard.log";

  SpawnSettings settings;
  posix_spawn_file_actions_addopen(&settings.actions, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&settings.actions, 1, log.c_str(),
                                   O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW, 0600);
  posix_spawn_file_actions_adddup2(&settings.actions, 1, 2);
  posix_spawn_file_actions_addclosefrom_np(&settings.actions, 3);
  posix_spawn_file_actions_addchdir_np(&settings.actions, "/");
  sigset_t none;
  sigset_t all;
  sigemptyset(&none);
  sigfillset(&all);
  posix_spawnattr_setsigmask(&settings.attributes, &none);
  posix_spawnattr_setsigdefault(&settings.attributes, &all);
  posix_spawnattr_setflags(&settings.attributes,
                           POSIX_SPAWN_SETSID | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  pid_t pid = 0;
  int error =
      posix_spawn(&pid, start.program.c_str(), &settings.actions, &settings.attributes, argv.data(), environ);
  if (error != 0) return FromErrno(start.program, "start the guard", error);

  constexpr auto kPatience = std::chrono::seconds(20);
  auto end = RealClock().Steady() + kPatience;
  while (RealClock().Steady() < end) {
    int status = 0;
    if (waitpid(pid, &status, WNOHANG) == pid) {
      auto said = ReadFile(log, 65536);
      return Internal(start.program, "the guard ended at once", said.ok() ? *said : "see " + log);
    }
    auto client = GuardClient::Connect(start.run_directory);
    if (client.ok() && (*client)->Ask(guard::Record("hello")).ok()) return pid;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  kill(pid, SIGKILL);
  waitpid(pid, nullptr, 0);
  return Unavailable(start.program, "the guard does not answer after 20 s", "see " + log);
}

void ReapGuard(int pid) {
  // Its connection closes a moment before it has ended.
  const auto end = RealClock().Steady() + std::chrono::seconds(2);
  while (waitpid(pid, nullptr, WNOHANG) == 0 && RealClock().Steady() < end) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
}

}  // namespace poolmark::process
