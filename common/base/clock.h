// Time comes in by constructor: pass a Clock&, tests pass a fake one.
// Durations on the steady clock, leases on boot time (counts suspend), wall time once per record.
#pragma once
#include <chrono>
#include <cmath>
#include <cstdint>

namespace poolmark {

using Nanoseconds = std::chrono::nanoseconds;

// The nearest nanosecond.
inline Nanoseconds FromSeconds(double seconds) {
  return Nanoseconds(std::llround(seconds * 1e9));
}
inline double ToSeconds(Nanoseconds time) {
  return std::chrono::duration<double>(time).count();
}

class Clock {
 public:
  virtual ~Clock() = default;
  // CLOCK_MONOTONIC since an arbitrary start.
  virtual Nanoseconds Steady() const = 0;
  // CLOCK_BOOTTIME.
  virtual Nanoseconds Boot() const = 0;
  // CLOCK_REALTIME since 1970.
  virtual Nanoseconds Wall() const = 0;
};

// The machine's clock; thread-safe, lives for ever.
const Clock& RealClock();

}  // namespace poolmark
