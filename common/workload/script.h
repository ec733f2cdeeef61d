// A workload before anything is sent: sessions of turns with their prompts as spans. The four shapes
// implement it; source.h turns it into what the load generator takes, reuse.h analyses it. Thread-safe:
// Open() is const.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/base/clock.h"
#include "common/workload/prompt.h"

namespace poolmark::workload {

struct Turn {
  Prompt prompt;
  int64_t output_tokens = 0;
  std::optional<Nanoseconds> at;       // intended send time from the start of the load (open loop, traces)
  Nanoseconds think{0};                // from the end of the turns it waits for
  std::optional<Nanoseconds> service;  // recorded time of the answer, where the data set has it
  bool primer = false;
  std::string agent;
  std::vector<uint32_t> after;  // turns that must have ended; empty: the turn before
  // The answer as the engine's cache holds it after the prompt. Later prompts of the session contain it, or
  // its beginning; no tokens: none does.
  Span answer;
};

struct Script {
  std::string id;
  std::vector<Turn> turns;
};

class Workload {
 public:
  virtual ~Workload() = default;
  virtual uint64_t sessions() const = 0;
  // Precondition: number < sessions(). The same number gives the same script.
  virtual Script Open(uint64_t number) const = 0;
  // The same without what is sent: turns with their times and output tokens. A session's prompts hold its
  // whole history each, which who only needs the times must not pay for.
  virtual Script Outline(uint64_t number) const { return Open(number); }
  // Block size in which the data set itself says what is equal (after token scale); 0: no such thing.
  virtual uint32_t natural_block_tokens() const { return 0; }
  // Prompts of different sessions can share nothing (agentic data sets with session-local block ids).
  virtual bool session_scope() const { return false; }
  // What a reader of the results must know: failed lines skipped, reuse unknown to the trace, …
  virtual std::vector<std::string> notes() const { return {}; }
};

}  // namespace poolmark::workload
