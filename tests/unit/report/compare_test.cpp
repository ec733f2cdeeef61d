// What `poolmark compare` takes for the same, what it names, and that it never passes a part for the whole.
#include "common/report/compare.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>

#include "common/base/files.h"
#include "common/results/sums.h"
#include "tests/support/temp_dir.h"
#include "tests/unit/results/example.h"

namespace poolmark::report {
namespace {

using test::TempDir;

// The example with one workload of those settings.
JobComparison Compared(const std::string& shape, const std::string& first, const std::string& other) {
  TempDir one, two;
  for (const auto& [dir, settings] : {std::pair{&one, &first}, {&two, &other}}) {
    test::WriteExample(dir->path());
    auto job = test::ExampleJob();
    job.workloads.at(0).options = "{\"shape\":\"" + shape + "\"," + *settings + "}";
    REQUIRE(AtomicWriteFile(*dir / "job.json", *results::Encode(job)).ok());
    REQUIRE(results::WriteSums(dir->path()).ok());
  }
  auto out = CompareDirectories({one.path(), two.path()}, {});
  INFO(out.status().ToString());
  REQUIRE(out.ok());
  return *std::move(out);
}

JobComparison Compared(const TempDir& one, const TempDir& two) {
  auto out = CompareDirectories({one.path(), two.path()}, {});
  INFO(out.status().ToString());
  REQUIRE(out.ok());
  return *std::move(out);
}

}  // namespace

TEST_CASE("settings of every shape are compared by what they mean", "[M26]") {
  struct Case {
    std::string shape, first, other;
  };
  const std::string sessions = R"("sessions":8,"turns":2,"input":32,"output":8)";
  for (const Case& one : {
           Case{"trace", R"("file":"a.jsonl","format":"mooncake","token_scale":"1/64")",
                R"("file":"b/a.jsonl","format":"mooncake","token_scale":"2/128","seed":42)"},
           Case{"trace", R"("file":"a.jsonl","format":"mooncake","token_scale":0.5)",
                R"("file":"a.jsonl","format":"mooncake","token_scale":"1/2","api":"completions")"},
           Case{
               "agentic", R"("file":"a.jsonl","load_duration":"20m","think_cap":"2s")",
               R"("file":"a.jsonl","load_duration":"1200s","warm_up":"5m","think_cap":"2000ms","model":"m")"},
           Case{"synthetic", sessions + R"(,"arrivals":"gamma","cv":2)",
                sessions + R"(,"arrivals":"gamma","cv":2.0,"think":"0s")"},
           Case{"synthetic", sessions + R"(,"arrivals":"poisson","users":4)",
                sessions + R"(,"users":4,"seed":42)"},
           Case{"shared-prompt", sessions + R"(,"prefix":64)", sessions + R"(,"prefix":64,"growth":32)"},
       }) {
    INFO(one.shape << " " << one.first << " and " << one.other);
    const auto comparison = Compared(one.shape, one.first, one.other);
    INFO(ComparisonText(comparison));
    CHECK_FALSE(comparison.refused());
    CHECK_FALSE(comparison.comparisons.empty());
  }
}

TEST_CASE("a setting of another meaning refuses the comparison, once and by name", "[M26]") {
  struct Case {
    std::string shape, first, other, what;
  };
  const std::string trace = R"("file":"a.jsonl","format":"mooncake")";
  for (const Case& one : {
           Case{"trace", trace + R"(,"token_scale":"1/64")", trace,
                "workload code: token_scale is 1 (default), in the first it is \"1/64\""},
           Case{"trace", trace, trace + R"(,"seed":43)",
                "workload code: seed is 43, in the first it is 42 (default)"},
           Case{"trace", trace + R"(,"seed":43)", trace,
                "workload code: seed is 42 (default), in the first it is 43"},
           // Called as in the tables.
           Case{"trace", trace + R"(,"token_scale":"1/64","seed":43)", trace + R"(,"token_scale":"2/128")",
                "workload code@1/64: seed is 42 (default), in the first it is 43"},
           Case{"trace", trace + R"(,"limit":9)", trace,
                "workload code: limit is (nothing), in the first it is 9"},
           Case{"trace", trace + R"(,"seed":42)", trace + R"(,"seed":43)",
                "workload code: seed is 43, in the first it is 42"},
           Case{"agentic", R"("file":"a.jsonl")", R"("file":"a.jsonl","time_scale":0.1)",
                "workload code: time_scale is 0.1, in the first it is 1 (default)"},
           Case{"synthetic", R"("input":32,"output":8,"arrivals":"constant")", R"("input":32,"output":8)",
                "workload code: arrivals is poisson (default), in the first it is \"constant\""},
           // Settings that no version of ours knows count as they are written.
           Case{"trace", trace + R"(,"later":1)", trace + R"(,"later":2)",
                "workload code: later is 2, in the first it is 1"},
       }) {
    const auto comparison = Compared(one.shape, one.first, one.other);
    INFO(ComparisonText(comparison));
    CHECK(comparison.refused());
    CHECK_THAT(ComparisonText(comparison), Catch::Contains(one.what));
    CHECK(std::count_if(comparison.unlike.begin(), comparison.unlike.end(),
                        [](const Unlike& unlike) { return unlike.refuses; }) == 1);
  }
}

TEST_CASE("test points that only one job has are named, and the others compared", "[M26][I8]") {
  TempDir one, two;
  test::WriteExample(one.path());
  test::WriteExample(two.path());
  CHECK_THAT(ComparisonText(Compared(one, two)), !Catch::Contains("not compared"));
  const auto same = Compared(one, two);
  CHECK(same.complete);
  CHECK(std::none_of(same.comparisons.begin(), same.comparisons.end(),
                     [](const auto& each) { return each.verdict == "worse"; }));
  std::filesystem::remove_all(two / "points/cand");
  auto comparison = Compared(one, two);
  CHECK_FALSE(comparison.refused());
  CHECK_FALSE(comparison.complete);
  CHECK_FALSE(comparison.comparisons.empty());
  CHECK_THAT(ComparisonText(comparison),
             Catch::Contains("differs: not compared: cand code-c4 (in " + one.path() + " only)\n"));
  CHECK_THAT(*ComparisonJson(comparison), Catch::Contains("cand code-c4"));
  CHECK_THAT(ComparisonPage(comparison),
             Catch::Contains("Test points without a counterpart are not compared. "
                             "In the first only: cand code-c4;"));
  // The other way round.
  comparison = Compared(two, one);
  CHECK_FALSE(comparison.refused());
  CHECK_FALSE(comparison.complete);
  CHECK_THAT(ComparisonText(comparison),
             Catch::Contains("differs: not compared: cand code-c4 (in " + one.path() + " only)\n"));
}

TEST_CASE("what is said of test points calls a scaled workload as the tables do", "[M21][M26]") {
  TempDir one, two;
  const auto write = [](const TempDir& dir) {
    test::WriteExample(dir.path());
    auto job = test::ExampleJob();
    job.workloads.at(0).options =
        R"({"shape":"trace","file":"a.jsonl","format":"mooncake","token_scale":"1/64"})";
    REQUIRE(AtomicWriteFile(dir / "job.json", *results::Encode(job)).ok());
  };
  write(one);
  write(two);
  for (const char* repeat : {"1", "2", "3"}) {
    const std::string file = two / "points/cand/code-c4/repeat_" + repeat + "/repeat.json";
    auto read = results::DecodeRepeat(*ReadFile(file), file);
    REQUIRE(read.ok());
    read->facts.evidence.clocks.clear();
    REQUIRE(AtomicWriteFile(file, *results::Encode(*read)).ok());
  }
  CHECK_THAT(ComparisonText(Compared(one, two)), Catch::Contains("nothing is compared: cand code@1/64-c4\n"));
  std::filesystem::remove_all(two / "points/cand");
  const std::string text = ComparisonText(Compared(one, two));
  CHECK_THAT(text, Catch::Contains("differs: not compared: cand code@1/64-c4 (in "));
  CHECK_THAT(text, Catch::Contains("job-1:base code@1/64-c4"));
  CHECK_THAT(text, !Catch::Contains("cand code-c4"));
}

TEST_CASE("a point whose repeats cannot be paired is named", "[M26][I8]") {
  TempDir one, two;
  test::WriteExample(one.path());
  test::WriteExample(two.path());
  for (const char* repeat : {"1", "2", "3"}) {
    const std::string file = two / "points/cand/code-c4/repeat_" + repeat + "/repeat.json";
    auto read = results::DecodeRepeat(*ReadFile(file), file);
    REQUIRE(read.ok());
    read->facts.evidence.clocks.clear();
    REQUIRE(AtomicWriteFile(file, *results::Encode(*read)).ok());
  }
  const auto comparison = Compared(one, two);
  CHECK_FALSE(comparison.complete);
  const std::string text = ComparisonText(comparison);
  CHECK_THAT(text,
             Catch::Contains("note: " + two.path() +
                             ": no pair of valid repeats, so that nothing is compared: cand code-c4\n"));
  CHECK_THAT(text, Catch::Contains("job-1:base code-c4"));
}

TEST_CASE("a refused comparison names the files that cannot be read", "[M26][I8]") {
  TempDir whole, cut;
  test::WriteExample(whole.path());
  test::WriteExample(cut.path());
  for (const char* stack : {"base", "cand"}) {
    for (const char* repeat : {"1", "2", "3"}) {
      const std::string file = cut / "points/" + stack + "/code-c4/repeat_" + repeat + "/repeat.json";
      REQUIRE(AtomicWriteFile(file, ReadFile(file)->substr(0, 100)).ok());
    }
  }
  const std::string none = "no stack, workload and load level in common: ";
  const std::string all = " has the test points base code-c4, cand code-c4";
  for (const bool cut_first : {false, true}) {
    const auto comparison = cut_first ? Compared(cut, whole) : Compared(whole, cut);
    CHECK(comparison.refused());
    CHECK(comparison.damaged);
    const std::string text = ComparisonText(comparison);
    for (const char* file : {"base/code-c4/repeat_1", "cand/code-c4/repeat_3"})
      CHECK_THAT(text, Catch::Contains("note: " + cut.path() + ": points/" + file + "/repeat.json: "));
    CHECK_THAT(
        text, Catch::Contains(cut_first ? none + cut.path() + " has the test points (none), " + whole.path() +
                                              " has base code-c4, cand code-c4\n"
                                        : none + whole.path() + all + ", " + cut.path() + " has (none)\n"));
    CHECK_THAT(text, Catch::Contains("refused: the results cannot be compared\n"));
    CHECK_THAT(ComparisonPage(comparison), Catch::Contains("repeat_1/repeat.json"));
  }
}

}  // namespace poolmark::report
