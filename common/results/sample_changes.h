// Counter changes of one source over a window, from the samples of its machine: what an engine's figures rest
// on. Used when a repeat is collected and when it is judged again from the files. Pure.
#pragma once
#include <string>
#include <vector>

#include "common/results/repeat_file.h"
#include "common/results/samples.h"

namespace poolmark::results {

// Counters are read after the drain (M7): a scrape may come this much later.
inline constexpr Nanoseconds kSettle = std::chrono::seconds(3);

struct SourceChange {
  stats::Deltas deltas;
  bool reset = false;
  bool read = false;  // it had a reading before the window's end
};

// A series that appears inside the window counts from 0, for engines make series at their first event; a
// source that was first read inside the window does not: what it counted before is not known.
SourceChange ChangeOf(const SampleLog& log, const std::string& source, Nanoseconds from, Nanoseconds to);

// Why the counters of this source do not tell what changed over a window that begins at `from` and whose last
// request ended at `drained` (M7): not read before the one, or not read just after the other. "": they do.
std::string WhyUnread(const SampleLog& log, const std::string& source, Nanoseconds from, Nanoseconds drained);

}  // namespace poolmark::results
