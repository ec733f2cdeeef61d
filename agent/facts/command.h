// Runs a vendor tool (nvidia-smi, iperf3, ipmitool ...) as a child of the agent, with bounded output, a time
// limit and no shell. Not for the processes of a job: those belong to the guard. A child is always ended and
// reaped, on every path, together with its process group. One that even SIGKILL does not end (it hangs in a
// driver) is left to itself after a few seconds, and its tool is not started again while it is there.
// Spawners are thread-safe; a Child belongs to one thread.
#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/base/clock.h"
#include "common/base/result.h"

namespace poolmark::agent {

struct Command {
  std::vector<std::string> argv;           // argv[0] is looked up in PATH unless it holds a slash
  std::map<std::string, std::string> env;  // added to a minimal environment (PATH, HOME, LC_ALL=C)
  size_t max_output_bytes = 4u << 20;      // of each stream; what comes after is read and dropped
};

struct CommandOutput {
  std::optional<int> exit_code;  // absent: ended by a signal
  std::optional<int> exit_signal;
  bool timed_out = false;  // ended by us at the time limit
  Nanoseconds limit{0};    // which it was; 0: not told
  bool truncated = false;
  std::string out;
  std::string err;
  bool ok() const { return exit_code == 0 && !timed_out; }
};

class Child {
 public:
  virtual ~Child() = default;  // ends the process group and reaps
  virtual int pid() const = 0;
  // Output so far, without waiting for more.
  virtual const CommandOutput& Poll() = 0;
  // True once the process has ended and its output has been read.
  virtual bool ended() const = 0;
  // Waits up to `timeout`; true when it ended.
  virtual bool Wait(Nanoseconds timeout) = 0;
  // SIGTERM, `grace`, SIGKILL. Returns what it printed.
  virtual CommandOutput Stop(Nanoseconds grace) = 0;
};

class Spawner {
 public:
  virtual ~Spawner() = default;
  // NOT_FOUND when there is no such executable, UNAVAILABLE when it cannot be started, DEADLINE_EXCEEDED
  // when it is not started because it hangs.
  virtual Result<std::unique_ptr<Child>> Start(const Command& command) = 0;
};

// posix_spawn in a process group of its own, standard input from /dev/null. The agent may give a spawner that
// starts children under the guard instead.
std::unique_ptr<Spawner> MakeSpawner();

// Starts, waits, ends at the limit. An exit code other than 0 and a time-out are data, not errors.
Result<CommandOutput> RunCommand(Spawner& spawner, const Command& command, Nanoseconds timeout);

// One line for errors and evidence: "nvidia-smi exited with 9: NVIDIA-SMI has failed ...", bounded.
std::string Describe(const Command& command, const CommandOutput& output);

// The first executable file of that name in `path` (colon-separated; $PATH when empty) below `root`.
std::optional<std::string> FindExecutable(const std::string& name, const std::string& root = "/",
                                          const std::string& path = "");

}  // namespace poolmark::agent
