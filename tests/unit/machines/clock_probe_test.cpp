// The clock of a machine against the controller's, from heartbeats.
#include "controller/machines/clock_probe.h"

#include <catch2/catch.hpp>

namespace poolmark::controller {
namespace {

using std::chrono::milliseconds;
constexpr int64_t kMs = 1'000'000;

// One exchange: the machine is `offset` ahead, the way there and back takes as given.
void Exchange(ClockProbe* probe, int64_t at, int64_t offset, int64_t there, int64_t back) {
  const int64_t t1 = at + offset, t2 = at + there, t3 = t2 + kMs, t4 = t3 + back + offset;
  probe->Received(t1, at, t2, t3, Nanoseconds(at));
  probe->Completed(t1, t4);
}

TEST_CASE("an even round trip gives the offset, with half the round trip as uncertainty", "[C6]") {
  ClockProbe probe;
  CHECK_FALSE(probe.reading());
  Exchange(&probe, 1000 * kMs, 250 * kMs, 3 * kMs, 3 * kMs);
  REQUIRE(probe.reading());
  CHECK(probe.reading()->offset == milliseconds(250));
  CHECK(probe.reading()->uncertainty == milliseconds(3));
}

TEST_CASE("of eight exchanges the one with the smallest round trip counts", "[C6]") {
  ClockProbe probe;
  for (int i = 1; i <= 8; ++i) Exchange(&probe, i * 2000 * kMs, -40 * kMs, i == 3 ? kMs : 80 * kMs, kMs);
  CHECK(probe.reading()->offset == milliseconds(-40));
  CHECK(probe.reading()->uncertainty == milliseconds(1));
  // The good one leaves after eight more.
  for (int i = 9; i <= 16; ++i) Exchange(&probe, i * 2000 * kMs, -40 * kMs, 41 * kMs, kMs);
  CHECK(probe.reading()->uncertainty == milliseconds(21));
}

TEST_CASE("a step of the wall clock against the boot clock is seen, drift is in the worst reading", "[I2]") {
  ClockProbe probe;
  Exchange(&probe, 1000 * kMs, 0, kMs, kMs);
  for (int i = 0; i < 8; ++i) Exchange(&probe, (3000 + i * 2000) * kMs, 200 * kMs, kMs, kMs);
  CHECK(probe.LargestStepSince(Nanoseconds(0)) == milliseconds(200));
  CHECK(probe.LargestStepSince(Nanoseconds(3500 * kMs)) == milliseconds(0));
  CHECK(probe.WorstSince(Nanoseconds(0))->offset == milliseconds(200));
}

TEST_CASE("answers to unknown beats and impossible round trips are ignored") {
  ClockProbe probe;
  probe.Completed(5, 10);
  CHECK_FALSE(probe.reading());
  probe.Received(100, 1, 200, 900, Nanoseconds(1));
  probe.Completed(100, 150);  // answered before we had answered
  CHECK_FALSE(probe.reading());
}

}  // namespace
}  // namespace poolmark::controller
