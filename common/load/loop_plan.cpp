// Sessions, users and arrivals of a loop.
#include <algorithm>
#include <cmath>

#include "common/load/loop.h"
#include "common/load/loop_link.h"

namespace poolmark::load {
namespace {

// Traces are opened this long before their time, so that opening delays no send.
constexpr int64_t kLookAhead = 2'000'000'000;

}  // namespace

void Loop::BeginPlan() {
  switch (options_.mode) {
    case LoadOptions::Mode::kClosed:
      for (uint32_t user = part_.index; user < options_.users; user += part_.count) {
        const int64_t at =
            options_.ramp_up.count() / static_cast<int64_t>(options_.users) * static_cast<int64_t>(user);
        if (at <= 0) {
          StartUser(static_cast<int>(user), now_);
        } else {
          timers_.push({at, timer_order_++, Timer::Kind::kUser, static_cast<int>(user), {}});
        }
      }
      break;
    case LoadOptions::Mode::kRate:
      arrivals_.emplace(options_.arrivals);
      NextArrival();
      break;
    case LoadOptions::Mode::kTrace:
      OpenAhead(now_);
      break;
  }
}

// This loop's next arrival: every loop draws the whole schedule and takes each count-th of it.
void Loop::NextArrival() {
  next_arrival_.reset();
  if (!arrivals_.has_value()) return;
  while (const auto at = arrivals_->Next()) {
    const uint64_t index = arrival_index_++;
    if (ArrivalsAreRequests()) {
      // Every loop finds the same window and the same end.
      if (options_.warm_up_requests > 0 && index == options_.warm_up_requests) RaiseWindow(at->count());
      const bool warm = index < options_.warm_up_requests || at->count() < options_.warm_up.count();
      if (options_.measured_requests > 0 && !warm && measured_arrivals_++ >= options_.measured_requests) {
        arrivals_.reset();
        return;
      }
    }
    if (index % part_.count == part_.index) {
      next_arrival_ = at->count();
      return;
    }
  }
}

bool Loop::ArrivalsAreRequests() const {
  return options_.mode == LoadOptions::Mode::kRate && !options_.rate_of_sessions;
}

// An arrival sends the turn that has waited longest, else the first turn of a new session.
void Loop::TakeArrival(int64_t now, int64_t at) {
  Request request;
  if (!open_ready_.empty()) {
    request = open_ready_.front();
    open_ready_.pop_front();
  } else {
    SessionRun* const run = sessions_left_ ? OpenSession(next_static_session_, -1) : nullptr;
    if (run == nullptr) {
      sessions_left_ = false;
      int64_t never = -1;
      live_.ran_out_at.compare_exchange_strong(never, now);
      // Without a session that goes on, nothing is left that an arrival could ever send; arrivals of sessions
      // send no further turns.
      if (options_.rate_of_sessions || !MoreTurns()) {
        arrivals_.reset();
        next_arrival_.reset();
        return;
      }
      LoopLive::Add(live_.unfilled_arrivals, 1);
      return;
    }
    next_static_session_ += part_.count;
    turns_.clear();
    run->Begin(&turns_);
    if (turns_.empty()) return SessionOver(run, now);
    request.run = run;
    request.turn = turns_[0];
    for (size_t i = 1; i < turns_.size(); ++i) ScheduleTurn(run, turns_[i], at);
  }
  request.due = at;
  request.has_intended = true;
  ready_.push_back(request);
}

void Loop::OpenAhead(int64_t now) {
  while (sessions_left_ && issuing_) {
    if (ahead_ == nullptr) {
      ahead_number_ = next_static_session_;
      ahead_ = source_.Open(ahead_number_);
      if (ahead_ == nullptr) {
        sessions_left_ = false;
        return;
      }
      next_static_session_ += part_.count;
    }
    std::optional<Nanoseconds> first;
    if (ahead_->turns() > 0) first = ahead_->turn(0).at;
    const int64_t at =
        static_cast<int64_t>(static_cast<double>(first.value_or(Nanoseconds(0)).count()) / options_.speedup);
    if (at > now + kLookAhead) {
      // Looked at again when the time has come.
      if (timers_.empty() || timers_.top().at > at - kLookAhead) {
        timers_.push({at - kLookAhead, timer_order_++, Timer::Kind::kUser, -1, {}});
      }
      return;
    }
    SessionRun* const run = AddRun(std::move(ahead_), ahead_number_, -1);
    BeginSession(run, 0);
  }
}

void Loop::StartUser(int user, int64_t now) {
  if (user < 0) return;  // only a look at the trace: OpenAhead follows
  if (!issuing_) return;
  for (;;) {
    // All processes on this machine take from one counter; machines have every workers-th session.
    const uint64_t number =
        shared_.next_session.fetch_add(1, std::memory_order_relaxed) * options_.workers + options_.worker;
    SessionRun* const run = OpenSession(number, user);
    if (run == nullptr) {
      LoopLive::Add(live_.users_without_session, 1);
      int64_t never = -1;
      live_.ran_out_at.compare_exchange_strong(never, now);
      return;
    }
    if (run->session().turns() == 0) {
      free_runs_.push_back(run->slot);
      runs_[run->slot].reset();
      continue;
    }
    return BeginSession(run, now);
  }
}

SessionRun* Loop::OpenSession(uint64_t number, int user) {
  std::unique_ptr<Session> session = source_.Open(number);
  return session == nullptr ? nullptr : AddRun(std::move(session), number, user);
}

SessionRun* Loop::AddRun(std::unique_ptr<Session> session, uint64_t number, int user) {
  const uint64_t opened = shared_.sessions.fetch_add(1, std::memory_order_relaxed) + 1;
  if (options_.warm_up_sessions > 0 && opened == options_.warm_up_sessions + 1) RaiseWindow(now_);
  auto run = std::make_unique<SessionRun>(std::move(session), number, user);
  SessionRun* const raw = run.get();
  // Slots of sessions that are over are used again.
  if (free_runs_.empty()) {
    raw->slot = runs_.size();
    runs_.push_back(std::move(run));
  } else {
    raw->slot = free_runs_.back();
    free_runs_.pop_back();
    runs_[raw->slot] = std::move(run);
  }
  return raw;
}

// The window begins when the last of the warm-ups is over.
void Loop::RaiseWindow(int64_t now) {
  int64_t before = shared_.window_start.load();
  while (before < now && !shared_.window_start.compare_exchange_weak(before, now)) {
  }
}

bool Loop::MoreTurns() const {
  return std::any_of(runs_.begin(), runs_.end(),
                     [](const auto& run) { return run != nullptr && run->more(); });
}

void Loop::BeginSession(SessionRun* run, int64_t now) {
  std::vector<uint32_t> turns;
  run->Begin(&turns);
  if (turns.empty()) return SessionOver(run, now);
  for (const uint32_t turn : turns) ScheduleTurn(run, turn, now);
}

// A turn whose predecessors ended at `after`.
void Loop::ScheduleTurn(SessionRun* run, uint32_t turn, int64_t after) {
  const TurnPlan& plan = run->plan(turn);
  const bool trace = options_.mode == LoadOptions::Mode::kTrace;
  Nanoseconds think(static_cast<int64_t>(static_cast<double>(plan.think.count()) * options_.think_scale /
                                         (trace ? options_.speedup : 1)));
  if (options_.think_cap.has_value()) think = std::min(think, *options_.think_cap);
  int64_t due = after + think.count();
  if (trace && plan.at.has_value()) {
    const int64_t at = static_cast<int64_t>(static_cast<double>(plan.at->count()) / options_.speedup);
    // Without predecessors the plan's time is the time; else it waits for them.
    due = turn == 0 ? at : std::max(at, due);
  }
  const Request request{run, turn, due, options_.mode != LoadOptions::Mode::kClosed, 1, false};
  if (due > now_) {
    timers_.push({due, timer_order_++, Timer::Kind::kTurn, -1, request});
  } else if (options_.mode == LoadOptions::Mode::kRate && !options_.rate_of_sessions) {
    open_ready_.push_back(request);
  } else {
    ready_.push_back(request);
  }
}

void Loop::TurnEnded(const Request& request, bool ok, int64_t now) {
  SessionRun* const run = request.run;
  turns_.clear();
  if (!ok && run->wants_answers()) LoopLive::Add(live_.abandoned_turns, run->Abandon());
  run->Ended(request.turn, &turns_);
  const std::vector<uint32_t> turns = turns_;
  for (const uint32_t turn : turns) {
    if (issuing_) {
      ScheduleTurn(run, turn, now);
    } else {
      run->Dropped();
    }
  }
  if (run->over()) SessionOver(run, now);
}

void Loop::SessionOver(SessionRun* run, int64_t now) {
  const int user = run->user();
  const size_t slot = run->slot;
  runs_[slot].reset();
  free_runs_.push_back(slot);
  if (user >= 0) StartUser(user, now);
}

void Loop::Drop(const Request& request) {
  request.run->Dropped();
  if (request.run->over()) {
    const size_t slot = request.run->slot;
    runs_[slot].reset();
    free_runs_.push_back(slot);
  }
}

}  // namespace poolmark::load
