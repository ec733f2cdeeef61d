#include "common/results/sample_changes.h"

#include <algorithm>

#include "common/base/time_format.h"
#include "common/prom/totals.h"

namespace poolmark::results {

SourceChange ChangeOf(const SampleLog& log, const std::string& source, Nanoseconds from, Nanoseconds to) {
  SourceChange result;
  prom::Adder adder;
  const auto scrapes = log.scrapes.find(source);
  const bool read_before =
      scrapes != log.scrapes.end() && !scrapes->second.empty() && scrapes->second.front() <= from;
  for (const SampleSeries& series : log.series) {
    if (series.source != source || series.kind == "gauge") continue;
    auto values = log.values.find(series.id);
    if (values == log.values.end() || values->second.empty()) continue;
    stats::CounterChange change = stats::ChangeOver(values->second, from, to, read_before);
    result.reset = result.reset || change.reset;
    if (!change.change.has_value()) continue;
    result.read = true;
    const prom::Labels labels(series.labels.begin(), series.labels.end());
    adder.Add(series.name, labels, series.adding ? *series.adding : prom::AddingOf(labels), *change.change);
  }
  result.deltas = adder.Take();
  return result;
}

std::string WhyUnread(const SampleLog& log, const std::string& source, Nanoseconds from,
                      Nanoseconds drained) {
  const auto scrapes = log.scrapes.find(source);
  if (scrapes == log.scrapes.end() || scrapes->second.empty()) return "its counters were never read";
  const std::vector<Nanoseconds>& times = scrapes->second;
  const auto into = [](Nanoseconds at) {
    return FormatDuration(std::chrono::floor<std::chrono::seconds>(std::max(at, Nanoseconds(0)))) +
           " into it";
  };
  if (times.front() > from)
    return "its counters could not be read before the measured window; the first reading is from " +
           into(times.front());
  const auto after = std::lower_bound(times.begin(), times.end(), drained);
  if (after != times.end() && *after <= drained + kSettle) return "";
  // A page that failed before leaves values of some earlier moment, which must not stand for the end.
  return "its counters could not be read after the load; the last reading is from " +
         (after == times.begin() ? std::string("before it") : into(*(after - 1)));
}

}  // namespace poolmark::results
