// Where a load ends: its limits of requests, its window, what is still sent in the drain, the end of that.
#include <algorithm>

#include "common/load/loop.h"
#include "common/load/loop_link.h"

namespace poolmark::load {

uint32_t ConnectionsOfLoop(const LoadOptions& options, LoopPart part) {
  if (options.max_connections == 0) return 0;
  const auto loops = static_cast<uint32_t>(std::max(1, options.loops));
  const uint32_t in_process = part.index / options.workers % loops;
  return std::max(1u, ShareOf(options.max_connections, in_process, loops));
}

// Counts a request once against limit and warm-up; false: the limit is reached.
bool Loop::Count(Request* request) {
  if (request->counted || (options_.max_requests == 0 && options_.warm_up_requests == 0)) return true;
  request->counted = true;
  const uint64_t number = shared_.requests.fetch_add(1, std::memory_order_relaxed);
  if (options_.max_requests > 0) {
    if (number + 1 >= options_.max_requests) StopAtLimit();
    if (number >= options_.max_requests) return false;
    request->owed = true;  // the limit counts on it
  }
  if (options_.warm_up_requests > 0 && number == options_.warm_up_requests && !ArrivalsAreRequests()) {
    RaiseWindow(request->has_intended ? request->due : Now());
  }
  return true;
}

void Loop::StopAtLimit() {
  int running = SharedPlan::kRun;
  shared_.stop.compare_exchange_strong(running, SharedPlan::kDrain);
}

bool Loop::InWindow(int64_t time) const {
  const int64_t start = shared_.window_start.load(std::memory_order_relaxed);
  if (start < 0 && (options_.warm_up_requests > 0 || options_.warm_up_sessions > 0)) return false;
  return time >= std::max(options_.warm_up.count(), start);
}

// Counts a request of the window once; false: all that are to be measured have begun. Arrivals of a rate
// are counted where they are drawn.
bool Loop::CountMeasured(Request* request, int64_t window_time) {
  if (options_.measured_requests == 0 || request->measured || ArrivalsAreRequests() || !InWindow(window_time))
    return true;
  request->measured = true;
  const uint64_t number = shared_.measured.fetch_add(1, std::memory_order_relaxed);
  if (number + 1 >= options_.measured_requests) StopAtLimit();
  return number < options_.measured_requests;
}

// How late a request of a schedule is. Waiting for one of a limited number of connections is what was asked
// for and not the program's delay.
void Loop::NoteDelay(const Request& request, int64_t now) {
  if (!request.has_intended || request.attempt > 1) return;
  const int64_t late = now - request.due;
  if (!request.waited) live_.schedule_error.Add(late);
  std::atomic<int64_t>& most = request.waited ? live_.max_connection_wait : live_.max_schedule_error;
  if (late > most.load(std::memory_order_relaxed)) most.store(late, std::memory_order_relaxed);
}

// The end of the load. What its schedule owes, and what was sent once and goes on with its retries, is still
// sent, in the drain; the rest of what waits is let go.
void Loop::EndIssuing(int64_t now) {
  const bool by_time = shared_.stop.load(std::memory_order_relaxed) == SharedPlan::kRun;
  const int64_t end = std::min(now, load_end_);
  while (next_arrival_.has_value() && *next_arrival_ < end) {
    const int64_t at = *next_arrival_;
    NextArrival();
    if (by_time) {
      TakeArrival(now, at);
    } else {
      LoopLive::Add(live_.unsent_arrivals, 1);
    }
  }
  // Of a trace, what should have been looked at by now.
  if (by_time && options_.mode == LoadOptions::Mode::kTrace) OpenAhead(end);
  issuing_ = false;
  drain_end_ = end + options_.drain.count();
  next_arrival_.reset();
  arrivals_.reset();
  ahead_.reset();
  const auto stays = [&](Request* request) {
    request->owed = request->owed || (by_time && request->has_intended && request->due < end);
    return request->owed || request->attempt > 1;
  };
  const auto drop_others = [&](std::deque<Request>* queue) {
    std::deque<Request> kept;
    for (Request& request : *queue) {
      if (stays(&request)) {
        kept.push_back(request);
      } else {
        if (request.has_intended) LoopLive::Add(live_.unsent_arrivals, 1);
        Drop(request);
      }
    }
    queue->swap(kept);
  };
  drop_others(&ready_);
  for (auto& queue : waiting_) drop_others(&queue);
  for (const Request& request : open_ready_) Drop(request);
  open_ready_.clear();
  std::vector<Timer> kept;
  const bool timed = options_.mode == LoadOptions::Mode::kTrace || options_.rate_of_sessions;
  for (; !timers_.empty(); timers_.pop()) {
    Timer timer = timers_.top();
    if (timer.kind == Timer::Kind::kRetry) {
      kept.push_back(timer);
    } else if (timer.kind == Timer::Kind::kTurn) {
      if (timed && stays(&timer.request)) {
        ready_.push_back(timer.request);
      } else {
        Drop(timer.request);
      }
    }
  }
  for (const Timer& timer : kept) timers_.push(timer);
}

bool Loop::Over() {
  if (busy_ > 0) return false;
  if (!ready_.empty() || !timers_.empty()) return false;
  if (!std::all_of(waiting_.begin(), waiting_.end(), [](const auto& queue) { return queue.empty(); }))
    return false;
  if (!issuing_) return true;
  if (next_arrival_.has_value() || ahead_ != nullptr) return false;
  // Turns that wait for an arrival when there are no more arrivals will never be sent.
  for (const Request& request : open_ready_) {
    LoopLive::Add(live_.abandoned_turns, 1);
    Drop(request);
  }
  open_ready_.clear();
  return true;
}

void Loop::CutOff(int64_t now) {
  cut_ = true;
  const bool by_stop = shared_.stop.load(std::memory_order_relaxed) == SharedPlan::kCut;
  Issuing(now);
  std::vector<Request> unsent(ready_.begin(), ready_.end());
  ready_.clear();
  for (auto& queue : waiting_) {
    unsent.insert(unsent.end(), queue.begin(), queue.end());
    queue.clear();
  }
  for (; !timers_.empty(); timers_.pop()) unsent.push_back(timers_.top().request);
  for (const Request& request : unsent) CancelUnsent(request, now);
  for (size_t i = links_.size(); i-- > 0;) {
    Link* const link = links_[i].get();
    if (link->closed || !link->request.has_value()) continue;
    if (link->connecting) {
      FailConnect(link);
      continue;
    }
    link->stream.Abort(Outcome::kCancelled, now,
                       by_stop ? "cut off by the interruption" : "cut off at the end of the drain");
    EndExchange(link);
  }
}

void Loop::CancelUnsent(const Request& request, int64_t now) {
  RequestRecord record = NewRecord(request, static_cast<uint32_t>(request.run->number() % targets_.size()));
  record.started = record.sent = request.due;
  record.end = now;
  record.outcome = Outcome::kCancelled;
  record.error = request.attempt > 1 ? kCutBetweenAttempts : kCutUnsent;
  if (request.attempt > 1) {  // what was sent, and the answer to it
    record.attempts = request.attempt - 1;
    record.http_status = request.last_status;
  }
  if (request.attempt == 1) LoopLive::Add(live_.started, 1);
  Publish(&record);
  TurnEnded(request, false, now);
}

}  // namespace poolmark::load
