#include "agent/guard/containment.h"

#include <signal.h>

#include "agent/guard/cgroup.h"

namespace poolmark::guard {

std::vector<Member> Containment::Find(const std::string& group, const std::string& word,
                                      bool descendants) const {
  std::map<pid_t, ProcStat> all;
  for (pid_t pid : AllPids()) {
    if (auto stat = ReadStat(pid)) all.emplace(pid, *stat);
  }
  std::set<pid_t> ours;
  if (!group.empty()) {
    for (pid_t pid : CgroupMembers(group)) ours.insert(pid);
  }
  const pid_t self = getpid();
  for (const auto& [pid, stat] : all) {
    if (pid == self || excluded_.count(pid) != 0 || ours.count(pid) != 0) continue;
    bool is_ours = HasEnvironmentWord(pid, word);
    // Up the line of parents; bounded, because pids may be reused while we look.
    pid_t up = stat.parent;
    for (int depth = 0; descendants && !is_ours && depth < 64 && up > 1; ++depth) {
      if (excluded_.count(up) != 0) break;
      if (up == self) is_ours = true;
      auto parent = all.find(up);
      if (parent == all.end()) break;
      up = parent->second.parent;
    }
    if (is_ours) ours.insert(pid);
  }
  std::vector<Member> members;
  for (pid_t pid : ours) {
    // Read again: a member of the group may have been born after the list was made.
    auto stat = ReadStat(pid);
    if (stat && stat->state != 'Z' && stat->state != 'X') members.push_back(Member{pid, stat->start_time});
  }
  return members;
}

std::vector<Member> Containment::Members() const {
  return Find(group_, run_word(), true);
}

std::vector<Member> Containment::MembersOf(const std::string& process_id,
                                           const std::string& process_group) const {
  if (!process_group.empty() && CgroupExists(process_group)) {
    std::vector<Member> members;
    for (pid_t pid : CgroupMembers(process_group)) {
      auto stat = ReadStat(pid);
      if (stat && stat->state != 'Z') members.push_back(Member{pid, stat->start_time});
    }
    return members;
  }
  std::vector<Member> members;
  for (const Member& member : Find("", std::string(kProcessMarker) + "=" + process_id, false)) {
    if (HasEnvironmentWord(member.pid, run_word())) members.push_back(member);
  }
  return members;
}

void Containment::KillAll() {
  if (!group_.empty() && CgroupExists(group_)) (void)KillCgroup(group_).ok();
  for (const Member& member : Members()) {
    SignalPid(OpenPid(member.pid, member.start_time).get(), SIGKILL);
  }
}

void Containment::KillProcess(const std::string& process_id, const std::string& process_group) {
  if (!process_group.empty() && CgroupExists(process_group)) {
    (void)KillCgroup(process_group).ok();
    return;
  }
  for (const Member& member : MembersOf(process_id, process_group)) {
    SignalPid(OpenPid(member.pid, member.start_time).get(), SIGKILL);
  }
}

void Containment::Note() {
  if (seen_.size() > 100000) return;
  if (!group_.empty()) {
    for (pid_t pid : CgroupMembers(group_)) seen_.insert(pid);
  } else {
    for (const Member& member : Members()) seen_.insert(member.pid);
  }
}

}  // namespace poolmark::guard
