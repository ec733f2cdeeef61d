// Starts one process. Only from the guard's one thread: the parent-death signal means the thread that
// forked. The child is born in its cgroup, in its own session, with no descriptor of ours, no new
// privileges, default signals and a clean environment. Not thread-safe.
#pragma once
#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "agent/guard/fault.h"
#include "agent/guard/unique_fd.h"

namespace poolmark::guard {

struct SpawnRequest {
  std::string executable;         // absolute path
  std::vector<std::string> argv;  // with argv[0]
  std::vector<std::string> env;   // NAME=VALUE, all of it
  std::string directory;          // empty: /
  int stdout_fd = -1;             // -1: /dev/null
  int stderr_fd = -1;
  std::string cgroup;  // directory; empty: none
  std::optional<uid_t> uid;
  std::optional<gid_t> gid;
  bool die_with_parent = true;
};
struct Spawned {
  pid_t pid = 0;
  uint64_t start_time = 0;
  UniqueFd pidfd;
};

// A child that could not be executed is reported here with its reason, and is already reaped.
Fault Spawn(const SpawnRequest& request, Spawned* spawned);

}  // namespace poolmark::guard
