// What a machine knows about its own clock: chronyd's answer, else the kernel's. It explains an offset and
// proves nothing: a daemon that follows its own clock says "Normal" too. The judge is the comparison with the
// head's clock. Parsers are pure.
#pragma once
#include <optional>
#include <string>
#include <string_view>

#include "agent/facts/command.h"

namespace poolmark::agent {

struct ClockState {
  bool synchronised = false;
  std::optional<double> bound_seconds;  // largest distance from true time that the source admits
  int stratum = 0;
  bool local_source = false;  // follows itself (127.127.1.1)
  std::string source;         // "chrony", "kernel"
};

// `chronyc -c tracking`: 14 values. Nothing when it is no such line.
std::optional<ClockState> ParseChronyTracking(std::string_view csv);
// adjtimex(2), this machine.
std::optional<ClockState> ReadKernelClock();
// chronyd's answer where there is one, else the kernel's (only with root "/": it has no file). `spawner` may
// be null: no tool is run. What was read, or why nothing was, goes to `evidence` when it is given.
std::optional<ClockState> ReadClock(Spawner* spawner, const std::string& root,
                                    std::string* evidence = nullptr);

}  // namespace poolmark::agent
