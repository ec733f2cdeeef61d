// Processes as /proc shows them. A process is (pid, start time, boot id): a bare pid may be a stranger's
// by the time one looks. Functions are thread-safe and read the real /proc.
#pragma once
#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "agent/guard/unique_fd.h"

namespace poolmark::guard {

struct ProcStat {
  pid_t pid = 0;
  pid_t parent = 0;
  pid_t session = 0;        // its leader's pid, also once the leader is gone
  char state = '?';         // R, S, D, Z …
  uint64_t start_time = 0;  // clock ticks since boot
  std::string command;      // as the kernel names it, at most 15 characters
};

// Text of /proc/<pid>/stat; the command may hold spaces and parentheses. Nothing when malformed.
std::optional<ProcStat> ParseStat(std::string_view text);
// Nothing when there is no such process.
std::optional<ProcStat> ReadStat(pid_t pid);
std::vector<pid_t> AllPids();
const std::string& BootId();

// True when the process of that pid and start time exists and is no zombie.
bool IsAlive(pid_t pid, uint64_t start_time);
// A pidfd that is certain to mean that process, or an empty one when it is gone.
UniqueFd OpenPid(pid_t pid, uint64_t start_time);
// Through the pidfd: never a bare kill(). False when it is gone.
bool SignalPid(int pidfd, int signal);

// True when the process was started with that word (NAME=VALUE) in its environment.
bool HasEnvironmentWord(pid_t pid, const std::string& word);
// Up to `limit` bytes of a file that has no size.
std::string ReadPseudo(const std::string& path, size_t limit = 1u << 20);

}  // namespace poolmark::guard
