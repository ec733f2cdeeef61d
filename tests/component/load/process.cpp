#include "tests/component/load/process.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>

#include "common/base/files.h"
#include "tests/support/shared_data.h"
#include "tests/support/temp_dir.h"

extern char** environ;

namespace poolmark::test {

Process::Process(const std::vector<std::string>& argv, const std::string& output) : output_(output) {
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  const std::string out = output + ".out";
  const std::string err = output + ".err";
  posix_spawn_file_actions_addopen(&actions, 1, out.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0644);
  posix_spawn_file_actions_addopen(&actions, 2, err.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0644);
  std::vector<char*> raw;
  for (const std::string& word : argv) raw.push_back(const_cast<char*>(word.c_str()));
  raw.push_back(nullptr);
  if (posix_spawnp(&pid_, raw[0], &actions, nullptr, raw.data(), environ) != 0) pid_ = -1;
  posix_spawn_file_actions_destroy(&actions);
}

Process::~Process() {
  if (pid_ > 0 && !code_.has_value()) {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
}

void Process::Signal(int number) {
  if (pid_ > 0 && !code_.has_value()) kill(pid_, number);
}

std::optional<int> Process::Wait(int milliseconds) {
  if (code_.has_value() || pid_ < 0) return code_;
  const int fd = static_cast<int>(syscall(SYS_pidfd_open, pid_, 0));
  pollfd item{fd, POLLIN, 0};
  const int ready = poll(&item, 1, milliseconds);
  close(fd);
  if (ready != 1) return std::nullopt;
  int status = 0;
  waitpid(pid_, &status, 0);
  code_ = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return code_;
}

std::string Process::out() const {
  return ReadFile(output_ + ".out").value_or("");
}
std::string Process::err() const {
  return ReadFile(output_ + ".err").value_or("");
}

const std::string& MockServer() {
  static const TempDir dir;
  static const std::string path = []() -> std::string {
    const auto shared = SharedData();
    if (!shared.has_value()) return "";
    const std::string source = *shared + "/bench/loadgen/mocksse.c";
    if (!FileExists(source)) {
      std::printf("skipped: no mock server\n");
      return "";
    }
    const std::string program = dir / "mocksse";
    Process compiler({"cc", "-O2", "-o", program, source, "-lm"}, dir / "cc");
    if (compiler.Wait(60000) == 0) return program;
    std::printf("skipped: no C compiler for the mock server\n");
    return "";
  }();
  return path;
}

}  // namespace poolmark::test
