// Figures of a running load from the loops' counters. Read by the watching thread alone.
#pragma once
#include <cstdint>

#include "common/load/board.h"
#include "common/load/engine.h"
#include "common/load/options.h"

namespace poolmark::load {

// Counters of all loops, added up.
struct Totals {
  uint64_t started = 0, ended = 0, ok = 0, in_flight = 0, events = 0, bytes_in = 0;
  uint64_t max_in_flight_of_a_loop = 0;
  uint64_t connections = 0, stale_connections = 0, extra_attempts = 0, unfilled_arrivals = 0,
           unsent_arrivals = 0;
  uint64_t abandoned_turns = 0, waited_for_connection = 0, users_without_session = 0;
  int64_t ran_out_at = -1;
  int64_t max_lateness = 0;
  uint64_t stale_requests = 0;
  uint64_t own_limits = 0;
  uint64_t absurd_usages = 0;
  int64_t max_schedule_error = 0;
  int64_t max_connection_wait = 0;
  int64_t processor_wait = 0;  // below 0: not known of some loop
  Histogram ttft, lateness, schedule_error;
};
Totals AddUp(Board& board);

class Progress {
 public:
  Progress(Board& board, const LoadOptions& options) : board_(board), options_(options) {}
  // What happened since the call before; `now` in nanoseconds of the load.
  Tick Take(int64_t now, bool draining);
  // Requests in flight times nanoseconds, over all loops until `time` of the load.
  uint64_t InFlightIntegral(int64_t time) const;

 private:
  Board& board_;
  const LoadOptions& options_;
  int64_t before_ = 0;
  Totals last_;
};

}  // namespace poolmark::load
