#include "common/results/sample_readings.h"

#include <algorithm>

namespace poolmark::results {
namespace {

// As long as a machine may be silent (M10).
constexpr Nanoseconds kStands = std::chrono::seconds(10);

template <class Map, class Key>
const typename Map::mapped_type& Of(const Map& map, const Key& key) {
  static const typename Map::mapped_type none;
  const auto at = map.find(key);
  return at == map.end() ? none : at->second;
}

}  // namespace

std::vector<stats::Sample> ReadingsOf(const SampleLog& log, const SampleSeries& series) {
  const auto& values = Of(log.values, series.id);
  const auto& unread = Of(log.unread, series.id);
  std::vector<stats::Sample> out;
  size_t next = 0, lost = 0;  // the first value and the first loss that lie ahead
  for (const Nanoseconds at : Of(log.scrapes, series.source)) {
    while (next < values.size() && values[next].at <= at) ++next;
    while (lost < unread.size() && unread[lost] <= at) ++lost;
    if (next == 0 || (lost > 0 && unread[lost - 1] >= values[next - 1].at)) continue;
    out.push_back({at, values[next - 1].value});
  }
  return out;
}

Measured<LevelOver> LevelIn(const SampleLog& log, const SampleSeries& series, Nanoseconds from,
                            Nanoseconds to) {
  std::vector<Nanoseconds> looked = Of(log.scrapes, series.source);
  const auto& failures = Of(log.failures, series.source);
  looked.insert(looked.end(), failures.begin(), failures.end());
  std::sort(looked.begin(), looked.end());
  LevelOver out;
  double sum = 0;
  for (const stats::Sample& reading : ReadingsOf(log, series)) {
    const auto next = std::upper_bound(looked.begin(), looked.end(), reading.at);
    const Nanoseconds stands = next == looked.end() ? reading.at : std::min(*next, reading.at + kStands);
    const Nanoseconds begin = std::max(reading.at, from), end = std::min(stands, to);
    if (end <= begin) continue;
    out.peak = out.covered_seconds > 0 ? std::max(out.peak, reading.value) : reading.value;
    sum += reading.value * ToSeconds(end - begin);
    out.covered_seconds += ToSeconds(end - begin);
  }
  if (out.covered_seconds <= 0) return NotMeasured{"no reading in the window"};
  out.mean = sum / out.covered_seconds;
  return out;
}

}  // namespace poolmark::results
