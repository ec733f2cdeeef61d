// Parts of the pages: figures as texts, charts with their choices, changes as a picture, the plan.
#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "common/base/files.h"
#include "common/report/chart.h"
#include "common/report/compare.h"
#include "common/report/drawing.h"
#include "common/report/forest.h"
#include "common/report/format.h"
#include "common/report/gap_chart.h"
#include "common/report/headline.h"
#include "common/report/html.h"
#include "common/report/load_timeline.h"
#include "common/results/layout.h"
#include "tests/support/temp_dir.h"
#include "tests/unit/results/example.h"

using namespace poolmark;
using namespace poolmark::report;

namespace {

constexpr char kHostile[] = "<script>alert(1)</script>";

std::string Interval(double mean, double half, const std::string& unit) {
  results::SummaryFigure figure;
  figure.unit = unit;
  figure.mean = mean;
  figure.high = mean + half;
  figure.low = mean - half;
  return FormatInterval(figure);
}

results::SummaryComparison SetBeside(double relative, double low, double high, const std::string& verdict) {
  results::SummaryComparison one;
  one.baseline = "base";
  one.candidate = kHostile;
  one.workload = "chat";
  one.level = "c4";
  one.figure = "ttft_p50_seconds";
  one.lower_is_better = true;
  one.verdict = verdict;
  one.pairs = 3;
  one.relative = relative;
  one.low = low;
  one.high = high;
  return one;
}

Chart Bars(const std::string& name, std::optional<double> value, Mark mark = Mark::kNone) {
  Chart chart;
  chart.id = "c";
  chart.name = name;
  chart.labels = {"4 users"};
  Series series;
  series.label = kHostile;
  series.values = {value};
  series.marks = {mark};
  chart.series = {series};
  return chart;
}

size_t Count(const std::string& text, const std::string& what) {
  size_t count = 0;
  for (size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++count;
  return count;
}

}  // namespace

TEST_CASE("an interval has two digits and its mean the same places") {
  CHECK(Interval(0.2503, 0.00197, "s") == "250.3 ± 2.0 ms");
  CHECK(Interval(0.126, 0.0001, "s") == "126.0 ± 0.1 ms");
  CHECK(Interval(0.963, 1e-16, "share") == "96.30 ± 0.00 %");  // rounding is no deviation
  CHECK(Interval(10, 0, "tokens/s") == "10.0 ± 0 tokens/s");
  CHECK(Interval(1121, 177, "tokens/s") == "1,121 ± 177 tokens/s");
}

TEST_CASE("texts are cut by columns, never inside a character") {
  CHECK(Shortened("short", 5) == "short");
  CHECK(Shortened("longer", 5) == "long…");
  CHECK(Shortened("ääääää", 4) == "äää…");
}

TEST_CASE("a figure offers what has data, with a table for each") {
  const Chart chart =
      Choose("Load level", {Bars("a", 1.0), Bars("empty", std::nullopt), Bars("b", 2.0, Mark::kInvalid)});
  REQUIRE(chart.others.size() == 1);
  const std::string html = ToHtml(chart);
  CHECK(Count(html, "type=\"radio\"") == 2);
  CHECK(Count(html, "<table>") == 2);
  CHECK(html.find(kHostile) == std::string::npos);
  CHECK_THAT(html, Catch::Contains("<small class=\"bad\">invalid</small>"));
  const Json json = ToJson(chart);
  REQUIRE(json["variants"].size() == 2);
  CHECK(json["variants"][1]["series"][0]["marks"][0] == "invalid");
  CHECK_FALSE(json["variants"][0]["series"][0].contains("marks"));
  CHECK_FALSE(HasData(Choose("Load level", {Bars("empty", std::nullopt)})));
  CHECK(ToHtml(Choose("Load level", {Bars("a", 1.0)})).find("radio") == std::string::npos);
}

TEST_CASE("a change beyond the scale stays in its cell, and its figures are whole") {
  const auto far = SetBeside(3.12, 0.4, 5.8, "worse"), near = SetBeside(-0.02, -0.04, 0.0, "same");
  const std::string html = Forest("label", {&far, &near}, {true, true});
  CHECK_THAT(html, Catch::Contains("left:100.00%") && Catch::Contains("+312 %") &&
                       Catch::Contains("+40.0 % to +580 %"));
  CHECK(VerdictCounts({&far, &near}) ==
        "Better in 0, worse in 1, the same in 1, too few repeats to tell in 0.");
  auto none = SetBeside(0, 0, 0, "underpowered");
  none.relative = NotMeasured{"no pair"};
  none.pairs = 0;
  CHECK(Forest("label", {&none}, {}).empty());
}

TEST_CASE("a sentence about every point is said once") {
  results::SummaryFile summary;
  for (const char* level : {"c12", "c2"}) {
    results::SummaryPoint point;
    point.point = {"base", "chat", level};
    point.valid = true;
    point.warnings = {"Less than 300 s was measured."};
    results::SummaryRepeat one, two;
    one.repeat = 1;
    one.notes = {"data waited 1.9 ms"};
    two.repeat = 2;
    two.notes = {std::string(level) == "c2" ? "data waited 2.4 ms" : "only here"};
    point.repeats = {one, two};
    summary.points.push_back(point);
  }
  const std::string html = WorkloadConcerns("chat", summary);
  CHECK(Count(html, "Less than 300 s") == 1);
  CHECK_THAT(html, Catch::Contains("every point: Less than 300 s was measured."));
  CHECK(Count(html, "data waited") == 1);
  CHECK_THAT(html, Catch::Contains("the figures are those of the first") &&
                       Catch::Contains("base, 12 users, in repeat 2: only here"));
  CHECK(OrderedPoints(summary)[0]->point.level == "c2");
}

TEST_CASE("a plan of many links is drawn as a bus, and foreign names stay text") {
  Json plan = {{"head", "n0"}, {"machines", Json::array()}, {"stacks", Json::array()}};
  Json stack = {
      {"name", "s"}, {"processes", Json::array()}, {"tiers", Json::array()}, {"links", Json::array()}};
  for (int i = 0; i < 5; ++i) {
    const std::string name = i == 4 ? kHostile : "n" + std::to_string(i);
    plan["machines"].push_back({{"name", name}});
    stack["processes"].push_back({{"id", "s.engine"}, {"role", "engine"}, {"machine", name}});
    for (int j = 0; j < i; ++j)
      stack["links"].push_back({{"from", name}, {"to", "n" + std::to_string(j)}, {"path", "rdma"}});
  }
  plan["stacks"].push_back(stack);
  const std::string text = *DumpJson(plan);
  CHECK_THAT(DrawPlan(text, "s"), Catch::Contains("KV over rdma, 10 pairs of machines"));
  CHECK(DrawPlan(text, "s").find(kHostile) == std::string::npos);
  CHECK(PlanTable(text, "s").find(kHostile) == std::string::npos);
  CHECK(Count(PlanTable(text, "s"), "KV over rdma") == 10);
  CHECK(DrawPlan(text, "other").empty());
  for (const char* odd :
       {"", "[]", "{\"stacks\": 3}", "{\"stacks\": [{\"name\": \"s\", \"links\": [1, null]}]}",
        "{\"stacks\": [{\"name\": \"s\", \"processes\": {\"a\": 1}}]}"}) {
    INFO(odd);
    CHECK_NOTHROW(DrawPlan(odd, "s"));
  }
}

TEST_CASE("jobs of one id are told apart on the page of a comparison") {
  test::TempDir one, two;
  test::WriteExample(one.path());
  test::WriteExample(two.path());
  const auto comparison = CompareDirectories({one.path(), two.path()}, {});
  REQUIRE(comparison.ok());
  REQUIRE(comparison->candidate_jobs.size() == comparison->comparisons.size());
  const std::string page = ComparisonPage(*comparison);
  CHECK_THAT(page, Catch::Contains("B:cand against A:cand") && Catch::Contains("B:base against A:base"));
  CHECK_THAT(page, Catch::Contains("id=\"ttft-code\"") && Catch::Contains("id=\"percentiles-code\""));
}

TEST_CASE("the pooled gaps of each repeat are drawn, with checks and without") {
  test::TempDir dir;
  test::WriteExample(dir.path());
  for (const bool check : {true, false}) {
    const auto job = Recompute(dir.path(), {.check_sums = check});
    REQUIRE(job.ok());
    const Chart chart = GapChart("code", *job);
    REQUIRE(chart.series.size() == 6);  // two stacks, three repeats
    for (const Series& series : chart.series) {
      CHECK(series.points.size() == 103);
      CHECK(std::is_sorted(series.points.begin(), series.points.end()));
      CHECK(series.points.back().first == 1);
    }
    // The curve and the stored figure are of the same gaps.
    const auto& points = job->gap_curves.at("points/base/code-c4/repeat_1");
    const auto& first = *std::find_if(job->repeats.begin(), job->repeats.end(), [](const auto& repeat) {
      return results::DirectoryOf(repeat) == "points/base/code-c4/repeat_1";
    });
    CHECK(points[99].second == Approx((*first.figures.requests.itl).p99).epsilon(1.0 / 1024));
    CHECK(points[50].second == Approx((*first.figures.requests.itl).p50).epsilon(1.0 / 1024));
    CHECK_FALSE(HasData(GapChart("other", *job)));
  }
  CHECK(ReportPage(*Recompute(dir.path())).find("pooled-gaps-code") != std::string::npos);
}

TEST_CASE("the load's timeline is drawn as far as it can be read, and a long one keeps its mean") {
  test::TempDir dir;
  test::WriteExample(dir.path());
  std::string text;
  for (int second = 1; second <= 1000; ++second)
    text += R"({"t": )" + std::to_string(second) +
            R"(, "in_flight": 4, "lateness_ms": {"p99": null}, "failed": 0})"
            "\n";
  text += "[1]\nno JSON\n{\"t\": \"x\"}\n{\"t\": 10";  // odd lines, and a torn one
  for (const std::string stack : {"base", "cand"}) {
    for (const std::string repeat : {"1", "2", "3"})
      std::filesystem::remove(dir / ("points/" + stack + "/code-c4/repeat_" + repeat + "/timeline.jsonl"));
  }
  REQUIRE(AtomicWriteFile(dir / "points/cand/code-c4/repeat_1/timeline.jsonl", text).ok());
  const auto job = Recompute(dir.path());
  REQUIRE(job.ok());
  const Chart chart = LoadTimeline("code", *job);
  CHECK(chart.name == "in flight");
  REQUIRE(chart.series.size() == 1);  // the other repeats have none
  CHECK(chart.series[0].points.size() <= 120);
  for (const auto& [x, y] : chart.series[0].points) CHECK(y == Approx(4));
  REQUIRE(chart.others.size() == 1);  // failed; a lateness that was not measured is no zero
  CHECK(chart.others[0].name == "failed so far");
  CHECK_FALSE(HasData(LoadTimeline("other", *job)));
}
