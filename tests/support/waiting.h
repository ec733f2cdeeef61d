// What tests of living programs need: a condition that comes true, a port that is free, a process that is
// there.
#pragma once
#include <chrono>
#include <cstdint>
#include <functional>

namespace poolmark::test {

// True as soon as `done` is, asked every 5 ms, at most after `limit`. What one thread or process shows,
// another may write down a moment later: a test waits for it and never reads at once.
bool WaitFor(const std::function<bool()>& done, std::chrono::nanoseconds limit = std::chrono::seconds(20));
// A port of IPv4 loopback that was free a moment ago, for programs that must be told one.
uint16_t FreePort();
// False also for one that ended and waits for its parent.
bool ProcessExists(int pid);

}  // namespace poolmark::test
