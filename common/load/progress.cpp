#include "common/load/progress.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>

namespace poolmark::load {
namespace {

std::optional<double> Milliseconds(const Histogram& histogram, double share) {
  const auto value = histogram.Quantile(share);
  return value.has_value() ? std::optional<double>(static_cast<double>(*value) / 1e6) : std::nullopt;
}

// "-" where nothing was measured.
std::string MillisecondsText(const char* format, const std::optional<double>& value) {
  char text[32] = "-";
  if (value.has_value()) std::snprintf(text, sizeof text, format, *value);
  return text;
}

Json Rounded(const std::optional<double>& value) {
  return value.has_value() ? Json(std::round(*value * 1000) / 1000) : Json(nullptr);
}

}  // namespace

Totals AddUp(Board& board) {
  Totals totals;
  for (size_t i = 0; i < board.loops(); ++i) {
    const LoopLive& loop = board.loop(i);
    totals.started += LoopLive::Get(loop.started);
    totals.ended += LoopLive::Get(loop.ended);
    totals.ok += LoopLive::Get(loop.outcomes[static_cast<size_t>(Outcome::kOk)]);
    totals.in_flight += LoopLive::Get(loop.in_flight);
    totals.max_in_flight_of_a_loop =
        std::max(totals.max_in_flight_of_a_loop, LoopLive::Get(loop.max_in_flight));
    totals.events += LoopLive::Get(loop.events);
    totals.bytes_in += LoopLive::Get(loop.bytes_in);
    totals.connections += LoopLive::Get(loop.connections);
    totals.stale_connections += LoopLive::Get(loop.stale_connections);
    totals.own_limits += LoopLive::Get(loop.own_limits);
    totals.stale_requests += LoopLive::Get(loop.stale_requests);
    totals.absurd_usages += LoopLive::Get(loop.absurd_usages);
    totals.extra_attempts += LoopLive::Get(loop.extra_attempts);
    totals.unfilled_arrivals += LoopLive::Get(loop.unfilled_arrivals);
    totals.unsent_arrivals += LoopLive::Get(loop.unsent_arrivals);
    totals.abandoned_turns += LoopLive::Get(loop.abandoned_turns);
    totals.waited_for_connection += LoopLive::Get(loop.waited_for_connection);
    totals.users_without_session += LoopLive::Get(loop.users_without_session);
    const int64_t ran_out = loop.ran_out_at.load(std::memory_order_relaxed);
    if (ran_out >= 0 && (totals.ran_out_at < 0 || ran_out < totals.ran_out_at)) totals.ran_out_at = ran_out;
    totals.max_lateness = std::max(totals.max_lateness, loop.max_lateness.load(std::memory_order_relaxed));
    totals.max_schedule_error =
        std::max(totals.max_schedule_error, loop.max_schedule_error.load(std::memory_order_relaxed));
    totals.max_connection_wait =
        std::max(totals.max_connection_wait, loop.max_connection_wait.load(std::memory_order_relaxed));
    const int64_t wait = loop.processor_wait.load(std::memory_order_relaxed);
    totals.processor_wait = wait < 0 || totals.processor_wait < 0 ? -1 : totals.processor_wait + wait;
    totals.ttft.Merge(loop.ttft);
    totals.lateness.Merge(loop.lateness);
    totals.schedule_error.Merge(loop.schedule_error);
  }
  return totals;
}

uint64_t Progress::InFlightIntegral(int64_t time) const {
  uint64_t sum = 0;
  for (size_t i = 0; i < board_.loops(); ++i) sum += board_.loop(i).InFlightIntegral(time);
  return sum;
}

Tick Progress::Take(int64_t now, bool draining) {
  const Totals totals = AddUp(board_);
  Tick tick;
  tick.at_s = static_cast<double>(now) / 1e9;
  const int64_t window_start = board_.plan().window_start.load();
  const bool counted = options_.warm_up_requests > 0 || options_.warm_up_sessions > 0;
  const bool warming =
      now < std::max(options_.warm_up.count(), window_start) || (counted && window_start < 0);
  tick.phase = draining ? "drain" : warming ? "warm-up" : "load";
  tick.in_flight = totals.in_flight;
  tick.started = totals.started;
  tick.ended = totals.ended;
  tick.failed = totals.ended - std::min(totals.ended, totals.ok);
  const double seconds = static_cast<double>(std::max<int64_t>(1, now - before_)) / 1e9;
  tick.started_per_second = static_cast<double>(totals.started - last_.started) / seconds;
  tick.ended_per_second = static_cast<double>(totals.ended - last_.ended) / seconds;
  tick.events_per_second = static_cast<double>(totals.events - last_.events) / seconds;
  Histogram ttft = totals.ttft;
  ttft.Subtract(last_.ttft);
  tick.ttft_p50_ms = Milliseconds(ttft, 0.5);
  tick.ttft_p99_ms = Milliseconds(ttft, 0.99);
  Histogram lateness = totals.lateness;
  lateness.Subtract(last_.lateness);
  tick.lateness_p50_ms = Milliseconds(lateness, 0.5);
  tick.lateness_p99_ms = Milliseconds(lateness, 0.99);
  tick.lateness_max_ms = Milliseconds(lateness, 1);
  last_ = totals;
  before_ = now;
  return tick;
}

Json TickJson(const Tick& tick) {
  return {{"t", Rounded(tick.at_s)},
          {"phase", tick.phase},
          {"in_flight", tick.in_flight},
          {"started", tick.started},
          {"ended", tick.ended},
          {"failed", tick.failed},
          {"started_per_s", Rounded(tick.started_per_second)},
          {"ended_per_s", Rounded(tick.ended_per_second)},
          {"events_per_s", Rounded(tick.events_per_second)},
          {"ttft_ms", {{"p50", Rounded(tick.ttft_p50_ms)}, {"p99", Rounded(tick.ttft_p99_ms)}}},
          {"lateness_ms",
           {{"p50", Rounded(tick.lateness_p50_ms)},
            {"p99", Rounded(tick.lateness_p99_ms)},
            {"max", Rounded(tick.lateness_max_ms)}}}};
}

std::string TickText(const Tick& tick) {
  char line[256];
  std::snprintf(line, sizeof line,
                "%7.1fs  %-7s  %6llu in flight  %9.1f req/s  %10.0f events/s  TTFT P50 %s  %llu failed  own "
                "lateness P99 %s",
                tick.at_s, tick.phase, static_cast<unsigned long long>(tick.in_flight), tick.ended_per_second,
                tick.events_per_second, MillisecondsText("%8.2f ms", tick.ttft_p50_ms).c_str(),
                static_cast<unsigned long long>(tick.failed),
                MillisecondsText("%.3f ms", tick.lateness_p99_ms).c_str());
  return line;
}

}  // namespace poolmark::load
