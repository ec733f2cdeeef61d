// The fuzzers' checks on recorded inputs and on some thousand mutations of them: runs wherever the tests run.
#include <catch2/catch.hpp>

#include "common/base/files.h"
#include "common/base/random.h"
#include "tests/fuzz/quality_targets.h"
#include "tests/unit/quality/quality_data.h"

namespace poolmark::quality {
namespace {

// A few bytes changed, cut, doubled or replaced by what JSON readers stumble over.
std::string Mutated(std::string text, SplitMix64* random) {
  static const std::string kPieces[] = {"\"",   "}",        "]",    "\\ud800", "\\u0000",
                                        "-1",   "1e999",    "null", "{\"",     std::string(1, '\0'),
                                        "\xff", "<answer>", "\n\n", ", "};
  for (uint64_t n = random->Below(4) + 1; n > 0 && !text.empty(); --n) {
    size_t at = random->Below(text.size());
    switch (random->Below(5)) {
      case 0:
        text[at] = static_cast<char>(random->Below(256));
        break;
      case 1:
        text.erase(at, random->Below(20));
        break;
      case 2:
        text.insert(at, kPieces[random->Below(std::size(kPieces))]);
        break;
      case 3:
        text.resize(at);
        break;
      default:
        text.insert(at, text.substr(random->Below(text.size()), random->Below(40)));
    }
  }
  return text;
}

}  // namespace

TEST_CASE("readers hold on recorded, mutated and hostile inputs", "[K2]") {
  std::vector<std::pair<int, std::string>> seeds;
  const std::string hostile[] = {"",
                                 "{",
                                 "[]",
                                 "null",
                                 "{\"schema_version\": 1}",
                                 std::string(100000, '['),
                                 "{\"a\":1,\"a\":2}",
                                 "\xff\xfe\n\n{}",
                                 "<answer><answer></answer>",
                                 "data: {\"choices\":[{\"delta\":{\"content\":\"\\ud800\"}}]}\n\n",
                                 "data: [DONE]\n\ndata: {}\n\n"};
  for (const std::string& text : hostile) {
    for (int kind = 0; kind < test::kQualityFileKinds; ++kind) test::FuzzQualityFile(kind, text);
    test::FuzzQualityText(text);
  }
  if (auto data = test::QualityData()) {
    auto add = [&](int kind, const std::string& file) {
      Result<std::string> text = ReadFile(*data + "/" + file);
      if (text.ok()) seeds.emplace_back(kind, text->substr(0, 60000));
    };
    add(0, "c16_one_question/input/plan.json");
    add(1, "c16_one_question/input/manifest.jsonl");
    add(2, "c02_indep_match_fail/input/arm_candidate.json");
    add(3, "c16_one_question/input/answers_candidate.jsonl");
    add(4, "c16_one_question/expected/rows.jsonl");
    add(5, "c02_indep_match_fail/expected/summary.json");
    add(6, "c08_judge_cache_partial/input/judge_cache.jsonl");
    add(7, "shared/dataset.json");
    add(8, "shared/dataset.json");
  }
  // What the fuzzers keep, with the kind in front.
  for (const char* target : {"quality_files", "quality_text"}) {
    const std::string corpus = test::Source(std::string("tests/fuzz/corpus/") + target);
    Result<std::vector<std::string>> names = ListDir(corpus);
    REQUIRE(names.ok());
    CHECK(names->size() >= 8);
    for (const std::string& name : *names) {
      const std::string text = ReadFile(corpus + "/" + name).value();
      if (text.empty()) continue;
      test::FuzzQualityText(text);
      seeds.emplace_back(static_cast<unsigned char>(text[0]) % test::kQualityFileKinds, text.substr(1));
    }
  }
  SplitMix64 random(20261130);
  for (const auto& [kind, text] : seeds) {
    test::FuzzQualityFile(kind, text);
    for (int i = 0; i < 150; ++i) {
      std::string mutated = Mutated(text, &random);
      test::FuzzQualityFile(kind, mutated);
      if (i < 20) test::FuzzQualityText(std::string_view(mutated).substr(0, 3000));
    }
  }
  SUCCEED();
}

}  // namespace poolmark::quality
