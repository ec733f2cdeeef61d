// What the loops of one load share and what they show while they run. Lives in memory that forked
// processes share, so it holds lock-free atomics only. Counters of LoopLive have one writer, their loop.
#pragma once
#include <array>
#include <atomic>
#include <cstdint>

#include "common/load/histogram.h"
#include "common/load/record.h"

namespace poolmark::load {

struct SharedPlan {
  enum Stop : int { kRun = 0, kDrain = 1, kCut = 2 };
  std::atomic<uint64_t> next_session{0};  // closed loop: sessions in the order in which users take them
  std::atomic<uint64_t> requests{0};      // started so far, where a limit or a warm-up counts them
  std::atomic<uint64_t> measured{0};      // begun in the window, where a limit counts them
  std::atomic<uint64_t> sessions{0};      // opened so far
  std::atomic<uint32_t> ready{0};         // loops that wait for the start
  std::atomic<int64_t> start_steady{0};   // CLOCK_MONOTONIC of time 0; 0: not yet
  std::atomic<int64_t> window_start{-1};  // by requests or sessions; -1: not yet
  std::atomic<int> stop{kRun};
  std::atomic<uint64_t> max_rss_bytes{0};  // of the largest process
};

struct LoopLive {
  using Counter = std::atomic<uint64_t>;
  static void Add(Counter& counter, uint64_t n) {
    counter.store(counter.load(std::memory_order_relaxed) + n, std::memory_order_relaxed);
  }
  static uint64_t Get(const Counter& counter) { return counter.load(std::memory_order_relaxed); }

  Counter started{0};
  Counter ended{0};
  std::array<Counter, kOutcomes> outcomes{};
  Counter in_flight{0};
  Counter max_in_flight{0};
  // Integral of in_flight over time until `in_flight_since`, since when it has not changed. Read with
  // InFlightIntegral.
  Counter in_flight_nanoseconds{0};
  std::atomic<int64_t> in_flight_since{0};
  std::atomic<uint32_t> in_flight_version{0};  // odd while they change
  Counter events{0};
  Counter output_tokens{0};
  Counter bytes_in{0};
  Counter bytes_out{0};
  Counter connections{0};        // opened
  Counter stale_connections{0};  // closed by the peer while idle
  Counter own_limits{0};         // requests that this machine's limits refused a connection
  Counter stale_requests{0};     // failed since the peer had closed the kept connection
  Counter absurd_usages{0};      // of requests whose usage held a count beyond all bounds
  Counter extra_attempts{0};     // by the retry policy
  Counter unfilled_arrivals{0};  // arrivals without a session or turn to send
  Counter unsent_arrivals{0};    // due before the end of the load, not sent by then
  Counter abandoned_turns{0};    // not sent, since a turn before them failed and the answers are live
  Counter waited_for_connection{0};
  Counter users_without_session{0};  // users that found none before the end of the load
  std::atomic<int64_t> ran_out_at{-1};
  Histogram ttft;            // of all ended requests with output
  Histogram lateness;        // kernel stamp to program, each read with a stamp
  Histogram schedule_error;  // intended to started, open loop
  std::atomic<int64_t> max_lateness{0};
  std::atomic<int64_t> max_schedule_error{0};
  std::atomic<int64_t> processor_wait{-1};  // ready to run without a processor, at the end; -1: not known
  std::atomic<int64_t> max_connection_wait{
      0};  // intended to started, of requests that waited for a connection
  std::atomic<int> finished{0};

  // Requests in flight times nanoseconds, until `time` of the load.
  uint64_t InFlightIntegral(int64_t time) const {
    // Half of a change is of a process that was stopped or killed within it: a figure that is off by one
    // request, and no wait for ever.
    constexpr int kTries = 10'000;
    for (int tries = 0;; ++tries) {
      const uint32_t version = in_flight_version.load(std::memory_order_acquire);
      const uint64_t sum = in_flight_nanoseconds.load(std::memory_order_acquire);
      const int64_t open = time - in_flight_since.load(std::memory_order_acquire);
      const uint64_t now = in_flight.load(std::memory_order_acquire);
      const bool torn = version % 2 == 1 || version != in_flight_version.load(std::memory_order_relaxed);
      if (torn && tries < kTries) continue;
      return sum + (open > 0 ? now * static_cast<uint64_t>(open) : 0);
    }
  }
  // By the loop itself.
  void SetInFlight(uint64_t now, uint64_t more_nanoseconds, int64_t time) {
    const uint32_t version = in_flight_version.load(std::memory_order_relaxed);
    in_flight_version.store(version + 1, std::memory_order_relaxed);
    in_flight_nanoseconds.store(Get(in_flight_nanoseconds) + more_nanoseconds, std::memory_order_release);
    in_flight_since.store(time, std::memory_order_release);
    in_flight.store(now, std::memory_order_release);
    in_flight_version.store(version + 2, std::memory_order_release);
  }
};

}  // namespace poolmark::load
