#include "agent/telemetry/process_cpu.h"

#include <algorithm>
#include <climits>
#include <vector>

#include "agent/facts/sockets.h"
#include "agent/facts/text.h"
#include "common/base/files.h"

namespace poolmark::agent {
namespace {

constexpr unsigned kRescanEvery = 5;

std::optional<ProcessStat> ReadStat(const std::string& root, int pid) {
  const auto text = ReadPseudoFile(Below(root, "/proc/" + std::to_string(pid) + "/stat"), 4096);
  return text.ok() ? ParseProcessStat(*text) : std::nullopt;
}

}  // namespace

std::optional<ProcessStat> ParseProcessStat(std::string_view text) {
  const size_t open = text.find('(');
  const size_t close = text.rfind(')');  // the name may hold any character, the rest no parenthesis
  if (open == std::string_view::npos || close == std::string_view::npos || close < open) return std::nullopt;
  const auto pid = ToUint(Trim(text.substr(0, open)));
  const auto fields = Fields(Trim(text.substr(close + 1)));
  if (!pid || *pid > INT_MAX || fields.size() < 20 || fields[0].size() != 1) return std::nullopt;
  const auto parent = ToUint(fields[1]), user = ToUint(fields[11]), system = ToUint(fields[12]);
  const auto children_user = ToUint(fields[13]), children_system = ToUint(fields[14]),
             start = ToUint(fields[19]);
  if (!parent || *parent > INT_MAX || !user || !system || !children_user || !children_system || !start)
    return std::nullopt;
  ProcessStat stat;
  stat.pid = static_cast<int>(*pid);
  stat.name = std::string(text.substr(open + 1, close - open - 1));
  stat.state = fields[0][0];
  stat.parent = static_cast<int>(*parent);
  stat.own_ticks = *user + *system;
  stat.children_ticks = *children_user + *children_system;
  stat.start_ticks = *start;
  return stat;
}

ProcessTrees::ProcessTrees(std::string root, double ticks_per_second)
    : root_(std::move(root)), ticks_per_second_(ticks_per_second) {}

void ProcessTrees::NextRound() {
  if (round_++ % kRescanEvery == 0) Rescan();
}

void ProcessTrees::Rescan() {
  children_.clear();
  for (const int pid : ReadPids(root_)) {
    if (const auto stat = ReadStat(root_, pid)) children_.emplace(stat->parent, pid);
  }
  for (auto& [root_pid, tree] : trees_) tree.pids.clear();
}

Measured<TreeCpu> ProcessTrees::Read(int root_pid) {
  const auto root = ReadStat(root_, root_pid);
  if (!root || root->state == 'Z' || root->state == 'X') {
    trees_.erase(root_pid);
    return NotMeasured{"the process has ended"};
  }
  Tree& tree = trees_[root_pid];
  if (tree.start_ticks != root->start_ticks) {  // first sight, or the number was taken by another process
    tree = Tree{};
    tree.start_ticks = root->start_ticks;
  }
  if (tree.pids.empty()) {
    std::vector<int> open = {root_pid};
    while (!open.empty()) {
      const int pid = open.back();
      open.pop_back();
      if (!tree.pids.insert(pid).second) continue;
      const auto [begin, end] = children_.equal_range(pid);
      for (auto child = begin; child != end; ++child) open.push_back(child->second);
    }
  }
  uint64_t ticks = 0;
  TreeCpu cpu;
  for (auto pid = tree.pids.begin(); pid != tree.pids.end();) {
    const auto stat = ReadStat(root_, *pid);
    if (!stat || stat->start_ticks < tree.start_ticks) {
      pid = tree.pids.erase(pid);
      continue;
    }
    // an ended child that was waited for is in its parent's children time: each is counted once
    ticks += stat->own_ticks + stat->children_ticks;
    ++cpu.processes;
    ++pid;
  }
  tree.largest_ticks = std::max(tree.largest_ticks, ticks);
  cpu.seconds = static_cast<double>(tree.largest_ticks) / ticks_per_second_;
  return cpu;
}

}  // namespace poolmark::agent
