// A results directory judged again from its files, and the pages.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "common/base/files.h"
#include "common/report/charts.h"
#include "common/report/compare.h"
#include "common/report/html.h"
#include "common/report/sections.h"
#include "common/report/text.h"
#include "common/results/cycle_files.h"
#include "common/results/figures.h"
#include "common/results/layout.h"
#include "common/results/sums.h"
#include "tests/support/temp_dir.h"
#include "tests/unit/results/example.h"

using namespace poolmark;
using namespace poolmark::report;
using poolmark::test::TempDir;

namespace {

Recomputed Again(const std::string& directory) {
  auto job = Recompute(directory);
  INFO(job.status().ToString());
  REQUIRE(job.ok());
  return std::move(*job);
}

void Replace(const std::string& path, const std::string& from, const std::string& to) {
  std::string text = *ReadFile(path);
  const size_t at = text.find(from);
  REQUIRE(at != std::string::npos);
  text.replace(at, from.size(), to);
  REQUIRE(AtomicWriteFile(path, text).ok());
}

}  // namespace

TEST_CASE("an untouched directory follows from its files", "[J6]") {
  TempDir dir;
  test::WriteExample(dir.path());
  REQUIRE(results::WriteSums(dir.path()).ok());
  const auto job = Again(dir.path());
  for (const auto& one : job.differences)
    INFO(one.file + " " + one.path + " " + one.stored + " " + one.computed);
  CHECK(job.differences.empty());
  CHECK(job.problems.empty());
  CHECK(job.summary.verdict == "VALID");
  CHECK_THAT(ReportText(job), Catch::Contains("Measured over 15 min after a 5 min warm-up") &&
                                  Catch::Contains("Every stored figure"));
}

TEST_CASE("pages that were written later are no problem, other files of the result's directories are",
          "[J6]") {
  test::TempDir dir;
  test::WriteExample(dir.path());
  REQUIRE(results::WriteSums(dir.path()).ok());
  const auto listed = *ListTree(dir.path());
  const auto repeat = std::find_if(listed.begin(), listed.end(),
                                   [](const std::string& path) { return path.ends_with("/repeat.json"); });
  REQUIRE(repeat != listed.end());
  const std::string beside = dir / repeat->substr(0, repeat->rfind('/'));
  REQUIRE(AtomicWriteFile(beside + "/report.html", "a load's own page").ok());
  CHECK(Recompute(dir.path())->problems.empty());
  REQUIRE(AtomicWriteFile(beside + "/other.json", "{}").ok());
  REQUIRE(Recompute(dir.path())->problems.size() == 1);
  CHECK(Recompute(dir.path())->problems[0].path.ends_with("/other.json"));
}

TEST_CASE("the text names the engines' own caches where there is no GPU", "[B1]") {
  TempDir dir;
  test::WriteExample(dir.path());
  auto job = Again(dir.path());
  CHECK_THAT(ReportText(job), Catch::Contains(" GPU ") && !Catch::Contains("engine cache"));
  job.summary.points[0].engine_cache = true;
  CHECK_THAT(ReportText(job), Catch::Contains("GPU or engine cache"));
  for (auto& point : job.summary.points) point.engine_cache = true;
  CHECK_THAT(ReportText(job), Catch::Contains("engine cache") && !Catch::Contains("GPU"));
}

TEST_CASE("the text gives changes with their sign", "[E13]") {
  TempDir dir;
  test::WriteExample(dir.path());
  CHECK_THAT(ReportText(Again(dir.path())), Catch::Contains("+75.0 %") && Catch::Contains("-49.6 %"));
}

TEST_CASE("the text says which points a measured line belongs to, where they differ", "[H10]") {
  TempDir dir;
  test::WriteExample(dir.path());
  auto job = Again(dir.path());
  CHECK_THAT(ReportText(job), Catch::Contains("\nMeasured over 15 min after a 5 min warm-up\n"));
  job.summary.points[1].measured_line = "Measured over the whole run";
  CHECK_THAT(ReportText(job), Catch::Contains("Measured over 15 min after a 5 min warm-up: base code-c4\n") &&
                                  Catch::Contains("Measured over the whole run: cand code-c4\n"));
}

