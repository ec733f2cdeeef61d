// Supervisor::Command: a helper command of the guard itself, outside of what it contains.
#include <fcntl.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>

#include "agent/guard/container_client.h"
#include "agent/guard/proc.h"
#include "agent/guard/supervisor.h"

namespace poolmark::guard {
namespace {

constexpr size_t kMaxOutput = 64 << 10;

// A pipe whose reading end does not wait; both ends close on exec.
bool MakePipe(UniqueFd* output, UniqueFd* input) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return false;
  *output = UniqueFd(ends[0]);
  *input = UniqueFd(fcntl(ends[1], F_DUPFD_CLOEXEC, 10));
  close(ends[1]);
  fcntl(ends[0], F_SETFL, O_NONBLOCK);
  return static_cast<bool>(*input);
}

}  // namespace

Supervisor::CommandResult Supervisor::Command(const std::vector<std::string>& argv,
                                              std::chrono::nanoseconds limit) {
  CommandResult result;
  UniqueFd output[2];  // stdout, stderr
  UniqueFd input[2];
  if (argv.empty() || !MakePipe(&output[0], &input[0]) || !MakePipe(&output[1], &input[1])) return result;
  SpawnRequest request;
  request.executable = argv[0];
  request.argv = argv;
  const char* path = getenv("PATH");
  request.env = {std::string("PATH=") + (path != nullptr ? path : "/usr/sbin:/usr/bin:/sbin:/bin"),
                 "LC_ALL=C"};
  for (std::string& word : ClientVariables()) request.env.push_back(std::move(word));
  request.stdout_fd = input[0].get();
  request.stderr_fd = input[1].get();
  Spawned spawned;
  Fault fault = Spawn(request, &spawned);
  for (UniqueFd& end : input) end.Close();
  if (!fault.ok()) {
    result.output = fault.text();
    return result;
  }
  commands_.insert(spawned.pid);
  containment_->Exclude(spawned.pid);
  auto drain = [this, &result](int fd, bool out) {
    char buffer[4096];
    ssize_t got;
    while ((got = read(fd, buffer, sizeof buffer)) > 0) {
      const auto size = static_cast<size_t>(got);
      if (result.output.size() < kMaxOutput) result.output.append(buffer, size);
      if (out && result.out.size() < kMaxOutput) result.out.append(buffer, size);
    }
    if (got == 0) poller_->Forget(fd);
  };
  for (int i = 0; i < 2; ++i) {
    const int fd = output[i].get();
    poller_->Watch(fd, POLLIN, [drain, fd, i](short) { drain(fd, i == 0); });
  }
  auto ended = [&] {
    Reap();
    return command_status_.count(spawned.pid) != 0;
  };
  if (poller_->RunUntil(ended, limit)) {
    for (int i = 0; i < 2; ++i) drain(output[i].get(), i == 0);
    const int status = command_status_[spawned.pid];
    result.ran = WIFEXITED(status);
    result.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  } else {
    SignalPid(spawned.pidfd.get(), SIGKILL);
    poller_->RunUntil(ended, std::chrono::seconds(2));
    result.output += "\n[no answer in time]";
  }
  for (UniqueFd& end : output) poller_->Forget(end.get());
  containment_->Include(spawned.pid);
  commands_.erase(spawned.pid);
  command_status_.erase(spawned.pid);
  return result;
}

}  // namespace poolmark::guard
