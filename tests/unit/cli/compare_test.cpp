// What `poolmark compare` ends with.
#include "cli/commands/compare.h"

#include <catch2/catch.hpp>

namespace poolmark::cli {
namespace {

report::JobComparison With(const std::string& verdict, bool complete) {
  report::JobComparison out;
  out.comparisons.resize(2);
  out.comparisons[0].verdict = "better";
  out.comparisons[1].verdict = verdict;
  out.complete = complete;
  return out;
}

}  // namespace

TEST_CASE("a gate passes only where every test point was compared and none is worse", "[M26][I8]") {
  CHECK(ExitCodeOf(With("same", true), true) == 0);
  CHECK(ExitCodeOf(With("worse", true), true) == 1);
  CHECK(ExitCodeOf(With("worse", false), true) == 1);
  CHECK(ExitCodeOf(With("same", false), true) == 4);
  for (const char* verdict : {"same", "worse"}) {
    for (const bool complete : {true, false}) CHECK(ExitCodeOf(With(verdict, complete), false) == 0);
  }
}

TEST_CASE("what is refused or damaged is told first", "[M26][I8]") {
  for (const bool gate : {true, false}) {
    report::JobComparison damaged = With("worse", false);
    damaged.damaged = true;
    CHECK(ExitCodeOf(damaged, gate) == 3);
    damaged.unlike.push_back({"b", "model", "x", "y", true});
    CHECK(ExitCodeOf(damaged, gate) == 2);
  }
}

}  // namespace poolmark::cli