TEST_CASE("an edited figure, an edited verdict and an edited summary are found", "[I8]") {
  TempDir dir;
  test::WriteExample(dir.path());
  REQUIRE(results::WriteSums(dir.path()).ok());
  const std::string repeat = dir / "points/cand/code-c4/repeat_1/repeat.json";
  Replace(repeat, "\"output_tokens\": 9000.0", "\"output_tokens\": 9999.0");
  auto job = Again(dir.path());
  REQUIRE_FALSE(job.differences.empty());
  CHECK(job.differences[0].path == "figures.requests.output_tokens");
  CHECK(job.differences[0].computed == "9000.0");
  REQUIRE(job.problems.size() == 1);
  CHECK_THAT(job.problems[0].message, Catch::Contains("SHA-256 differs"));
  Replace(dir / "summary.json", "\"verdict\": \"VALID\"", "\"verdict\": \"INVALID\"");
  job = Again(dir.path());
  CHECK(job.summary.verdict == "VALID");
}

TEST_CASE("evidence decides the verdict, whatever is stored", "[I1][I8]") {
  TempDir dir;
  test::WriteExample(dir.path());
  for (int repeat = 1; repeat <= 3; ++repeat) {
    Replace(dir / ("points/cand/code-c4/repeat_" + std::to_string(repeat) + "/repeat.json"),
            "\"seconds\": 0.5", "\"seconds\": 14.2");
  }
  const auto job = Again(dir.path());
  CHECK(job.summary.verdict == "INVALID");
  const std::string page = ReportPage(job);
  CHECK_THAT(page,
             Catch::Contains("a machine stopped responding during the job (n2: nothing heard for 14.2 s"));
  CHECK_THAT(page, Catch::Contains("diagnostics, never results"));
}

TEST_CASE("truncated requests at any byte are named, the rest still counts", "[C28]") {
  TempDir dir;
  test::WriteExample(dir.path());
  const std::string path = dir / "points/base/code-c4/repeat_2/requests.jsonl.zst";
  const std::string whole = *ReadFile(path);
  for (const size_t cut : {size_t{0}, size_t{3}, whole.size() / 2, whole.size() - 1}) {
    REQUIRE(AtomicWriteFile(path, whole.substr(0, cut)).ok());
    const auto job = Again(dir.path());
    const bool named = std::any_of(job.problems.begin(), job.problems.end(), [](const auto& problem) {
      return problem.path.find("repeat_2/requests") != std::string::npos;
    });
    const bool differs = !job.differences.empty();
    INFO("cut at " << cut);
    CHECK((named || differs));
    CHECK(job.repeats.size() == 6);
  }
}

TEST_CASE("the page holds everything it needs and asks the network for nothing", "[I8][J6]") {
  TempDir dir;
  test::WriteExample(dir.path());
  const auto job = WriteReport(dir.path(), {false});
  REQUIRE(job.ok());
  const std::string page = *ReadFile(dir / "report.html");
  CHECK_THAT(page, Catch::Contains("Measured over 15 min after a 5 min warm-up"));
  CHECK_THAT(page, Catch::Contains("Chart.js v3.9.1"));
  CHECK(page.find("src=\"http") == std::string::npos);
  CHECK(page.find("<link rel=\"stylesheet\"") == std::string::npos);
  CHECK_THAT(page, Catch::Contains("default-src 'none'"));
  for (const char* id : {"ttft-code", "throughput-code", "sources-code", "captured-code", "curve-code",
                         "percentiles-code", "gaps-code", "time-code", "slo-mlperf-llama2-70b-code"}) {
    INFO(id);
    CHECK_THAT(page, Catch::Contains("<canvas id=\"" + std::string(id) + "-canvas\""));
  }
  CHECK_THAT(page, Catch::Contains("KV travels from n2 to n1 over tcp"));
  // For looking at it in a browser.
  if (const char* out = std::getenv("POOLMARK_KEEP_REPORT")) REQUIRE(AtomicWriteFile(out, page).ok());
}

TEST_CASE("names in files cannot break out of the page", "[J6]") {
  TempDir dir;
  test::WriteExample(dir.path());
  Replace(dir / "job.json", "\"reason\": \"\"",
          R"("reason": "</script><script>alert(1)</script><img src=x onerror=alert(2)>")");
  const std::string page = ReportPage(Again(dir.path()));
  CHECK(page.find("<script>alert") == std::string::npos);
  CHECK(page.find("<img src=x") == std::string::npos);
}

