#include "common/load/in_flight.h"

#include <catch2/catch.hpp>

namespace poolmark::load {
namespace {

RequestRecord From(int64_t started, int64_t end, Outcome outcome = Outcome::kOk,
                   std::string_view error = "") {
  RequestRecord record;
  record.started = started;
  record.end = end;
  record.outcome = outcome;
  record.error = error;
  return record;
}

}  // namespace

TEST_CASE("the most in flight is of one moment, whoever's requests they are", "[C21]") {
  InFlightSpans first, second;
  CHECK(first.Most() == 0);
  // Three of one loop, then two of another one and one that lasts through both.
  for (const int64_t start : {5, 0, 3}) first.Add(From(start, 10));
  for (const int64_t start : {20, 22}) second.Add(From(start, 30));
  second.Add(From(1, 40));
  CHECK(first.Most() == 3);
  CHECK(second.Most() == 3);
  first.Merge(second);
  CHECK(first.Most() == 4);
  // A user's next request may begin at the instant at which the last one ended.
  InFlightSpans user;
  for (int64_t at = 0; at < 50; ++at) user.Add(From(at, at + 1));
  CHECK(user.Most() == 1);
}

TEST_CASE("what was never sent was not in flight", "[C21]") {
  InFlightSpans spans;
  spans.Add(From(0, 9, Outcome::kConnect, "Connection refused"));
  spans.Add(From(0, 9, Outcome::kCancelled, kCutUnsent));
  spans.Add(From(0, 9, Outcome::kCancelled, kCutBetweenAttempts));
  spans.Add(From(0, 0, Outcome::kReset, "Broken pipe"));
  CHECK(spans.Most() == 0);
  spans.Add(From(4, 9, Outcome::kCancelled, "cut off at the end of the drain"));
  spans.Add(From(5, 6, Outcome::kDeadline, "not ended within the deadline of a request"));
  CHECK(spans.Most() == 2);
}

}  // namespace poolmark::load
