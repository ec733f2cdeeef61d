// Before a load: connections opened ahead, the loops' wait for each other and for a planned start.
#include <sys/epoll.h>
#include <unistd.h>

#include <algorithm>
#include <ctime>
#include <thread>

#include "common/load/loop.h"
#include "common/load/loop_link.h"

namespace poolmark::load {
namespace {

constexpr int kStartBatch = 256;

int64_t Steady() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return static_cast<int64_t>(t.tv_sec) * 1'000'000'000 + t.tv_nsec;
}

}  // namespace

// Connections of all users of a closed loop, so that time 0 is no storm of connects. What fails here fails
// again, and is counted, when a request needs it.
void Loop::OpenAheadOfStart() {
  if (options_.mode != LoadOptions::Mode::kClosed) return;
  const uint32_t users = ShareOf(options_.users, part_.index, part_.count);
  const uint32_t wanted = max_links_ == 0 ? users : std::min(users, max_links_);
  for (uint32_t i = 0; i < wanted; ++i) {
    // The first session of user u goes to the u-th target, as long as users take theirs in order.
    OpenLink((part_.index + i * part_.count) % static_cast<uint32_t>(targets_.size()), nullptr);
  }
}

// Connects go on, and what a server closes is closed.
void Loop::Poll(int milliseconds) {
  epoll_event events[kStartBatch];
  const int n = epoll_wait(epoll_, events, kStartBatch, milliseconds);
  for (int i = 0; i < n; ++i) {
    if (events[i].data.ptr == &wake_) {
      uint64_t count;
      [[maybe_unused]] const ssize_t rc = read(wake_, &count, sizeof count);
    } else if (events[i].data.ptr != &timer_) {
      HandleEvent(static_cast<Link*>(events[i].data.ptr), events[i].events);
    }
  }
  BuryClosed();
}

// Times of connections are of the steady clock until the start is known, and of the load from then on.
void Loop::WaitForStart() {
  const auto all_connected = [this] {
    return std::none_of(links_.begin(), links_.end(),
                        [](const auto& link) { return !link->closed && link->connecting; });
  };
  const int64_t give_up = Steady() + options_.connect_timeout.count();
  bool announced = false;
  int64_t start = 0;
  for (;;) {
    if (!announced && (all_connected() || Steady() > give_up || shared_.stop.load() != SharedPlan::kRun)) {
      announced = true;
      shared_.ready.fetch_add(1);
    }
    start = shared_.start_steady.load(std::memory_order_acquire);
    if (announced && (start != 0 || shared_.stop.load() != SharedPlan::kRun)) {
      if (start == 0) start = Steady();
      break;
    }
    Poll(announced ? 20 : 5);
  }
  WaitUntil(start);
  for (const auto& link : links_) {
    link->opened_at -= start_;
    link->idle_since -= start_;
  }
}

// In slices, since a planned start may be far and a stop, which moves it to its own moment, is not to wait.
// Servers close connections that are idle for some seconds: those of a start that is further away are opened
// anew shortly before it.
void Loop::WaitUntil(int64_t start) {
  constexpr int64_t kSlice = 20'000'000;
  const int64_t again = 1'000'000'000 + std::min<int64_t>(2'000'000'000, options_.users * 100'000ll);
  bool fresh = start - Steady() <= again;
  for (;;) {
    const int64_t ahead = start - Steady();
    if (ahead <= 0) break;
    if (shared_.stop.load() != SharedPlan::kRun) {
      start = std::min(shared_.start_steady.load(std::memory_order_acquire), Steady());
      break;
    }
    if (!fresh && ahead <= again) {
      fresh = true;
      while (!links_.empty()) CloseLink(links_.back().get(), false);
      OpenAheadOfStart();
    }
    if (ahead > kSlice) {
      Poll(static_cast<int>(kSlice / 1'000'000) - 1);
    } else {
      std::this_thread::sleep_for(std::chrono::nanoseconds(ahead));
    }
  }
  start_ = start;
}

}  // namespace poolmark::load
