// The machine's facts, read from the files below a root directory and from vendor tools. Readers are small
// functions, one file per fact; this is the one that fills the message. Reads only; takes well under a second
// without GPU tools, and with a WarySpawner never longer than kLongestReading. Thread-safe.
#pragma once
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "agent/facts/command.h"
#include "poolmark/v1/agent.pb.h"

namespace poolmark::agent {

// Vendor tools that all hang: a WarySpawner's minute, the last tool's own limit, and their ends.
inline constexpr Nanoseconds kLongestReading = std::chrono::seconds(110);

struct FactsContext {
  std::string root = "/";                // tests give a fixture tree
  Spawner* spawner = nullptr;            // null: no tool is run (tests, or a machine without tools)
  std::string work_dir;                  // where jobs' files lie
  std::vector<std::string> directories;  // further places for disk tiers
  std::string containment;               // "cgroup2" or "subreaper", as the guard found it
  // Interface name -> addresses; null: getifaddrs.
  std::function<std::map<std::string, std::vector<std::string>>()> addresses;
};

// What cannot be read is left absent or empty, never guessed; the reasons are in `notes` when it is given.
v1::Facts ReadFacts(const FactsContext& context, std::vector<std::string>* notes = nullptr);

// Name, version, path and SHA-256 of an installed tool ("iperf3"); a tool that is missing has only its name
// and a note.
v1::Tool ReadTool(const std::string& name, const FactsContext& context);

}  // namespace poolmark::agent
