#include <catch2/catch.hpp>

#include "common/prom/parser.h"
#include "common/prom/totals.h"

using namespace poolmark::prom;

TEST_CASE("levels are no counters: one that falls is no restart", "[I3]") {
  auto page = ParseText(
      "# TYPE llamacpp:prompt_tokens_total counter\nllamacpp:prompt_tokens_total 10\n"
      "# TYPE llamacpp:predicted_tokens_seconds gauge\nllamacpp:predicted_tokens_seconds 812.5\n");
  REQUIRE(page.ok());
  auto totals = TotalsOf(*page);
  CHECK(totals.count("llamacpp:prompt_tokens_total") == 1);
  CHECK(totals.count("llamacpp:predicted_tokens_seconds") == 0);
}
