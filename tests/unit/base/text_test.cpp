#include <catch2/catch.hpp>

#include "common/base/result.h"
#include "common/base/time_format.h"
#include "common/base/units.h"

using namespace poolmark;
using namespace std::chrono_literals;

TEST_CASE("durations are read with their unit and refused without sense") {
  CHECK(*ParseDuration("20m") == 20min);
  CHECK(*ParseDuration("1h30m") == 90min);
  CHECK(*ParseDuration("250ms") == 250ms);
  CHECK(*ParseDuration("1200") == 1200s);
  CHECK(*ParseDuration("1.5s") == 1500ms);
  for (const char* bad : {"", "m", "-5s", "5 parsecs", "5m3", "1e999s", "nan"}) {
    CAPTURE(bad);
    CHECK_FALSE(ParseDuration(bad).ok());
  }
  CHECK(FormatDuration(20min) == "20m");
  CHECK(FormatDuration(90min) == "1h30m");
  CHECK(FormatDuration(1500ms) == "1.5s");
}

TEST_CASE("sizes and ratios keep their units") {
  CHECK(*ParseBytes("64GiB") == 64ull << 30);
  CHECK(*ParseBytes("10GB") == 10'000'000'000ull);
  CHECK_FALSE(ParseBytes("64 gigs").ok());
  CHECK_FALSE(ParseBytes("-1").ok());
  CHECK(FormatBytes(64ull << 30) == "64GiB");
  CHECK(*ParseRatio("1/32") == Ratio{1, 32});
  CHECK(*ParseRatio("0.5") == Ratio{1, 2});
  for (const char* bad : {"0", "-1", "1/0", "a", "1/2/3", ""}) CHECK_FALSE(ParseRatio(bad).ok());
}

TEST_CASE("times carry the local offset", "[K31]") {
  setenv("TZ", "America/Chicago", 1);
  tzset();
  CHECK(IsoLocal(1792424472s) == "2026-10-19T10:41:12-05:00");
  CHECK(IsoUtc(1792424472s + 42ms) == "2026-10-19T15:41:12.042Z");
  unsetenv("TZ");
  tzset();
}

TEST_CASE("an error keeps its parts through a status") {
  Status status = InvalidInput("job.yaml:3:5", "repeats is 0, at least 1 is needed", "write repeats: 3");
  Error error = ErrorOf(status);
  CHECK(error.where == "job.yaml:3:5");
  CHECK(error.hint == "write repeats: 3");
  CHECK(status.message() == "job.yaml:3:5: repeats is 0, at least 1 is needed: write repeats: 3");
}
