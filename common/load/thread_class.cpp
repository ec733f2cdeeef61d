#include "common/load/thread_class.h"

#include <sched.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>

#include "common/base/files.h"

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

std::optional<int64_t> ProcessorWaitNanoseconds() {
  const Result<std::string> text = ReadPseudoFile("/proc/thread-self/schedstat");
  if (!text.ok()) return std::nullopt;
  // Time on a processor, time waiting for one, time slices (Documentation/scheduler/sched-stats.rst).
  const size_t space = text->find(' ');
  if (space == std::string::npos) return std::nullopt;
  return std::strtoll(text->c_str() + space + 1, nullptr, 10);
}

}  // namespace poolmark::load
