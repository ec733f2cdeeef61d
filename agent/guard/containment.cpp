#include "agent/guard/containment.h"

#include <signal.h>
#include <unistd.h>

#include "agent/guard/cgroup.h"
#include "agent/guard/run.h"

namespace poolmark::guard {

namespace {

constexpr size_t kMostSeen = 100'000;
constexpr size_t kMostLives = 16;  // of one pid
// Members are noted once a second; a guard that the machine keeps waiting is later.
constexpr std::chrono::seconds kBetweenNotes{3};

std::chrono::nanoseconds BornAt(uint64_t start_time) {
  static const long ticks = sysconf(_SC_CLK_TCK);
  return std::chrono::nanoseconds(
      static_cast<int64_t>(start_time * (1'000'000'000ull / static_cast<uint64_t>(ticks))));
}

// Of the wall clock as it goes now: a step of it since moves every answer alike.
int64_t WallSecond(std::chrono::nanoseconds boot) {
  return std::chrono::floor<std::chrono::seconds>(WallNow() - (BootNow() - boot)).count();
}

// Those that still live; one of a group may have been born after a list was made, so each is read again.
std::vector<Member> Living(const std::set<pid_t>& pids) {
  std::vector<Member> members;
  for (pid_t pid : pids) {
    auto stat = ReadStat(pid);
    if (stat && stat->state != 'Z' && stat->state != 'X') members.push_back(Member{pid, stat->start_time});
  }
  return members;
}

std::set<pid_t> PidsIn(const std::string& group) {
  std::set<pid_t> pids;
  for (pid_t pid : CgroupMembers(group)) pids.insert(pid);
  return pids;
}

}  // namespace

Containment::Processes Containment::AllProcesses() {
  Processes all;
  for (pid_t pid : AllPids()) {
    if (auto stat = ReadStat(pid)) all.emplace(pid, *stat);
  }
  return all;
}

bool Containment::IsDescendant(const ProcStat& process, const Processes& all) const {
  const pid_t self = getpid();
  // Up the line of parents; bounded, because pids may be reused while we look.
  pid_t up = process.parent;
  for (int depth = 0; depth < 64 && up > 1; ++depth) {
    if (excluded_.count(up) != 0) return false;
    if (up == self) return true;
    auto parent = all.find(up);
    if (parent == all.end()) return false;
    up = parent->second.parent;
  }
  return false;
}

std::vector<Member> Containment::Members() const {
  const Processes all = AllProcesses();
  std::set<pid_t> ours;
  if (!group_.empty()) ours = PidsIn(group_);
  for (const auto& [pid, stat] : all) {
    if (pid == getpid() || excluded_.count(pid) != 0 || ours.count(pid) != 0) continue;
    if (HasEnvironmentWord(pid, run_word()) || IsDescendant(stat, all)) ours.insert(pid);
  }
  return Living(ours);
}

std::vector<Member> Containment::MembersOf(const std::string& process_id, const std::string& process_group,
                                           pid_t leader) const {
  if (!process_group.empty() && CgroupExists(process_group)) return Living(PidsIn(process_group));
  const std::string word = std::string(kProcessMarker) + "=" + process_id;
  const Processes all = AllProcesses();
  std::set<pid_t> ours;
  for (const auto& [pid, stat] : all) {
    if (pid == getpid() || excluded_.count(pid) != 0) continue;
    const bool marked = HasEnvironmentWord(pid, word) && HasEnvironmentWord(pid, run_word());
    if (marked || (leader > 0 && stat.session == leader && IsDescendant(stat, all))) ours.insert(pid);
  }
  return Living(ours);
}

void Containment::KillAll() {
  if (!group_.empty() && CgroupExists(group_)) (void)KillCgroup(group_).ok();
  for (const Member& member : Members()) {
    SignalPid(OpenPid(member.pid, member.start_time).get(), SIGKILL);
  }
}

void Containment::KillProcess(const std::string& process_id, const std::string& process_group, pid_t leader) {
  if (!process_group.empty() && CgroupExists(process_group)) {
    (void)KillCgroup(process_group).ok();
    return;
  }
  for (const Member& member : MembersOf(process_id, process_group, leader)) {
    SignalPid(OpenPid(member.pid, member.start_time).get(), SIGKILL);
  }
}

void Containment::Note() {
  if (seen_.size() > kMostSeen) return;
  if (group_.empty()) {
    for (const Member& member : Members()) Remember(member);
    return;
  }
  std::set<pid_t> now = PidsIn(group_);
  for (pid_t pid : now) {
    if (last_noted_.count(pid) != 0) {
      if (auto known = seen_.find(pid); known != seen_.end()) known->second.back().last_seen = BootNow();
    } else if (auto stat = ReadStat(pid)) {
      Remember(Member{pid, stat->start_time});
    }
  }
  last_noted_ = std::move(now);
}

void Containment::Remember(const Member& member) {
  std::vector<Life>& lives = seen_[member.pid];
  if (lives.empty() || lives.back().start_time != member.start_time) {
    if (lives.size() >= kMostLives) lives.erase(lives.begin());
    lives.push_back(Life{member.start_time, {}});
  }
  lives.back().last_seen = BootNow();
}

bool Containment::WasMemberAt(pid_t pid, int64_t wall_seconds) const {
  const auto known = seen_.find(pid);
  if (known == seen_.end()) return false;
  const auto now = ReadStat(pid);
  for (const Life& life : known->second) {
    if (wall_seconds + 1 < WallSecond(BornAt(life.start_time))) continue;
    if (now && now->start_time == life.start_time) return true;
    // Whoever has the pid now may have had it then.
    if (now && WallSecond(BornAt(now->start_time)) <= wall_seconds + 1) continue;
    if (wall_seconds <= WallSecond(life.last_seen + kBetweenNotes)) return true;
  }
  return false;
}

}  // namespace poolmark::guard
