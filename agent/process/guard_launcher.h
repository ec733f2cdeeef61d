// Starts poolmark-guard, which then lives on its own: in its own session, with nothing of the agent's
// open, so that it survives the agent. Thread-safe.
#pragma once
#include <cstdint>
#include <optional>
#include <string>

#include "common/base/clock.h"
#include "common/base/result.h"

namespace poolmark::process {

struct GuardStart {
  std::string program;        // path of poolmark-guard
  std::string run_directory;  // exists, mode 0700
  std::string run;
  std::string job;
  uint64_t epoch = 0;
  Nanoseconds deadline{0};  // on CLOCK_BOOTTIME
  std::string work_base;
  std::string work_name;
  Nanoseconds grace = std::chrono::seconds(30);
  Nanoseconds kill_wait = std::chrono::seconds(15);
  Nanoseconds command_limit = std::chrono::seconds(60);  // one command to a container engine
  std::optional<unsigned> uid;
  std::optional<unsigned> gid;
  std::optional<uint64_t> log_segment_bytes;
  bool use_cgroup = true;
  bool adopt = false;  // take a dead guard's ledger over, to tear it down
};

// Returns once the guard answers on its socket; its pid. A guard that cannot begin: its own words.
Result<int> StartGuard(const GuardStart& start);
// Takes note of a guard that ended, if it was a child of ours. Call now and then.
void ReapGuard(int pid);

}  // namespace poolmark::process
