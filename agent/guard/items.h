// What a ledger says exists: the fold of its records. Pure; the same code serves the running guard, the
// guard that takes a dead one's ledger over, and the agent that only reads.
#pragma once
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "agent/guard/record.h"

namespace poolmark::guard {

enum class GoneState { kOpen, kGone, kAlreadyGone, kLeft, kUnknown };
// "open", "gone", "already_gone", "left", "unknown"; anything else reads as unknown.
const char* GoneStateName(GoneState state);
GoneState GoneStateOf(const std::string& name);

struct Item {
  uint64_t number = 0;
  std::string kind;  // process, cgroup, directory, file, port, shared_memory, container
  std::string name;
  Record intent;  // all that was announced
  Record made;    // all that was found out when it was made; empty name: not known to be made
  Record exit;    // processes: how it ended
  GoneState state = GoneState::kOpen;
  std::string proof;
  std::string detail;
  bool forced = false;
  // Open, or looked at and not proven gone.
  bool owed() const { return state != GoneState::kGone && state != GoneState::kAlreadyGone; }
};

struct RunState {
  std::string run;
  std::string job;
  uint64_t epoch = 0;
  std::string boot;  // of the machine when the last guard took over
  std::map<uint64_t, Item> items;
  std::set<std::string> requests;  // request ids that started something
  bool tearing_down = false;
  bool keep = false;
  std::string cause;       // of the last tear-down
  bool torn_down = false;  // the last tear-down ended and nothing was created since
  bool clean = false;      // its verdict
  bool finished = false;   // torn down for good: no further cycle

  void Apply(const Record& record);
  uint64_t next_number() const { return items.empty() ? 1 : items.rbegin()->first + 1; }
  uint32_t open_items() const;
  // Items that a tear-down has not proven gone, newest first.
  std::vector<uint64_t> OwedNewestFirst() const;
};

RunState Fold(const std::vector<Record>& records);

}  // namespace poolmark::guard
