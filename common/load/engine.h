// Runs a load: loops on threads, processes if asked, phases, progress, records, summary. RunLoad blocks;
// with more than one process it forks, so call it before other threads exist.
#pragma once
#include <atomic>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "common/load/describe.h"
#include "common/load/options.h"
#include "common/load/source.h"
#include "common/load/summary.h"

namespace poolmark::load {

// One second of a load.
struct Tick {
  double at_s = 0;             // from the start of the load
  const char* phase = "load";  // warm-up, load or drain
  uint64_t in_flight = 0;
  uint64_t started = 0, ended = 0, failed = 0;          // since the start
  double started_per_second = 0, ended_per_second = 0;  // since the tick before
  double events_per_second = 0;
  std::optional<double> ttft_p50_ms, ttft_p99_ms;  // of the requests that ended since the tick before
  std::optional<double> lateness_p50_ms, lateness_p99_ms, lateness_max_ms;  // since the tick before
  bool last = false;                                                        // of the load
};
Json TickJson(const Tick& tick);
std::string TickText(const Tick& tick);

struct RunSettings {
  std::string out_dir;  // "": no files
  int processes = 1;
  std::optional<Slo> slo;
  std::vector<std::string> source_notes;
  SourceFacts source;  // for the description of the load in its results
  // CLOCK_REALTIME at which the load begins, so that workers of several machines begin together.
  std::optional<Nanoseconds> start_at_wall;
  Nanoseconds tick_every = std::chrono::seconds(1);
  std::function<void(const Tick&)> on_tick;
  std::function<void(Nanoseconds wall)> on_start;  // time 0 is set
  // Asked once, after the drain: where the engines' prompt tokens came from, as JSON (token_sources.h).
  std::function<Result<std::string>(const Summary&)> prompt_token_sources;
  // Set by a signal handler: 1 lets requests in flight end, 2 cuts them off.
  const std::atomic<int>* stop = nullptr;
};

struct LoadResult {
  Summary summary;
  std::vector<Tick> ticks;
  Nanoseconds started_wall{0};
  WindowBounds window;
};

// Files in out_dir: requests.jsonl.zst, timeline.jsonl, load.json. A file that cannot be written (a full
// disk) costs no figures: the summary says so in files_error.
Result<LoadResult> RunLoad(LoadOptions options, SessionSource& source, const RunSettings& settings);

}  // namespace poolmark::load
