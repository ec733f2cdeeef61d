// The three warnings of the methodology, with its sentences, and nothing else. Pure.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace poolmark::stats {

struct WarningFacts {
  bool held_load = false;  // agentic replay: only it can run out of sessions
  bool ran_out = false;    // users stopped before the load ended for want of sessions
  uint64_t requests = 0;   // of the measured window
  uint64_t failed = 0;
  double measured_seconds = 0;  // a repeat without any request measured nothing, which is no short window
};

enum class Warning { kOutOfSessions, kFailures, kShortWindow };
std::string_view WarningName(Warning warning);      // "out_of_sessions", "failures", "short_window"
std::string_view WarningSentence(Warning warning);  // as the methodology prints it

std::vector<Warning> WarningsOf(const WarningFacts& facts);

}  // namespace poolmark::stats
