// CPU time of process trees, from /proc/<pid>/stat: a vLLM engine is an API server, an engine core and
// workers, and the process that was started is not the one that works. Not thread-safe.
#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "common/base/measured.h"

namespace poolmark::agent {

struct ProcessStat {
  int pid = 0;
  std::string name;
  char state = '?';
  int parent = 0;
  uint64_t own_ticks = 0;       // user and system
  uint64_t children_ticks = 0;  // of ended children that were waited for
  uint64_t start_ticks = 0;     // since boot: with the pid it identifies the process
};
// Names may hold blanks and parentheses. Nothing when the text is malformed.
std::optional<ProcessStat> ParseProcessStat(std::string_view text);

struct TreeCpu {
  double seconds = 0;
  int processes = 0;
};

class ProcessTrees {
 public:
  explicit ProcessTrees(std::string root, double ticks_per_second);
  // Looks for children anew at every `rescan`-th call (a walk over all processes); in between, only the
  // processes known are read.
  Measured<TreeCpu> Read(int root_pid);
  // Call once a round before Read.
  void NextRound();

 private:
  struct Tree {
    uint64_t start_ticks = 0;
    std::set<int> pids;
    uint64_t largest_ticks = 0;  // a tree's time never falls: what a vanished, unwaited child used stays
  };
  void Rescan();
  std::string root_;
  double ticks_per_second_;
  unsigned round_ = 0;
  std::multimap<int, int> children_;  // parent -> child, from the last walk
  std::map<int, Tree> trees_;
};

}  // namespace poolmark::agent
