// A good directory in which one file is cut, emptied, overwritten or of another type: what is wrong is named
// by file, in JSON Lines by line too, and nothing of it is believed.
#include <catch2/catch.hpp>

#include "tests/component/quality/analyzed.h"

namespace poolmark::quality {
namespace {

struct Damage {
  const char* name;
  std::function<std::string(const std::string&)> of;
};

// The first value that is a number, as another one.
std::string FirstNumberAs(const std::string& text, const char* value) {
  size_t at = text.find(": ");
  while (at != text.npos && (text[at + 2] < '0' || text[at + 2] > '9')) at = text.find(": ", at + 2);
  REQUIRE(at != text.npos);
  return text.substr(0, at + 2) + value + text.substr(text.find_first_not_of("0123456789.", at + 2));
}

const std::vector<Damage> kDamages = {
    {"cut after a quarter", [](const std::string& t) { return t.substr(0, t.size() / 4); }},
    {"cut in the middle", [](const std::string& t) { return t.substr(0, t.size() / 2); }},
    {"cut before the last brace", [](const std::string& t) { return t.substr(0, t.rfind('}')); }},
    {"emptied", [](const std::string&) { return std::string(); }},
    {"blank", [](const std::string&) { return std::string("\n \n"); }},
    {"binary", [](const std::string& t) { return std::string(t.size(), '\xfe'); }},
    {"zeros", [](const std::string& t) { return std::string(t.size(), '\0'); }},
    {"a list", [](const std::string&) { return std::string("[]\n"); }},
    {"a number", [](const std::string&) { return std::string("17\n"); }},
    {"an empty object", [](const std::string&) { return std::string("{}\n"); }},
    {"twice", [](const std::string& t) { return t + t; }},
    {"without its first key", [](const std::string& t) { return "{" + t.substr(t.find(',') + 1); }},
    {"deeper than a reader goes", [](const std::string&) { return std::string(100000, '[') + "\n"; }},
    {"a string for a number", [](const std::string& t) { return FirstNumberAs(t, "\"x\""); }},
    {"a number that no integer holds",
     [](const std::string& t) { return FirstNumberAs(t, "123456789012345678901234567890"); }},
    {"a number beyond a double", [](const std::string& t) { return FirstNumberAs(t, "1e999"); }},
    {"NaN", [](const std::string& t) { return FirstNumberAs(t, "NaN"); }},
};

// What verify says: the refusal, or its problems and warnings.
std::string Said(const std::string& path) {
  Result<VerifyReport> report = VerifyDirectory(path);
  if (!report.ok()) return std::string(report.status().message()) + "\n";
  std::string out;
  for (const std::string& line : report->problems) out += line + "\n";
  for (const std::string& line : report->warnings) out += line + "\n";
  return out;
}

}  // namespace

TEST_CASE("a file of a directory that is cut, emptied or of another type is named", "[K2]") {
  test::Analyzed directory("concatenated");
  const std::string& path = directory.bench.out();
  REQUIRE(directory.Problems() == "");
  int tried = 0;
  const std::vector<std::string> names = ListDir(path).value();
  for (const std::string& name : names) {
    const std::string file = path + "/" + name;
    const std::string good = ReadFile(file).value();
    const bool lines = name.ends_with(".jsonl");
    for (const Damage& damage : kDamages) {
      INFO(name << ": " << damage.name);
      REQUIRE(AtomicWriteFile(file, damage.of(good)).ok());
      const std::string said = Said(path);
      INFO(said);
      CHECK_THAT(said, Catch::Contains(name));
      // In JSON Lines the line too, but where a whole file or the number of its lines is wrong.
      const bool of_a_line = said.find(name + ":") != said.npos || said.find("line ") != said.npos;
      const bool of_the_file = said.find(name + " differs") != said.npos || said.find("holds ") != said.npos;
      if (lines) CHECK((of_a_line || of_the_file));
      // Neither is it compared as if nothing were: analyze refuses it, or makes it anew.
      Result<Analysis> analysis = AnalyzeDirectory(test::OptionsFor(path), test::NoJudge());
      if (analysis.ok()) {
        CHECK_FALSE((name.starts_with("plan") || name.starts_with("arm_") || name.starts_with("answers_")));
        CHECK(analysis->summary.verdict == Verdict::kPass);
      } else {
        CHECK_THAT(std::string(analysis.status().message()), Catch::Contains(name));
      }
      REQUIRE(AtomicWriteFile(file, good).ok());
      test::AnalyzeNow(path);
      ++tried;
    }
  }
  CHECK(tried >= 12 * static_cast<int>(kDamages.size()));
  test::AnalyzeNow(path);
  CHECK(directory.Problems() == "");
}

}  // namespace poolmark::quality
