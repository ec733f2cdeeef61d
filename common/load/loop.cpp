#include "common/load/loop.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <ctime>
#include <thread>

#include "common/load/loop_link.h"
#include "common/load/thread_class.h"

namespace poolmark::load {
namespace {

constexpr size_t kReadBuffer = 256 * 1024;
constexpr int kBatch = 256;
// A closed loop's next requests wait for what can be read: a read that comes late falsifies a time, a send
// that comes late does not, since its latency counts from the send. This long at most.
constexpr int64_t kMostHold = 1'000'000;
// Requests of a closed loop that are begun before it looks for reads again.
constexpr size_t kStartsAtOnce = 8;
// More finished records than this do not wait for a quiet moment.
constexpr size_t kMostFinished = 256;
// After [DONE] the answer's own end should follow at once.
constexpr int64_t kAfterDone = 1'000'000'000;

int64_t ReadClock(clockid_t clock) {
  timespec t;
  clock_gettime(clock, &t);
  return static_cast<int64_t>(t.tv_sec) * 1'000'000'000 + t.tv_nsec;
}

}  // namespace

Loop::Loop(const LoadOptions& options, const std::vector<Target>& targets, SessionSource& source,
           SharedPlan& shared, LoopLive& live, RecordSink& sink, LoopPart part)
    : options_(options),
      targets_(targets),
      source_(source),
      shared_(shared),
      live_(live),
      sink_(sink),
      part_(part),
      waiting_(targets.size()),
      idle_(targets.size()),
      links_to_(targets.size()),
      finished_(kMostFinished),
      buffer_(kReadBuffer) {
  max_links_ = ConnectionsOfLoop(options, part);
  next_static_session_ = part.index;
  if (options.duration.has_value()) load_end_ = options.duration->count();
}

Loop::~Loop() {
  links_.clear();
  for (const int fd : {epoll_, timer_, wake_}) {
    if (fd >= 0) close(fd);
  }
}

int64_t Loop::Now() const {
  return ReadClock(CLOCK_MONOTONIC) - start_;
}

void Loop::ConvertClock() {
  // The pair that was read fastest is the one least disturbed.
  int64_t best = INT64_MAX;
  for (int i = 0; i < 3; ++i) {
    const int64_t before = ReadClock(CLOCK_MONOTONIC);
    const int64_t real = ReadClock(CLOCK_REALTIME);
    const int64_t after = ReadClock(CLOCK_MONOTONIC);
    if (after - before < best) {
      best = after - before;
      real_to_load_ = before + (after - before) / 2 - real - start_;
    }
  }
}

Status Loop::Prepare() {
  epoll_ = epoll_create1(EPOLL_CLOEXEC);
  timer_ = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
  wake_ = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
  if (epoll_ < 0 || timer_ < 0 || wake_ < 0) {
    return FromErrno("load", "setting up an event loop", errno);
  }
  for (int* fd : {&timer_, &wake_}) {
    epoll_event event{EPOLLIN, {.ptr = fd}};
    epoll_ctl(epoll_, EPOLL_CTL_ADD, *fd, &event);
  }
  OpenAheadOfStart();
  return absl::OkStatus();
}

void Loop::Wake() {
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t n = write(wake_, &one, sizeof one);
}

void Loop::Run() {
  RunSoonWhenWoken();
  Rehearse();
  WaitForStart();
  ProcessorWatch processor(part_.index, part_.count / options_.workers);
  const std::optional<int64_t> waited_before = processor.WaitedNanoseconds();
  ConvertClock();
  now_ = Now();
  BeginPlan();
  int64_t next_sweep = 0;
  int64_t next_convert = now_ + 1'000'000'000;
  const int64_t shortest =
      std::min({options_.deadline.count(), options_.stall.count(), options_.connect_timeout.count()});
  const int64_t sweep_every = std::clamp<int64_t>(shortest / 20, 5'000'000, 100'000'000);
  epoll_event events[kBatch];
  bool read_something = false;
  for (;;) {
    now_ = Now();
    RunDue(now_);
    processor.Look(now_);
    if (now_ >= next_sweep) {
      Sweep(now_);
      next_sweep = now_ + sweep_every;
    }
    if (!HoldSends(read_something)) StartSome();
    if (now_ >= next_convert) {
      ConvertClock();
      next_convert = now_ + 1'000'000'000;
    }
    if (Over()) break;
    ArmTimer();
    const int timeout =
        !ready_.empty() || finished_.size() > 0
            ? 0
            : static_cast<int>(std::max<int64_t>(1, (next_sweep - now_ + 999'999) / 1'000'000));
    const int n = epoll_wait(epoll_, events, kBatch, timeout);
    read_something = n > 0;
    for (int i = 0; i < n; ++i) {
      void* const who = events[i].data.ptr;
      if (who == &timer_ || who == &wake_) {
        uint64_t count;
        [[maybe_unused]] const ssize_t rc = read(who == &timer_ ? timer_ : wake_, &count, sizeof count);
        if (who == &timer_) armed_ = -1;
        continue;
      }
      HandleEvent(static_cast<Link*>(who), events[i].events);
      if (options_.mode == LoadOptions::Mode::kClosed) continue;
      DrainReady();
      // Due sends do not wait for the rest of the reads.
      if (const auto due = NextDue(); due.has_value() && *due <= now_) {
        RunDue(now_);
        DrainReady();
      }
    }
    if (!read_something && ready_.empty()) HandOver();
    BuryClosed();
  }
  while (finished_.size() > 0) HandFirst();
  InFlight(0, Now());
  const std::optional<int64_t> waited = processor.WaitedNanoseconds();
  if (waited_before.has_value() && waited.has_value())
    live_.processor_wait.store(*waited - *waited_before, std::memory_order_relaxed);
  live_.finished.store(1, std::memory_order_release);
}

// Whether the requests that could begin wait for more reads. With a schedule nothing does.
bool Loop::HoldSends(bool read_something) {
  if (options_.mode != LoadOptions::Mode::kClosed || !read_something || ready_.empty()) {
    held_since_ = -1;
    return false;
  }
  if (held_since_ < 0) held_since_ = now_;
  return now_ - held_since_ < kMostHold;
}

void Loop::StartSome() {
  if (options_.mode != LoadOptions::Mode::kClosed) return DrainReady();
  for (size_t i = 0; i < kStartsAtOnce && !ready_.empty(); ++i) StartFirst();
}

std::optional<int64_t> Loop::NextDue() const {
  std::optional<int64_t> due = next_arrival_;
  if (!timers_.empty()) due = std::min(due.value_or(INT64_MAX), timers_.top().at);
  return due;
}

void Loop::ArmTimer() {
  const std::optional<int64_t> due = NextDue();
  if (!due.has_value() || *due == armed_) return;
  const int64_t at = std::max<int64_t>(1, *due + start_);
  const itimerspec spec{{0, 0}, {at / 1'000'000'000, at % 1'000'000'000}};
  timerfd_settime(timer_, TFD_TIMER_ABSTIME, &spec, nullptr);
  armed_ = *due;
}

void Loop::RunDue(int64_t now) {
  Issuing(now);
  while (next_arrival_.has_value() && *next_arrival_ <= now) {
    const int64_t at = *next_arrival_;
    NextArrival();
    TakeArrival(now, at);
  }
  while (!timers_.empty() && timers_.top().at <= now) {
    const Timer timer = timers_.top();
    timers_.pop();
    if (timer.kind == Timer::Kind::kUser) {
      StartUser(timer.user, now);
    } else if (timer.kind == Timer::Kind::kTurn && options_.mode == LoadOptions::Mode::kRate &&
               !options_.rate_of_sessions) {
      open_ready_.push_back(timer.request);
    } else {
      ready_.push_back(timer.request);
    }
  }
  if (issuing_ && options_.mode == LoadOptions::Mode::kTrace) OpenAhead(now);
}

// Whether new requests may still start.
bool Loop::Issuing(int64_t now) {
  if (!issuing_) return false;
  if (now < load_end_ && shared_.stop.load(std::memory_order_relaxed) == SharedPlan::kRun) return true;
  EndIssuing(now);
  return false;
}

void Loop::Sweep(int64_t now) {
  Issuing(now);
  if (!cut_ && (shared_.stop.load(std::memory_order_relaxed) == SharedPlan::kCut || now >= drain_end_))
    CutOff(now);
  // Backwards: closing moves the last link into the place.
  for (size_t i = links_.size(); i-- > 0;) {
    Link* const link = links_[i].get();
    if (link->closed) continue;
    if (link->connecting) {
      if (now - link->opened_at > options_.connect_timeout.count()) FailConnect(link);
    } else if (link->request.has_value()) {
      if (link->done_at >= 0 && now - link->done_at > kAfterDone) {
        link->stream.EndAfterDone(link->done_at);
        EndExchange(link);
      } else if (now - link->record.started > options_.deadline.count()) {
        link->stream.Abort(Outcome::kDeadline, now, "not ended within the deadline of a request");
        EndExchange(link);
      } else if (link->record.first_output.has_value() && now - link->last_byte > options_.stall.count()) {
        link->stream.Abort(Outcome::kStalled, now, "no byte within the stall limit");
        EndExchange(link);
      }
    } else if (link->idle && now - link->idle_since > options_.keep_alive.count()) {
      CloseLink(link, false);
    }
  }
  BuryClosed();
}

void Loop::BuryClosed() {
  buried_.clear();
}

}  // namespace poolmark::load
