// Which processes are ours, and the end of all of them. With cgroup v2: the members of the run's group.
// Everywhere, and always in addition: processes whose environment carries the run's marker, and our own
// descendants (the guard is their subreaper, so orphans come back to it). Not thread-safe.
#pragma once
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
  // Remembers the pids that are members now: whoever once was one may have made shared memory.
  void Note();
  // True for a pid that was seen as a member.
  bool WasMember(pid_t pid) const { return seen_.count(pid) != 0; }
  // Children of the guard that are no part of the run (its own helper commands).
  void Exclude(pid_t pid) { excluded_.insert(pid); }
  void Include(pid_t pid) { excluded_.erase(pid); }

 private:
  using Processes = std::map<pid_t, ProcStat>;
  static Processes AllProcesses();
  bool IsDescendant(const ProcStat& process, const Processes& all) const;

  std::string run_;
  std::string group_;
  std::set<pid_t> seen_;
  std::set<pid_t> excluded_;
};

}  // namespace poolmark::guard
