// What a running total did over a time. Pure.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "common/base/clock.h"
#include "common/base/measured.h"

namespace poolmark::stats {

struct Sample {
  Nanoseconds at{0};
  double value = 0;
};

// A counter that went backwards is a reset, never a value: its change over a time with a reset is not
// measured.
struct CounterChange {
  Measured<double> change;  // last reading in or before the end minus last reading in or before the start
  bool reset = false;
  std::optional<Nanoseconds> reset_at;  // first sample that was lower than the one before
};

// `samples` by time. The reading that counts at a moment is the last one not later; before the first sample
// there is none, unless `first_is_start` (a counter that appears late and whose family was there starts at
// 0).
CounterChange ChangeOver(const std::vector<Sample>& samples, Nanoseconds from, Nanoseconds to,
                         bool absent_is_zero = false);

// A stretch without samples longer than `limit`, between consecutive samples and at both ends of [from, to].
struct Gap {
  Nanoseconds from{0}, to{0};
};
std::vector<Gap> GapsIn(const std::vector<Nanoseconds>& times, Nanoseconds from, Nanoseconds to,
                        Nanoseconds limit);

}  // namespace poolmark::stats
