// Every vector of the shared data that concerns text, scores and statistics. Each failure names its case.
#include <catch2/catch.hpp>
#include <cmath>

#include "common/quality/analyze.h"
#include "common/quality/digests.h"
#include "common/quality/extract.h"
#include "common/quality/scoring.h"
#include "common/quality/statistics.h"
#include "common/quality/unicode.h"
#include "tests/unit/quality/quality_data.h"

namespace poolmark::quality {
namespace {

using test::Vectors;

std::string Str(const Json& json, const char* key) {
  return json.at(key).get<std::string>();
}

Messages MessagesOf(const Json& json) {
  Messages out;
  for (const Json& m : json)
    out.push_back({m.at("role").get<std::string>(), m.at("content").get<std::string>()});
  return out;
}

}  // namespace

TEST_CASE("answers are taken from the last closed answer tags", "[K17][recorded]") {
  auto vectors = Vectors("extract_answer");
  if (!vectors) return;
  for (const Json& c : vectors->at("cases")) {
    INFO(c.dump());
    CHECK(ExtractAnswer(Str(c, "response")) == Str(c, "seed"));
  }
}

TEST_CASE("normalisation, F1, match and abstention agree with the released scoring", "[K18][K21][recorded]") {
  if (auto vectors = Vectors("normalize")) {
    for (const Json& c : vectors->at("cases")) {
      INFO(c.dump());
      CHECK(Normalize(Str(c, "text")) == Str(c, "normalized"));
    }
  }
  if (auto vectors = Vectors("token_f1")) {
    for (const Json& c : vectors->at("cases")) {
      INFO(c.dump());
      CHECK(TokenF1(Str(c, "prediction"), Str(c, "reference")) ==
            Approx(c.at("f1").get<double>()).margin(1e-12));
    }
    for (const Json& c : vectors->at("best")) {
      INFO(c.dump());
      CHECK(BestF1(Str(c, "prediction"), c.at("references").get<std::vector<std::string>>()) ==
            Approx(c.at("f1").get<double>()).margin(1e-12));
    }
  }
  if (auto vectors = Vectors("answer_match")) {
    for (const Json& c : vectors->at("cases")) {
      INFO(c.dump());
      CHECK(Matches(Str(c, "prediction"), c.at("references").get<std::vector<std::string>>()) ==
            c.at("match").get<bool>());
    }
  }
  if (auto vectors = Vectors("abstention")) {
    for (const Json& c : vectors->at("cases")) {
      INFO(c.dump());
      CHECK(IsAbstention(Str(c, "answer")) == c.at("abstention").get<bool>());
    }
  }
}

TEST_CASE("digests are those of Python's json.dumps", "[K7][recorded]") {
  if (auto vectors = Vectors("prompt_hash")) {
    for (const Json& c : vectors->at("cases")) {
      INFO(c.dump());
      CHECK(PromptHash(MessagesOf(c.at("messages"))) == Str(c, "prompt_hash"));
    }
  }
  if (auto vectors = Vectors("passage_id")) {
    for (const Json& c : vectors->at("cases")) {
      INFO(c.dump());
      CHECK(PassageId(Str(c, "passage")) == Str(c, "passage_id"));
    }
  }
  if (auto vectors = Vectors("judge_cache_key")) {
    for (const Json& c : vectors->at("cases")) {
      INFO(c.dump());
      CHECK(JudgeKey(Str(c, "model"), Str(c, "question"), Str(c, "answer"), Str(c, "reference")) ==
            Str(c, "key"));
    }
  }
  if (auto vectors = Vectors("python_json")) {
    for (const Json& c : vectors->at("cases")) {
      Result<Json> value = ParseJson(Str(c, "dumps"), "case");
      REQUIRE(value.ok());
      CHECK(PythonDumps(*value, true).value() == Str(c, "dumps"));
    }
  }
}

TEST_CASE("text rules are those of CPython", "[K18][recorded]") {
  auto vectors = Vectors("python_unicode");
  if (!vectors) return;
  std::vector<int> spaces;
  for (char32_t c = 0; c < 0x110000; ++c) {
    if (IsSpace(c)) spaces.push_back(static_cast<int>(c));
  }
  CHECK(spaces == vectors->at("str_isspace_codepoints").get<std::vector<int>>());
  std::string punctuation;
  for (char32_t c = 0; c < 0x110000; ++c) {
    if (IsAsciiPunctuation(c)) punctuation += static_cast<char>(c);
  }
  CHECK(punctuation == Str(*vectors, "string_punctuation"));
  CHECK(Lower(U"\u0130") == U"i\u0307");
  for (const Json& c : vectors->at("final_sigma")) {
    INFO(c.dump());
    CHECK(Encode(Lower(Decode(c[0].get<std::string>()))) == c[1].get<std::string>());
  }
  for (const Json& c : vectors->at("nfkc")) {
    INFO(c.dump());
    CHECK(Encode(Nfkc(Decode(c[0].get<std::string>()))) == c[1].get<std::string>());
  }
  // The vector replaces articles by a space without collapsing; Normalize also deletes punctuation and
  // collapses.
  auto collapsed = [](const std::string& text) {
    CodePoints out;
    for (char32_t c : Decode(text)) {
      if (IsAsciiPunctuation(c)) continue;
      if (IsSpace(c) && (out.empty() || IsSpace(out.back()))) continue;
      out.push_back(c);
    }
    return Encode(Strip(out));
  };
  // \b(a|an|the)\b -> " ", with the boundaries of IsWord.
  auto without_articles = [](const std::string& text) {
    const CodePoints in = Decode(text);
    CodePoints out;
    for (size_t i = 0; i < in.size();) {
      size_t end = i;
      while (end < in.size() && IsWord(in[end])) ++end;
      if (end == i) {
        out.push_back(in[i++]);
        continue;
      }
      const CodePoints word = in.substr(i, end - i);
      out += word == U"a" || word == U"an" || word == U"the" ? CodePoints(U" ") : word;
      i = end;
    }
    return Encode(out);
  };
  CHECK(vectors->at("article_boundary").size() == 9);
  for (const Json& c : vectors->at("article_boundary")) {
    INFO(c.dump());
    const std::string text = c[0].get<std::string>();
    CHECK(without_articles(text) == c[1].get<std::string>());
    // Normalize deletes punctuation before it looks for articles: what a mark parted is one word then.
    const bool joined = text == "a-b" || text == "a_b";
    CHECK(Normalize(text) == (joined ? "ab" : collapsed(c[1].get<std::string>())));
  }
}

TEST_CASE("the verdict follows delta, standard error and tolerance", "[K23][K24][recorded]") {
  auto vectors = Vectors("verdict");
  if (!vectors) return;
  int number = 0;
  for (const Json& c : vectors->at("cases")) {
    INFO("case " << number++);
    auto differences = c.at("differences").get<std::vector<double>>();
    PairedComparison figures = ComparePaired(differences, std::vector<double>(differences.size(), 0.0));
    CHECK(figures.delta == Approx(c.at("delta").get<double>()).margin(1e-12));
    if (c.at("standard_error").is_null()) {
      CHECK(!figures.standard_error);
    } else {
      REQUIRE(figures.standard_error);
      CHECK(*figures.standard_error == Approx(c.at("standard_error").get<double>()).margin(1e-12));
    }
    Decision decision = Decide(figures.delta, figures.standard_error,
                               static_cast<int64_t>(differences.size()), c.at("tolerance").get<double>());
    CHECK(VerdictName(decision.verdict) == Str(c, "verdict"));
    CHECK(decision.samples_needed == c.at("samples_needed").get<int64_t>());
  }
}

TEST_CASE("windows of ten do not overlap and leave a tail out", "[K25][recorded]") {
  auto vectors = Vectors("window_share");
  if (!vectors) return;
  for (const Json& c : vectors->at("cases")) {
    INFO(c.dump());
    std::vector<double> shares = WindowShares(c.at("numerators").get<std::vector<double>>(),
                                              c.at("denominators").get<std::vector<double>>(), false);
    double lowest = shares.empty() ? 0.0 : *std::min_element(shares.begin(), shares.end());
    CHECK(lowest == Approx(c.at("min_tumbling_full").get<double>()).margin(1e-12));
  }
}

TEST_CASE("ratings combine to the mean of those there are", "[K19][recorded]") {
  auto vectors = Vectors("judge_parse");
  if (!vectors) return;
  auto optional = [](const Json& j) { return j.is_null() ? std::nullopt : std::optional(j.get<double>()); };
  for (const Json& c : vectors->at("combine")) {
    INFO(c.dump());
    JudgeRating rating{optional(c.at("ratings")[0]), optional(c.at("ratings")[1]), std::nullopt};
    CHECK(rating.score() == optional(c.at("score_seed")));
  }
}

}  // namespace poolmark::quality