TEST_CASE("comparison refuses what is not comparable and names it", "[M26]") {
  TempDir one, two;
  test::WriteExample(one.path());
  test::WriteExample(two.path());
  auto out = CompareDirectories({one.path(), two.path()}, {});
  REQUIRE(out.ok());
  CHECK_FALSE(out->refused());
  REQUIRE_FALSE(out->comparisons.empty());
  for (const auto& comparison : out->comparisons)
    CHECK((comparison.verdict == "same" || !comparison.relative.has_value()));
  auto job = test::ExampleJob();
  job.starting_state = "warm";
  job.workloads.at(0).options = R"({"shape":"agentic","file":"inputs/code.jsonl","token_scale":"1/32"})";
  job.workloads.at(0).token_scale = "1/32";
  REQUIRE(AtomicWriteFile(two / "job.json", *results::Encode(job)).ok());
  out = CompareDirectories({one.path(), two.path()}, {});
  REQUIRE(out.ok());
  CHECK(out->refused());
  CHECK(out->comparisons.empty());
  const std::string text = ComparisonText(*out);
  CHECK_THAT(text, Catch::Contains("starting_state is warm, in the first it is empty"));
  CHECK_THAT(text, Catch::Contains("workload code: token_scale is \"1/32\""));
  CHECK_THAT(ComparisonPage(*out), Catch::Contains("cannot be compared"));
  CHECK_FALSE(CompareDirectories({one.path()}, {}).ok());
}

TEST_CASE("comparison takes settings for what they mean", "[M26]") {
  TempDir one, two;
  const auto with = [](const TempDir& dir, const std::string& options) {
    test::WriteExample(dir.path());
    auto job = test::ExampleJob();
    job.workloads.at(0).options = options;
    REQUIRE(AtomicWriteFile(dir / "job.json", *results::Encode(job)).ok());
  };
  const std::string base = R"({"shape":"synthetic","sessions":8,"turns":2,"input":32,"output":8)";
  with(one, base + R"(,"think":"50ms"})");
  with(two, base + R"(,"think":"0.05s","seed":42,"groups":1})");
  auto out = CompareDirectories({one.path(), two.path()}, {});
  REQUIRE(out.ok());
  CHECK_FALSE(out->refused());
  with(two, base + R"(,"think":"50ms","groups":2})");
  out = CompareDirectories({one.path(), two.path()}, {});
  REQUIRE(out.ok());
  CHECK(out->refused());
  CHECK_THAT(ComparisonText(*out),
             Catch::Contains("workload code: groups is 2, in the first it is 1 (default)"));
}

TEST_CASE("goodput under other limits of the same name is not compared", "[M26][E6]") {
  TempDir one, two;
  test::WriteExample(one.path());
  test::WriteExample(two.path());
  for (const char* stack : {"base", "cand"}) {
    for (const char* repeat : {"1", "2", "3"}) {
      const std::string file = two / "points/" + stack + "/code-c4/repeat_" + repeat + "/repeat.json";
      auto read = results::DecodeRepeat(*ReadFile(file), file);
      REQUIRE(read.ok());
      REQUIRE_FALSE(read->facts.slos.empty());
      for (auto& slo : read->facts.slos) slo.ttft_seconds = 0.011;
      REQUIRE(AtomicWriteFile(file, *results::Encode(*read)).ok());
    }
  }
  const auto goodput = [](const JobComparison& comparison) {
    return std::count_if(comparison.comparisons.begin(), comparison.comparisons.end(),
                         [](const auto& figure) { return figure.figure.starts_with("goodput"); });
  };
  const auto same = CompareDirectories({one.path(), one.path()}, {});
  REQUIRE(same.ok());
  CHECK(goodput(*same) > 0);
  const auto out = CompareDirectories({one.path(), two.path()}, {});
  REQUIRE(out.ok());
  CHECK_FALSE(out->refused());
  CHECK_FALSE(out->comparisons.empty());
  CHECK(goodput(*out) == 0);
  CHECK_THAT(ComparisonText(*out), Catch::Contains("limits of ") && Catch::Contains("TTFT 11.0 ms"));
}

namespace {
const results::SummaryPoint* Marked(const std::vector<results::SummaryPoint>& points) {
  for (const auto& point : points)
    if (point.client_limited) return &point;
  return nullptr;
}
}  // namespace

