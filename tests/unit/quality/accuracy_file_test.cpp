// accuracy.json of a job: written and read again, described, and refused where no pass can have counted it.
#include "common/quality/accuracy_file.h"

#include <catch2/catch.hpp>

namespace poolmark::quality {

TEST_CASE("accuracy.json is read as it was written and says where the tokens came from", "[K30]") {
  AccuracyFile file;
  file.stack = "comp";
  file.reference = "base";
  file.sources = PromptSources{2000, 200, 0, 100, 1300, 400, 0};
  file.notes = {"GPU caches were emptied before the counted pass"};
  const std::string text = EncodeAccuracyFile(file).value();
  const AccuracyFile again = DecodeAccuracyFile(text, "accuracy.json").value();
  CHECK(EncodeAccuracyFile(again).value() == text);
  CHECK(again.stack == "comp");
  CHECK(again.sources->below_gpu() == 1400);
  CHECK(DescribeSources(again) ==
        "of 2000 prompt tokens 80 % came from caches (gpu 10 %, storage 5 %, remote 65 %); GPU caches were "
        "emptied before the counted pass");
  file.sources = PromptSources{};
  file.notes.clear();
  CHECK(DescribeSources(file) == "of 0 prompt tokens 0 % came from caches");
  file.sources.reset();
  file.not_measured = "no metrics page";
  CHECK(DescribeSources(DecodeAccuracyFile(EncodeAccuracyFile(file).value(), "f").value()) ==
        "where its prompt tokens came from is not measured: no metrics page");
}

TEST_CASE("an accuracy.json that cannot be is refused by field", "[K30]") {
  const std::string good =
      R"({"schema_version": 1, "stack": "c", "reference": "b", "prompt_tokens": {"prompt": 10, "gpu": 1, "host": 2,)"
      R"( "storage": 3, "remote": 0, "computed": 4, "not_attributed": 0}, "notes": ["n"]})";
  REQUIRE(DecodeAccuracyFile(good, "f").ok());
  const std::vector<std::array<std::string, 3>> changes = {
      {"\"schema_version\": 1", "\"schema_version\": 2", "schema_version is 2"},
      {"\"gpu\": 1", "\"gpu\": -5", "f prompt_tokens: 'gpu' is -5"},
      {"\"gpu\": 1", "\"gpu\": 1e300", "'gpu' is 1e+300"},
      {"\"gpu\": 1", "\"gpu\": \"1\"", "'gpu' is string"},
      {"\"host\": 2,", "", "'host' is missing"},
      {"[\"n\"]", "[1]", "'notes'"},
      {"\"stack\": \"c\", ", "", "'stack' is missing"},
      {"{\"prompt\": 10", "{\"not_measured\": 3, \"prompt\": 10", "'not_measured' is number"}};
  for (const auto& [from, to, named] : changes) {
    std::string text = good;
    text.replace(text.find(from), from.size(), to);
    INFO(text);
    CHECK_THAT(std::string(DecodeAccuracyFile(text, "f").status().message()), Catch::Contains(named));
  }
}

}  // namespace poolmark::quality
