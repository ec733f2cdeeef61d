// What a series said each time that its source was read. A samples file holds only what changed: a value that
// stays the same stands there once, and was read all the same. Pure.
#pragma once
#include <vector>

#include "common/results/samples.h"

namespace poolmark::results {

// One reading for each scrape of its source at which the series was measured, by time.
std::vector<stats::Sample> ReadingsOf(const SampleLog& log, const SampleSeries& series);

// A level over [from, to], each reading weighed by the time it stands: until its source is looked at again,
// be it in vain, and 10 s at most.
struct LevelOver {
  double mean = 0, peak = 0;
  double covered_seconds = 0;
};
Measured<LevelOver> LevelIn(const SampleLog& log, const SampleSeries& series, Nanoseconds from,
                            Nanoseconds to);

}  // namespace poolmark::results