TEST_CASE("figures that include the load generator's own delay are marked", "[H8]") {
  TempDir dir;
  test::WriteExample(dir.path());
  CHECK_THAT(ReportText(Again(dir.path())), !Catch::Contains("load generator's own delay"));
  const std::string repeat = dir / "points/cand/code-c4/repeat_1/repeat.json";
  Replace(repeat, "\"client_limited\": false", "\"client_limited\": true");
  const auto job = Again(dir.path());
  CHECK_THAT(ReportText(job), Catch::Contains("* includes the load generator's own delay"));
  const std::string page = ReportPage(job);
  CHECK_THAT(page, Catch::Contains("client too slow: latencies marked *") &&
                       Catch::Contains("* includes the load generator's own delay"));
  // Charts of latencies mark that stack's values and curves; those of throughput and reuse mark nothing.
  std::string starred;
  for (const Chart& chart : ChartsOf("code", job.summary, job.repeats)) {
    bool any = false;
    for (const Series& series : chart.series) {
      const bool has =
          std::find(series.own_delay.begin(), series.own_delay.end(), true) != series.own_delay.end();
      CHECK_FALSE((has && series.label.starts_with("base")));
      any = any || has;
    }
    CHECK(any == (ToHtml(chart).find(kOwnDelay) != std::string::npos));
    if (any) starred += chart.id.substr(0, chart.id.find('-')) + " ";
  }
  CHECK(starred == "ttft percentiles gaps slo others ");
  for (const auto& point : job.summary.points) {
    CHECK(point.client_limited == (point.point.stack == "cand"));
    CHECK(IsMarked(point, "ttft_p50_seconds") == point.client_limited);
    CHECK_FALSE(IsMarked(point, "output_tokens_per_second"));
  }
  // A change is marked where one of its two means is, and the throughput's is not.
  const std::string own_delay = "* a mean of this change includes the load generator's own delay";
  CHECK_THAT(page, Catch::Contains(own_delay));
  size_t marked = 0;
  for (const auto& one : job.summary.comparisons) {
    CHECK(IsMarked(job.summary.points, one) == IsMarked(*Marked(job.summary.points), one.figure));
    marked += IsMarked(job.summary.points, one);
  }
  CHECK(marked > 0);
  CHECK(marked < job.summary.comparisons.size());
  TempDir other;
  test::WriteExample(other.path());
  const auto compared = CompareDirectories({other.path(), dir.path()}, {});
  REQUIRE(compared.ok());
  REQUIRE_FALSE(compared->refused());
  const auto json = ParseJson(*ComparisonJson(*compared));
  REQUIRE(json.ok());
  REQUIRE((*json)["comparisons"].size() == compared->comparisons.size());
  for (size_t i = 0; i < compared->comparisons.size(); ++i) {
    const auto& one = compared->comparisons[i];
    CHECK((*json)["comparisons"][i]["figure"] == one.figure);
    CHECK((*json)["comparisons"][i]["own_delay"] == IsMarked(*compared, i));
    INFO(one.candidate << " " << one.figure);
    CHECK(IsMarked(*compared, i) ==
          (one.candidate.ends_with(":cand") && one.figure.find("tokens_per_second") == std::string::npos &&
           IsMarked(*Marked(job.summary.points), one.figure)));
  }
  CHECK_THAT(ComparisonText(*compared), Catch::Contains("note: " + own_delay) &&
                                            Catch::Contains(results::TitleOf("ttft_p50_seconds") + " *"));
  CHECK_THAT(ComparisonPage(*compared), Catch::Contains(own_delay));
  const auto clean = CompareDirectories({other.path(), other.path()}, {});
  REQUIRE(clean.ok());
  CHECK_THAT(ComparisonText(*clean), !Catch::Contains("own delay"));
  // load.json of that repeat says that it was fast enough.
  CHECK_THAT(ReportText(job), Catch::Contains("facts.client_limited"));
}

TEST_CASE("names that differ in a sign alone have charts of their own") {
  CHECK(IdOf("mix-1") == "mix-1");
  CHECK(IdOf("mix.1") == "mix_2e1");
  CHECK(IdOf("mix_1") == "mix_5f1");
  CHECK(IdOf("mix_2e1") != IdOf("mix.1"));
}

