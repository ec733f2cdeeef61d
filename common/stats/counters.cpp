#include "common/stats/counters.h"

namespace poolmark::stats {

CounterChange ChangeOver(const std::vector<Sample>& samples, Nanoseconds from, Nanoseconds to,
                         bool absent_is_zero) {
  CounterChange out;
  std::optional<double> start, end;
  std::optional<double> before;
  for (const Sample& sample : samples) {
    if (sample.at > to) break;
    // A fall across the start of the time belongs to it: its start value is already from after the reset.
    if (before && sample.value < *before && sample.at > from && !out.reset) {
      out.reset = true;
      out.reset_at = sample.at;
    }
    before = sample.value;
    if (sample.at <= from) start = sample.value;
    end = sample.value;
  }
  if (!start && absent_is_zero) start = 0;
  if (!end && absent_is_zero) end = 0;
  if (out.reset) {
    out.change = NotMeasured{"the counter went backwards"};
  } else if (!start) {
    out.change = NotMeasured{"no reading at the start"};
  } else if (!end) {
    out.change = NotMeasured{"no reading at the end"};
  } else {
    out.change = *end - *start;
  }
  return out;
}

std::vector<Gap> GapsIn(const std::vector<Nanoseconds>& times, Nanoseconds from, Nanoseconds to,
                        Nanoseconds limit) {
  std::vector<Gap> gaps;
  Nanoseconds last = from;
  for (const Nanoseconds at : times) {
    if (at < from) continue;
    if (at > to) break;
    if (at - last > limit) gaps.push_back({last, at});
    last = at;
  }
  if (to - last > limit) gaps.push_back({last, to});
  return gaps;
}

}  // namespace poolmark::stats
