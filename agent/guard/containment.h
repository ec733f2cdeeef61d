// Which processes are ours, and the end of all of them. With cgroup v2: the members of the run's group.
// Everywhere, and always in addition: processes whose environment carries the run's marker, and our own
// descendants (the guard is their subreaper, so orphans come back to it). Not thread-safe.
#pragma once
#include <chrono>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "agent/guard/proc.h"

namespace poolmark::guard {

inline constexpr char kRunMarker[] = "POOLMARK_RUN";
inline constexpr char kProcessMarker[] = "POOLMARK_PROCESS";

struct Member {
  pid_t pid = 0;
  uint64_t start_time = 0;
  bool operator<(const Member& other) const {
    return pid != other.pid ? pid < other.pid : start_time < other.start_time;
  }
};

class Containment {
 public:
  // `group` is the run's cgroup directory; empty: none, containment by subreaper and marker.
  Containment(std::string run, std::string group) : run_(std::move(run)), group_(std::move(group)) {}

  bool has_cgroup() const { return !group_.empty(); }
  const std::string& group() const { return group_; }
  void DropGroup() { group_.clear(); }
  std::string run_word() const { return std::string(kRunMarker) + "=" + run_; }

  // Living members (no zombies) of the run.
  std::vector<Member> Members() const;
  // And of one process of it: those in its cgroup; without one those that carry its marker, and our
  // descendants in the session that its `leader` opened (0: not asked for). The session counts because a
  // program may write over its environment to show a title, as redis-server does, and the marker is gone.
  std::vector<Member> MembersOf(const std::string& process_id, const std::string& process_group,
                                pid_t leader) const;
  // SIGKILL to all of them: one pass.
  void KillAll();
  void KillProcess(const std::string& process_id, const std::string& process_group, pid_t leader);
  // Remembers who is a member now, about once a second: whoever once was one may have made shared memory.
  void Note();
  // The ledger knows of this member, from a guard before this one.
  void Remember(const Member& member);
  // Whether the process that had this pid at that second of the wall clock was a member, as far as anybody
  // can know: the pid is a stranger's before our process was born, and may be one's after it was last seen.
  bool WasMemberAt(pid_t pid, int64_t wall_seconds) const;
  // Children of the guard that are no part of the run (its own helper commands).
  void Exclude(pid_t pid) { excluded_.insert(pid); }
  void Include(pid_t pid) { excluded_.erase(pid); }

 private:
  struct Life {
    uint64_t start_time = 0;
    std::chrono::nanoseconds last_seen{0};  // CLOCK_BOOTTIME
  };
  using Processes = std::map<pid_t, ProcStat>;
  static Processes AllProcesses();
  bool IsDescendant(const ProcStat& process, const Processes& all) const;

  std::string run_;
  std::string group_;
  std::map<pid_t, std::vector<Life>> seen_;
  std::set<pid_t> last_noted_;  // with a group: who was in it at the last Note
  std::set<pid_t> excluded_;
};

}  // namespace poolmark::guard
