// Prompts of loads without a workload file.
#include "common/load/quick_source.h"

#include <catch2/catch.hpp>

namespace poolmark::load {

TEST_CASE("quick prompts are their own, repeatable and as long as asked") {
  QuickOptions options;
  options.model = "m\"x";
  options.requests = 2;
  options.input_tokens = 5;
  const auto source = MakeQuickSource(options);
  REQUIRE(source.ok());
  std::string first;
  std::string again;
  std::string second;
  (*source)->Open(0)->Render(0, &first);
  (*source)->Open(0)->Render(0, &again);
  (*source)->Open(1)->Render(0, &second);
  CHECK(first == again);
  CHECK(first != second);
  CHECK((*source)->Open(2) == nullptr);
  CHECK(first.find("\"model\":\"m\\\"x\"") != std::string::npos);
  options.prompt_ids = true;
  CHECK_FALSE(MakeQuickSource(options).ok());
  options.chat = false;
  const auto ids = MakeQuickSource(options);
  std::string body;
  (*ids)->Open(0)->Render(0, &body);
  CHECK(std::count(body.begin() + static_cast<long>(body.find("\"prompt\":[")), body.end(), ',') == 4);
}

}  // namespace poolmark::load
