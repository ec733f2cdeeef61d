// Whose a pid was at a moment: by that alone a System V segment is known as ours.
#include "agent/guard/containment.h"

#include <unistd.h>

#include <catch2/catch.hpp>
#include <ctime>

using namespace poolmark::guard;

TEST_CASE("a pid is ours from our process's birth to its end, and a stranger's before and after") {
  constexpr int64_t kYears = 30ll * 365 * 24 * 3600;  // longer than any machine is up
  const auto now = static_cast<int64_t>(time(nullptr));
  const auto self = ReadStat(getpid());
  REQUIRE(self);
  Containment containment("run-of-nobody", "");
  CHECK_FALSE(containment.WasMemberAt(getpid(), now));

  SECTION("it lives") {
    containment.Remember({getpid(), self->start_time});
    CHECK(containment.WasMemberAt(getpid(), now));
    CHECK_FALSE(containment.WasMemberAt(getpid(), now - kYears));  // whoever had the pid before us
  }
  SECTION("it has ended, and a stranger has its pid") {
    // Ours was born with the machine; the one that has the pid now is this test.
    containment.Remember({getpid(), 1});
    CHECK_FALSE(containment.WasMemberAt(getpid(), now));
    CHECK_FALSE(containment.WasMemberAt(getpid(), now - kYears));
  }
  SECTION("it has ended, and nobody has its pid") {
    pid_t free = 4'000'000;  // above what the kernel hands out by default
    while (ReadStat(free)) ++free;
    containment.Remember({free, self->start_time});
    CHECK(containment.WasMemberAt(free, now));
    CHECK_FALSE(containment.WasMemberAt(free, now + 3600));
    CHECK_FALSE(containment.WasMemberAt(free, now - kYears));
    CHECK_FALSE(containment.WasMemberAt(free + 1, now));
  }
}
