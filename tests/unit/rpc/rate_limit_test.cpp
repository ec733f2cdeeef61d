// Buckets of tokens on a clock of the test's.
#include "common/rpc/rate_limit.h"

#include <catch2/catch.hpp>

namespace poolmark::rpc {

using namespace std::chrono_literals;

TEST_CASE("a caller has its burst, then its rate, and takes nothing from others") {
  RateLimiter limiter({2, 5});
  Nanoseconds now = 100s;
  for (int i = 0; i < 5; ++i) CHECK(limiter.Take("olga", now));
  CHECK_FALSE(limiter.Take("olga", now));
  CHECK(limiter.Take("vera", now));
  CHECK_FALSE(limiter.Take("olga", now + 400ms));
  for (int i = 0; i < 2; ++i) CHECK(limiter.Take("olga", now + 1s));
  CHECK_FALSE(limiter.Take("olga", now + 1s));
  // Never more than the burst, and a clock that stands still or goes back gives nothing.
  for (int i = 0; i < 5; ++i) CHECK(limiter.Take("olga", now + 1000s));
  CHECK_FALSE(limiter.Take("olga", now + 1000s));
  CHECK_FALSE(limiter.Take("olga", now + 999s));
}

TEST_CASE("very many names are forgotten when they are quiet, and refused when they are not") {
  RateLimiter limiter({1, 2});
  for (int i = 0; i < 20000; ++i) (void)limiter.Take("name-" + std::to_string(i), 1s);
  CHECK(limiter.size() <= 8192);
  CHECK_FALSE(limiter.Take("another", 1s));
  CHECK(limiter.Take("another", 10s));
  CHECK(limiter.size() == 1);
}

}  // namespace poolmark::rpc
