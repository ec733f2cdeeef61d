#include "common/base/clock.h"

#include <ctime>

namespace poolmark {
namespace {

Nanoseconds Read(clockid_t id) {
  timespec now{};
  clock_gettime(id, &now);
  return std::chrono::seconds(now.tv_sec) + Nanoseconds(now.tv_nsec);
}

class SystemClock final : public Clock {
 public:
  Nanoseconds Steady() const override { return Read(CLOCK_MONOTONIC); }
  Nanoseconds Boot() const override { return Read(CLOCK_BOOTTIME); }
  Nanoseconds Wall() const override { return Read(CLOCK_REALTIME); }
};

}  // namespace

const Clock& RealClock() {
  static const SystemClock clock;
  return clock;
}

}  // namespace poolmark
