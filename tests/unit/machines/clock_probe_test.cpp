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
  probe->Received(t1, at, t2, t3, Nanoseconds(t2));
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

TEST_CASE("a clock that was set is known by what was measured since, on either side", "[C6]") {
  ClockProbe probe;
  Exchange(&probe, 1000 * kMs, 0, 0, 0);  // as good as they get
  Exchange(&probe, 3000 * kMs, 0, 2 * kMs, 2 * kMs);
  REQUIRE(probe.reading()->uncertainty == milliseconds(0));
  // The machine's clock is set a second ahead; the beat that shows it is not yet a measurement.
  probe.Received(6000 * kMs, 5000 * kMs, 5002 * kMs, 5003 * kMs, Nanoseconds(5002 * kMs));
  CHECK_FALSE(probe.reading());
  CHECK_FALSE(probe.WorstSince(Nanoseconds(5002 * kMs)));
  probe.Completed(6000 * kMs, 6005 * kMs);
  REQUIRE(probe.reading());
  CHECK(probe.reading()->offset == milliseconds(1000));
  CHECK(probe.reading()->uncertainty == milliseconds(2));
  // And back: nothing of the second that was.
  Exchange(&probe, 7000 * kMs, 300 * kMs, 5 * kMs, 5 * kMs);
  CHECK(probe.reading()->offset == milliseconds(300));
  CHECK(probe.LargestStepSince(Nanoseconds(0)) == milliseconds(1000));
  CHECK(probe.LargestStepSince(Nanoseconds(6000 * kMs)) == milliseconds(-700));

  // Ours is set: no step of the machine's, but the old readings are of another clock.
  const Nanoseconds steady(9000 * kMs);
  probe.Received(9300 * kMs, 9000 * kMs, 8004 * kMs, 8004 * kMs, steady);
  CHECK_FALSE(probe.reading());
  CHECK(probe.LargestStepSince(steady) == milliseconds(0));
  probe.Completed(9300 * kMs, 9308 * kMs);
  CHECK(probe.reading()->offset == milliseconds(1300));

  // Another boot: its boot clock begins anew, and nothing is a step.
  probe.Received(20'000 * kMs, 30 * kMs, 19'000 * kMs, 19'000 * kMs, Nanoseconds(20'000 * kMs));
  CHECK_FALSE(probe.reading());
  CHECK(probe.LargestStepSince(Nanoseconds(20'000 * kMs)) == milliseconds(0));
  probe.Completed(20'000 * kMs, 20'000 * kMs);
  CHECK(probe.reading()->offset == milliseconds(1000));
  probe.Forget();
  CHECK_FALSE(probe.reading());
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
