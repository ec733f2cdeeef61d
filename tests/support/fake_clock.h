// A clock that moves only when told to. Not thread-safe.
#pragma once
#include "common/base/clock.h"

namespace poolmark::test {

class FakeClock final : public Clock {
 public:
  Nanoseconds Steady() const override { return now_; }
  Nanoseconds Boot() const override { return now_; }
  Nanoseconds Wall() const override { return wall_start_ + now_; }
  void Advance(Nanoseconds by) { now_ += by; }
  void StepWall(Nanoseconds by) { wall_start_ += by; }

 private:
  Nanoseconds now_{std::chrono::seconds(1000)};
  Nanoseconds wall_start_{std::chrono::seconds(1'790'000'000)};
};

}  // namespace poolmark::test
