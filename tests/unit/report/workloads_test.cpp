// What the load of a job was: in every name its token scale, its settings, and in what it is no true replay.
#include "common/report/workloads.h"

#include <catch2/catch.hpp>

#include "common/base/digest.h"
#include "common/base/files.h"
#include "common/report/html.h"
#include "common/report/load_report.h"
#include "common/report/text.h"
#include "common/results/sums.h"
#include "tests/support/temp_dir.h"
#include "tests/unit/report/edited.h"
#include "tests/unit/results/example.h"

namespace poolmark::report {
namespace {

using test::TempDir;

constexpr char kScaled[] =
    R"({"shape":"agentic","file":"code.jsonl","token_scale":"1/64","time_scale":0.1,"think_cap":"2s","start":[0.2,0.5]})";

void Write(const TempDir& dir, const std::string& options, const std::string& scale) {
  test::WriteExample(dir.path());
  auto job = test::ExampleJob();
  job.workloads.at(0).options = options;
  job.workloads.at(0).token_scale = scale;
  job.workloads.at(0).input_sha256 = std::string(64, 'a');
  REQUIRE(AtomicWriteFile(dir / "job.json", *results::Encode(job)).ok());
  REQUIRE(results::WriteSums(dir.path()).ok());
}

Recomputed Judged(const TempDir& dir) {
  auto job = Recompute(dir.path());
  INFO(job.status().ToString());
  REQUIRE(job.ok());
  return *std::move(job);
}

// The words that stand for a name without its scale.
size_t Bare(const std::string& text) {
  size_t count = 0;
  for (const char* name : {", code, ", " code-c4", "code (", ">code<", ">code <"}) {
    for (size_t at = text.find(name); at != std::string::npos; at = text.find(name, at + 1)) ++count;
  }
  return count;
}

}  // namespace

TEST_CASE("a scenario has its token scale wherever it is named", "[M21]") {
  TempDir plain, scaled;
  Write(plain, R"({"shape":"agentic","file":"code.jsonl"})", "1");
  Write(scaled, kScaled, "1/64");
  const Recomputed whole = Judged(plain), job = Judged(scaled);
  CHECK(job.differences.empty());
  for (const auto& text : {ReportText(whole), ReportPage(whole)}) {
    CHECK_THAT(text, !Catch::Contains("code@"));
    CHECK(Bare(text) > 0);
  }
  const std::string text = ReportText(job), page = ReportPage(job);
  CHECK_THAT(text, Catch::Contains("base code@1/64-c4") && Catch::Contains("workload code@1/64: agentic"));
  CHECK(Bare(text) == 0);
  CHECK_THAT(page, Catch::Contains("<h3>code@1/64 <small>agentic</small></h3>") &&
                       Catch::Contains("base, code@1/64, 4 users") &&
                       Catch::Contains("code@1/64 (agentic) at 4 users") &&
                       Catch::Contains("code@1/64, 4 users, repeat 1"));
  CHECK(Bare(page) == 0);
  // Files are found by the stored name.
  for (const char* chart : {"id=\"pooled-gaps-code_401_2f64\"", "id=\"load-code_401_2f64\"",
                            "id=\"ttft-code_401_2f64\"", "id=\"percentiles-code_401_2f64\""})
    CHECK_THAT(page, Catch::Contains(chart));
  // What is written for programs has the names of the files.
  CHECK_THAT(*ReportJson(job), !Catch::Contains("code@"));

  const auto comparison = CompareDirectories({scaled.path(), scaled.path()}, {});
  REQUIRE(comparison.ok());
  CHECK_THAT(ComparisonText(*comparison), Catch::Contains("job-1:base code@1/64-c4"));
  CHECK(Bare(ComparisonText(*comparison)) == 0);
  const std::string both = ComparisonPage(*comparison);
  CHECK_THAT(both, Catch::Contains("B:base, code@1/64, 4 users") &&
                       Catch::Contains("id=\"ttft-code_401_2f64\"") &&
                       Catch::Contains("Think times are 0.1 times those that were recorded."));
  CHECK(Bare(both) == 0);
}

TEST_CASE("the report says what the workload was, and beside the figures in what it was changed",
          "[M20][M21][I8]") {
  TempDir dir;
  Write(dir, kScaled, "1/64");
  const Recomputed job = Judged(dir);
  const std::string text = ReportText(job), page = ReportPage(job);
  CHECK_THAT(text, Catch::Contains("workload code@1/64: agentic, file code.jsonl, load_duration 20m, warm_up "
                                   "5m, think recorded, think_cap 2s, time_scale 0.1, start [0.2, 0.5], "
                                   "token_scale 1/64, seed 42, ") &&
                       Catch::Contains("(SHA-256 " + std::string(64, 'a') + ")"));
  CHECK_THAT(text,
             Catch::Contains("note: code@1/64: Think times are 0.1 times those that were recorded.\n") &&
                 Catch::Contains("note: code@1/64: Think times are cut at 2s.\n"));
  const size_t results = page.find("<section id=\"results\""), glance = page.find("<section id=\"glance\"");
  const size_t beside = page.find("Think times are 0.1 times those that were recorded.");
  CHECK((results < beside && beside < glance));
  for (const char* row : {"<th scope=\"row\">time_scale</th><td>0.1</td><td>job file</td>",
                          "<th scope=\"row\">start</th><td>[0.2, 0.5]</td><td>job file</td>",
                          "<th scope=\"row\">warm_up</th><td>5m</td><td>default</td>",
                          "<th scope=\"row\">seed</th><td>42</td><td>default</td>",
                          "<th scope=\"row\">load levels</th><td>4 users</td><td>job file</td>"})
    CHECK_THAT(page, Catch::Contains(row));
  CHECK_THAT(page, Catch::Contains(std::string(64, 'a')));
}

TEST_CASE("a load without a job says in what it is not its file, too", "[M20][M21]") {
  test::Edited example;
  const std::string repeat = example.path() + "/points/base/code-c4/repeat_1";
  for (const bool scaled : {false, true}) {
    if (scaled)
      example.Edit("points/base/code-c4/repeat_1/load.json",
                   [](Json& json) { json["load"]["workload"] = *ParseJson(kScaled); });
    const auto report = ReadLoadReport(repeat);
    INFO(report.status().ToString());
    REQUIRE(report.ok());
    const std::string line = "Think times are 0.1 times those that were recorded.";
    CHECK((LoadReportText(*report).find("note: " + line + "\n") != std::string::npos) == scaled);
    const std::string page = LoadPage(*report);
    CHECK((page.find(kScaledLoad) != std::string::npos) == scaled);
    CHECK((page.find("<li>" + line) != std::string::npos) == scaled);
  }
}

TEST_CASE("a token scale that job.json tells wrongly is found, and the one that was used is shown",
          "[M21][I8]") {
  TempDir dir;
  Write(dir, R"({"shape":"agentic","file":"code.jsonl","token_scale":0.5})", "1");
  const Recomputed job = Judged(dir);
  const std::string text = ReportText(job);
  CHECK_THAT(text, Catch::Contains("differs: job.json: workloads[0].token_scale is 1, computed again 1/2"));
  CHECK_THAT(text, Catch::Contains("base code@1/2-c4"));
  Write(dir, R"({"shape":"agentic","file":"code.jsonl","token_scale":"2/4"})", "2/4");
  CHECK(Judged(dir).differences.empty());
}

TEST_CASE("settings that cannot be read are said to be so, and markup in them stays text", "[J6]") {
  TempDir dir;
  for (const char* options : {"", "{", "[]", R"({"shape":"<b>odd</b>"})",
                              R"({"shape":"agentic","file":"<img src=x onerror=alert(1)>"})"}) {
    INFO(options);
    Write(dir, options, "1/8");
    const Recomputed job = Judged(dir);
    const std::string page = ReportPage(job);
    CHECK_THAT(page, !Catch::Contains("<img src=x") && !Catch::Contains("<b>odd"));
    const bool known = std::string(options).find("img") != std::string::npos;
    CHECK((page.find("The settings cannot be read") != std::string::npos) == !known);
    CHECK((ReportText(job).find("its settings cannot be read") != std::string::npos) == !known);
    // What job.json says is then all that is known.
    CHECK((page.find("code@1/8") != std::string::npos) == !known);
  }
}

}  // namespace poolmark::report
