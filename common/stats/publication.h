// May a valid result be published? (methodology, "When a result counts"; decisions M14, M15). Pure.
#pragma once
#include <string>
#include <vector>

namespace poolmark::stats {

struct PublicationFacts {
  bool valid = false;
  bool simulated = false;
  struct Machine {
    std::string name;
    std::string missing;  // counters without a recorded tool; "" : none
    size_t tools = 0;     // recorded
  };
  std::vector<Machine> machines;
  struct Name {
    std::string figure, dialect, version, series;
    bool confirmed = false;
  };
  std::vector<Name> series;  // engine metric names that a figure was read through
  struct Switch {
    std::string name;
    bool cabled = false, ignored = false, readable = true, found_after_end = false, read = false;
    std::vector<std::string> unconfirmed_fields;
  };
  std::vector<Switch> switches;
  struct Reading {
    std::string figure, series;
  };
  std::vector<Reading> unnamed;                // read through a name that the manifest does not have
  std::vector<std::string> unlisted_engines;   // processes that the manifest does not have as they were
  std::vector<std::string> unlisted_switches;  // with readings, but not in the manifest
  // Engines whose counters were not read in a repeat that counts, a line each: "repeat 2: engine-n1 (why)".
  std::vector<std::string> unread;
  // Pairs of machines whose network path could not be judged in a repeat that counts, a line each.
  std::vector<std::string> unjudged;
};

// What holds it back, a line each; empty: nothing.
std::vector<std::string> HeldBack(const PublicationFacts& facts);

}  // namespace poolmark::stats
