#include "common/load/thread_class.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>

namespace poolmark::load {
namespace {

// include/uapi/linux/sched/types.h, first version; glibc 2.36 has neither struct nor call.
struct Attributes {
  uint32_t size;
  uint32_t policy;
  uint64_t flags;
  int32_t nice;
  uint32_t priority;
  uint64_t runtime;
  uint64_t deadline;
  uint64_t period;
};
static_assert(sizeof(Attributes) == 48);

// The shortest slice that the kernel takes.
constexpr uint64_t kShortSlice = 100'000;
constexpr int kBackgroundNice = 5;
constexpr int kMostNice = 19;
constexpr int64_t kShortestPause = 20'000'000;
constexpr int64_t kLongestPause = 1'280'000'000;
constexpr int64_t kWaitShare =
    200;  // one part in so many is waited by a thread that has a processor of its own

}  // namespace

void RunSoonWhenWoken() {
  Attributes attributes{};
  if (syscall(SYS_sched_getattr, 0, &attributes, sizeof attributes, 0) != 0) return;
  if (attributes.policy != SCHED_OTHER) return;  // someone chose otherwise for this process
  attributes.size = sizeof attributes;
  attributes.runtime = kShortSlice;
  (void)syscall(SYS_sched_setattr, 0, &attributes, 0);
}

void RunInTheBackground() {
  const auto thread = static_cast<id_t>(syscall(SYS_gettid));
  const int now = getpriority(PRIO_PROCESS, thread);
  (void)setpriority(PRIO_PROCESS, thread, std::min(kMostNice, now + kBackgroundNice));
}

ProcessorWatch::ProcessorWatch(uint32_t index, uint32_t threads, const char* schedstat)
    : index_(index),
      threads_(threads),
      file_(open(schedstat, O_RDONLY | O_CLOEXEC)),
      pause_(kShortestPause) {}

ProcessorWatch::~ProcessorWatch() {
  if (file_ >= 0) close(file_);
}

std::optional<int64_t> ProcessorWatch::WaitedNanoseconds() const {
  // Time on a processor, time waiting for one, time slices (Documentation/scheduler/sched-stats.rst).
  char text[96];
  const ssize_t n = file_ < 0 ? -1 : pread(file_, text, sizeof text - 1, 0);
  if (n <= 0) return std::nullopt;
  text[n] = '\0';
  const char* const space = std::strchr(text, ' ');
  if (space == nullptr) return std::nullopt;
  return std::strtoll(space + 1, nullptr, 10);
}

// Threads that wait for each other must not go at the same moment to the same place.
int64_t ProcessorWatch::Pause() const {
  return pause_ + pause_ / 8 * (index_ % 8);
}

bool ProcessorWatch::Look(int64_t now) {
  if (looked_at_ >= 0 && now - looked_at_ < Pause()) return false;
  const std::optional<int64_t> waited = WaitedNanoseconds();
  if (!waited.has_value()) return false;
  const bool first = looked_at_ < 0;
  const int64_t passed = now - looked_at_;
  const int64_t more = *waited - waited_;
  looked_at_ = now;
  waited_ = *waited;
  if (first || more * kWaitShare <= passed) {
    pause_ = kShortestPause;
    return false;
  }
  pause_ = std::min(pause_ * 2, kLongestPause);  // where every processor is busy, going about helps nobody
  const int here = sched_getcpu();
  if (!allowed_.has_value()) {
    cpu_set_t all;
    if (sched_getaffinity(0, sizeof all, &all) != 0) return false;
    allowed_ = all;
  }
  cpu_set_t others = *allowed_;
  if (here < 0 || here >= CPU_SETSIZE || !CPU_ISSET(here, &others) ||
      CPU_COUNT(&others) <= static_cast<int>(std::max(1u, threads_)))
    return false;
  CPU_CLR(here, &others);
  if (sched_setaffinity(0, sizeof others, &others) != 0) return false;
  return true;
}

}  // namespace poolmark::load
