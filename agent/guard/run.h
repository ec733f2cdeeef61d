// One run: its ledger with the state folded from it, and the events that watchers read. Not thread-safe.
#pragma once
#include <chrono>
#include <deque>
#include <string>
#include <vector>

#include "agent/guard/items.h"
#include "agent/guard/ledger.h"

namespace poolmark::guard {

// Events in order, the newest kLimit of them. Whoever asks for older ones is told that there is a gap and
// reads the status instead.
class EventLog {
 public:
  static constexpr size_t kLimit = 1024;
  uint64_t Add(Record event);
  uint64_t last() const { return last_; }
  uint64_t first() const { return last_ + 1 - events_.size(); }
  // Precondition: first() <= sequence <= last().
  const Record& At(uint64_t sequence) const { return events_[sequence - first()]; }

 private:
  std::deque<Record> events_;
  uint64_t last_ = 0;
};

class Run {
 public:
  // Opens or creates the ledger and folds it. A damaged ledger opens too: `damages` says where.
  Fault Open(const std::string& path, std::vector<std::string>* damages);
  // Durable, then applied. On a fault nothing that the records announce may be done.
  Fault Append(const std::vector<Record>& records);
  Fault Append(const Record& record) { return Append(std::vector<Record>{record}); }
  // As Append, but what happened has happened: without room on disk it still holds in memory.
  void Note(const Record& record);

  // Announces one thing; `number` is what later records call it.
  Record Intend(const std::string& kind, const std::string& name, uint64_t* number);

  const RunState& state() const { return state_; }
  EventLog& events() { return events_; }

 private:
  Ledger ledger_;
  RunState state_;
  uint64_t next_number_ = 1;
  EventLog events_;
};

// CLOCK_BOOTTIME and CLOCK_REALTIME.
std::chrono::nanoseconds BootNow();
std::chrono::nanoseconds WallNow();

}  // namespace poolmark::guard
