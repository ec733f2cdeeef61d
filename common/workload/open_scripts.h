// Scripts of the sessions that are under way, while the arrivals of a workload are walked through in their
// order: each is opened once and let go after its last arrival. Not thread-safe.
#pragma once
#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "common/workload/script.h"
#include "common/workload/timeline.h"

namespace poolmark::workload {

class OpenScripts {
 public:
  OpenScripts(const Workload& workload, const std::vector<Arrival>& arrivals) : workload_(workload) {
    for (const Arrival& arrival : arrivals) {
      Entry& entry = entries_[arrival.session];
      ++entry.left;
      entry.end = std::max(entry.end, arrival.end);
    }
  }
  // Null: the session has no such turn.
  const Turn* Take(const Arrival& arrival) {
    Entry& entry = entries_[arrival.session];
    if (!entry.script) entry.script = std::make_unique<Script>(workload_.Open(arrival.session));
    const auto& turns = entry.script->turns;
    return arrival.turn < turns.size() ? &turns[arrival.turn] : nullptr;
  }
  // Of a session of which a turn was taken and whose last is not done.
  const std::string& IdOf(uint64_t session) const { return entries_.at(session).script->id; }
  // True when it was the session's last.
  bool Done(const Arrival& arrival) {
    Entry& entry = entries_[arrival.session];
    if (--entry.left > 0) return false;
    entry.script.reset();
    return true;
  }
  Nanoseconds EndOf(uint64_t session) const { return entries_.at(session).end; }

 private:
  struct Entry {
    std::unique_ptr<Script> script;
    uint64_t left = 0;
    Nanoseconds end{0};
  };
  const Workload& workload_;
  std::unordered_map<uint64_t, Entry> entries_;
};

}  // namespace poolmark::workload