TEST_CASE("comparison names other networks, memory and stacks", "[M26]") {
  TempDir one, two;
  for (const TempDir* dir : {&one, &two}) {
    test::WriteExample(dir->path());
    const bool first = dir == &one;
    auto manifest = test::ExampleManifest();
    for (auto& machine : manifest.machines) {
      machine.memory_bytes = (first ? 512ull : 256ull) << 30;
      machine.nics = {{"mlx5_0", "mlx5_core", "", "up", first ? 400000 : 100000, 9000, true},
                      {"veth1", "veth", "", "up", first ? 10000 : 20000, 1500, false},
                      {"eth0", "virtio_net", "", "up", std::nullopt, 1500, false}};
    }
    REQUIRE(AtomicWriteFile(*dir / "manifest.json", *results::Encode(manifest)).ok());
    results::PreflightRecord preflight;
    results::LineRate rate;
    rate.path = "tcp";
    rate.bits_per_second = first ? 9e10 : 4e10;
    preflight.line_rates = {rate};
    rate.path = "rdma";
    rate.bits_per_second = first ? 3.9e11 : 3.8e11;  // the same again
    preflight.line_rates.push_back(rate);
    REQUIRE(AtomicWriteFile(*dir / "preflight.json", *results::Encode(preflight)).ok());
    auto job = test::ExampleJob();
    if (!first) {
      job.stacks[0].strategy = "shared";
      job.stacks[0].digest = "cc";
      job.stacks[0].path = "rdma";
      job.stacks[0].simulated = true;
    }
    REQUIRE(AtomicWriteFile(*dir / "job.json", *results::Encode(job)).ok());
  }
  const std::string repeat = two / "points/base/code-c4/repeat_1/repeat.json";
  Replace(repeat, "\"block_tokens\": 16", "\"block_tokens\": 64");
  auto out = CompareDirectories({one.path(), two.path()}, {});
  REQUIRE(out.ok());
  CHECK(out->refused());
  std::string text = ComparisonText(*out);
  CHECK_THAT(text,
             Catch::Contains("cannot be compared: ") && Catch::Contains("256 GiB") &&
                 Catch::Contains("network cards is 1 x 100 Gbit/s mlx5_core with RDMA, "
                                 "1 x 100 Gbit/s mlx5_core with RDMA, in the first it is 1 x 400 Gbit/s"));
  CHECK_THAT(text, !Catch::Contains("veth") && !Catch::Contains("virtio"));
  CompareOptions allow;
  allow.allow_machines = true;
  out = CompareDirectories({one.path(), two.path()}, allow);
  REQUIRE(out.ok());
  CHECK_FALSE(out->refused());
  CHECK_FALSE(out->comparisons.empty());
  text = ComparisonText(*out);
  for (const char* line : {"network cards is 1 x 100 Gbit/s",
                           "line rate over tcp is 40.0 Gbit/s, in the first it is 90.0 Gbit/s",
                           "stack base: strategy is shared, in the first it is local",
                           "stack base: definition (digest) is cc, in the first it is aa",
                           "stack base: KV path is rdma, in the first it is tcp",
                           "stack base: engines is simulated, in the first it is real",
                           "stack base: block tokens is 64, in the first it is 16"}) {
    CHECK_THAT(text, Catch::Contains(std::string("differs: ") + two.path() + ": " + line));
  }
  CHECK_THAT(text, !Catch::Contains("line rate over rdma") && !Catch::Contains("stack cand"));
}

TEST_CASE("a job compares its stacks with the baseline, sessions paired", "[E11]") {
  TempDir dir;
  test::WriteExample(dir.path());
  const auto job = Again(dir.path());
  const auto at = std::find_if(job.summary.comparisons.begin(), job.summary.comparisons.end(),
                               [](const auto& one) { return one.figure == "ttft_p50_seconds"; });
  REQUIRE(at != job.summary.comparisons.end());
  CHECK(at->verdict == "better");
  CHECK(at->pairs == 3);
  CHECK(*at->relative == Approx(-0.5).margin(0.02));
  CHECK(at->paired_sessions == 3 * 450);
  CHECK(*at->session_relative < -0.3);
}

TEST_CASE("writes the example for tests in other languages", "[.write-example]") {
  const char* out = std::getenv("POOLMARK_EXAMPLE_DIR");
  REQUIRE(out != nullptr);
  test::WriteExample(out);
  REQUIRE(WriteReport(out, {false}).ok());
  REQUIRE(results::WriteSums(out).ok());
}
