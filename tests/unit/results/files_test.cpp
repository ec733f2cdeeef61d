// Every file of a results directory: written, read, cut off, edited, of another version.
#include "common/base/files.h"

#include <catch2/catch.hpp>
#include <filesystem>
#include <limits>

#include "common/base/zstd_file.h"
#include "common/load/record.h"
#include "common/results/compute.h"
#include "common/results/directory.h"
#include "common/results/figures.h"
#include "common/results/layout.h"
#include "common/results/samples.h"
#include "common/results/summarize.h"
#include "common/results/sums.h"
#include "tests/support/temp_dir.h"
#include "tests/unit/results/example.h"

using namespace poolmark;
using namespace poolmark::results;
using poolmark::test::TempDir;

TEST_CASE("every file reads back as it was written", "[E13]") {
  const RepeatFile repeat = test::ExampleRepeat("cand", 2);
  const auto text = Encode(repeat);
  REQUIRE(text.ok());
  const auto again = DecodeRepeat(*text, "repeat.json");
  INFO(again.status().ToString());
  REQUIRE(again.ok());
  CHECK(*Encode(*again) == *text);
  CHECK(*Encode(*DecodeManifest(*Encode(test::ExampleManifest()), "m")) == *Encode(test::ExampleManifest()));
  CHECK(*Encode(*DecodeJob(*Encode(test::ExampleJob()), "j")) == *Encode(test::ExampleJob()));
  VerifyRecord verify;
  verify.proofs["cross_machine_load"] = {
      {"engine-n2", "n2", "vllm:prompt_tokens_by_source_total", 0.0, NotMeasured{"gone"}, ">= 512"}};
  CHECK(*Encode(*DecodeVerify(*Encode(verify), "v")) == *Encode(verify));
  TeardownRecord teardown;
  teardown.items = {{"n1", "process", "engine", "removed", "cgroup empty", "", true}};
  CHECK(*Encode(*DecodeTeardown(*Encode(teardown), "t")) == *Encode(teardown));
  PreflightRecord preflight;
  preflight.line_rates = {{"n1",
                           "n2",
                           "tcp",
                           "iperf3",
                           "3.12",
                           9.4e9,
                           {9.3e9, 9.4e9},
                           10,
                           4,
                           NotMeasured{"TCP"},
                           NotMeasured{"TCP"},
                           {{"net:eth0", 1.0044}}}};
  CHECK(*Encode(*DecodePreflight(*Encode(preflight), "p")) == *Encode(preflight));
}

TEST_CASE("another schema version is refused by name", "[K9]") {
  std::string text = *Encode(test::ExampleJob());
  text.replace(text.find("\"schema_version\": 1"), 19, "\"schema_version\": 7");
  const auto job = DecodeJob(text, "job.json");
  CHECK(ErrorOf(job.status()).code == "schema_version");
  CHECK_THAT(std::string(job.status().message()),
             Catch::Contains("schema_version is 7, this program reads 1"));
}

TEST_CASE("a file cut at any byte is refused, never half read", "[K3]") {
  const std::string text = *Encode(test::ExampleRepeat("cand", 1));
  for (size_t cut = 0; cut + 2 < text.size(); cut += 97)
    CHECK_FALSE(DecodeRepeat(text.substr(0, cut), "r").ok());
}

TEST_CASE("a wrong type is named with its path", "[K2]") {
  std::string text = *Encode(test::ExampleRepeat("cand", 1));
  const size_t at = text.find("\"gpus\": ");
  text.replace(at, 9, "\"gpus\": \"four\"");
  const auto repeat = DecodeRepeat(text, "repeat.json");
  CHECK_THAT(std::string(repeat.status().message()), Catch::Contains("facts.gpus is not a whole number"));
}

TEST_CASE("a directory says what it can and names what it cannot", "[C28]") {
  TempDir dir;
  test::WriteExample(dir.path());
  auto all = ReadDirectory(dir.path());
  INFO(all.status().ToString());
  REQUIRE(all.ok());
  CHECK(all->repeats.size() == 6);
  CHECK(all->problems.empty());
  const std::string victim = dir / RepeatDir("cand", "code", "c4", 2) + "/repeat.json";
  REQUIRE(AtomicWriteFile(victim, ReadFile(victim)->substr(0, 400)).ok());
  all = ReadDirectory(dir.path());
  REQUIRE(all.ok());
  CHECK(all->repeats.size() == 5);
  REQUIRE(all->problems.size() == 1);
  CHECK_THAT(all->problems[0].path, Catch::Contains("repeat_2/repeat.json"));
  CHECK(all->problems[0].message.find("repeat.json") == std::string::npos);  // named once
  CHECK_FALSE(ReadDirectory(dir.path() + "/points").ok());
}

TEST_CASE("SHA256SUMS finds what differs, is missing and is not listed", "[L3]") {
  TempDir dir;
  test::WriteExample(dir.path());
  REQUIRE(WriteSums(dir.path()).ok());
  CHECK(CheckSums(dir.path())->empty());
  REQUIRE(AtomicWriteFile(dir / "job.json", "{}").ok());
  REQUIRE(AtomicWriteFile(dir / "extra.txt", "x").ok());
  REQUIRE(RemoveTree(dir / "manifest.json").ok());
  const auto problems = CheckSums(dir.path());
  REQUIRE(problems.ok());
  REQUIRE(problems->size() == 3);
  CHECK(problems->at(0).problem == "not listed");
  CHECK(problems->at(1).problem == "differs");
  CHECK(problems->at(2).problem == "missing");
}

TEST_CASE("samples keep values, gaps and resets, and a cut file gives what came before", "[F22]") {
  TempDir dir;
  const std::string path = dir / "n1.jsonl.zst";
  auto writer = SamplesWriter::Create(path, "n1", "2026-11-30T12:00:00.000Z");
  REQUIRE(writer.ok());
  REQUIRE((*writer)
              ->Series({1, "engine", "vllm:prompt_tokens_total", {{"model", "m"}}, "tokens", "counter"})
              .ok());
  for (int i = 0; i < 200; ++i) {
    REQUIRE(
        (*writer)
            ->Round({std::chrono::seconds(i), "engine", std::chrono::milliseconds(2), "", {{1, 100.0 * i}}})
            .ok());
  }
  REQUIRE((*writer)->Round({std::chrono::seconds(200), "engine", Nanoseconds(0), "refused", {}}).ok());
  REQUIRE((*writer)
              ->Round({std::chrono::seconds(201), "engine", Nanoseconds(0), "", {{1, NotMeasured{"absent"}}}})
              .ok());
  REQUIRE((*writer)->Round({std::chrono::seconds(202), "engine", Nanoseconds(0), "", {{1, 0.25}}}).ok());
  REQUIRE((*writer)->Gap({std::chrono::seconds(203), std::chrono::seconds(209), "agent away"}).ok());
  REQUIRE((*writer)->Reset({std::chrono::seconds(210), "engine", 0, "process started anew"}).ok());
  REQUIRE((*writer)->Finish().ok());
  const auto log = ReadSamples(path);
  INFO(log.status().ToString());
  REQUIRE(log.ok());
  CHECK(log->values.at(1).size() == 201);
  CHECK(log->values.at(1)[7].value == 700);
  CHECK(log->values.at(1).back().value == 0.25);
  CHECK(log->not_measured.at(1) == "absent");
  CHECK(log->failed_rounds == 1);
  CHECK(log->gaps.at(0).reason == "agent away");
  CHECK(log->resets.size() == 1);
  CHECK(log->truncated.empty());
  const std::string whole = *ReadFile(path);
  REQUIRE(AtomicWriteFile(path, whole.substr(0, whole.size() - 20)).ok());
  const auto cut = ReadSamples(path);
  if (cut.ok()) CHECK_FALSE(cut->truncated.empty());
}

TEST_CASE("summary: means over valid repeats, preliminary below three, invalid ones as diagnostics",
          "[E11][E12][I8]") {
  auto repeats = test::ExampleRepeats();
  auto summary = Summarize(test::ExampleJob(), test::ExampleManifest(), repeats);
  REQUIRE(summary.points.size() == 2);
  CHECK(summary.verdict == "VALID");
  const auto& ttft = summary.points[1].figures.at("ttft_mean_seconds");
  CHECK(ttft.n == 3);
  CHECK(ttft.low.has_value());
  CHECK_FALSE(summary.points[1].preliminary);
  for (auto& repeat : repeats) {
    if (repeat.facts.repeat == 1 && repeat.facts.point.stack == "cand") {
      repeat.figures.valid = false;
      repeat.figures.reasons = {{stats::Reason::kMachineSilent, "n2"}};
    }
  }
  summary = Summarize(test::ExampleJob(), test::ExampleManifest(), repeats);
  CHECK(summary.points[1].preliminary);
  CHECK(summary.points[1].figures.at("ttft_mean_seconds").n == 2);
  auto job = test::ExampleJob();
  job.state = "CANCELLED";
  summary = Summarize(job, test::ExampleManifest(), repeats);
  CHECK(summary.verdict == "INCOMPLETE");
  CHECK_FALSE(summary.publishable);
  for (auto& repeat : repeats) repeat.figures.valid = false;
  summary = Summarize(test::ExampleJob(), test::ExampleManifest(), repeats);
  CHECK(summary.verdict == "INVALID");
  CHECK(summary.points[0].diagnostic);
  CHECK_FALSE(summary.points[0].publishable);
}

TEST_CASE("warnings and notes of a point are those of the repeats that count", "[H7][H8][H9][I8]") {
  auto repeats = test::ExampleRepeats();
  for (auto& repeat : repeats) {
    if (repeat.facts.point.stack != "cand" || repeat.facts.repeat != 2) continue;
    repeat.figures.valid = false;
    repeat.figures.reasons = {{stats::Reason::kMachineSilent, "n2"}};
    repeat.figures.warnings = {"More than 1% of the requests in the measured window failed."};
    repeat.figures.notes = {"of this repeat alone"};
  }
  const auto point = [&] {
    return Summarize(test::ExampleJob(), test::ExampleManifest(), repeats).points.at(1);
  };
  CHECK(point().warnings.empty());
  CHECK(point().repeats.at(1).warnings.size() == 1);  // where it belongs
  for (auto& repeat : repeats) repeat.figures.valid = false;
  CHECK(point().warnings.size() == 1);  // all of them are diagnostics
}

TEST_CASE("repeats that the job ran and that are gone are missed", "[I8][C28]") {
  auto repeats = test::ExampleRepeats();
  auto job = test::ExampleJob();
  CHECK(MissingRepeats(job, repeats).empty());
  repeats.pop_back();
  CHECK(MissingRepeats(job, repeats) == std::vector<std::string>{"points/cand/code-c4/repeat_3"});
  auto summary = Summarize(job, test::ExampleManifest(), repeats);
  CHECK(summary.verdict == "INCOMPLETE");
  CHECK_FALSE(summary.publishable);
  CHECK_THAT(summary.held_back_by.back(), Catch::Contains("points/cand/code-c4/repeat_3"));
  repeats.resize(3);  // the whole other point
  CHECK(Summarize(job, test::ExampleManifest(), repeats).verdict == "INCOMPLETE");
  job.state = "CANCELLED";  // it did not run them all
  CHECK(MissingRepeats(job, repeats).empty());
  // A damaged number costs neither hours nor memory.
  job.state = "SUCCEEDED";
  job.repeats = std::numeric_limits<int>::max();
  CHECK(MissingRepeats(job, repeats).size() == kMostMissing);
  CHECK_THAT(Summarize(job, test::ExampleManifest(), repeats).held_back_by.back(),
             Catch::Contains("100 or more repeats"));
  const auto read = DecodeJob(*Encode(job), "job.json");
  CHECK_THAT(std::string(read.status().message()),
             Catch::Contains("repeats: 2147483647 is not between 0 and 1000"));
}

TEST_CASE("a repeat that lies in another's place counts once", "[C28][J6]") {
  TempDir dir;
  test::WriteExample(dir.path());
  std::filesystem::copy(dir / RepeatDir("cand", "code", "c4", 1), dir / RepeatDir("cand", "code", "c4", 9),
                        std::filesystem::copy_options::recursive);
  const auto all = ReadDirectory(dir.path());
  REQUIRE(all.ok());
  CHECK(all->repeats.size() == 6);
  REQUIRE(all->problems.size() == 1);
  CHECK(all->problems[0].path == "points/cand/code-c4/repeat_9/repeat.json");
  CHECK(all->problems[0].message == "is left out: it says that it is points/cand/code-c4/repeat_1");
}

TEST_CASE("a summary that is gone is named", "[C28][I8]") {
  TempDir dir;
  test::WriteExample(dir.path());
  std::filesystem::remove(dir / "summary.json");
  const auto all = ReadDirectory(dir.path());
  REQUIRE(all.ok());
  REQUIRE(all->problems.size() == 1);
  CHECK(all->problems[0].path == "summary.json");
}

TEST_CASE("the measured line, per-GPU figures and captured reuse come out of one function", "[H10][E4][B4]") {
  const RepeatFile repeat = test::ExampleRepeat("cand", 1);
  CHECK(repeat.figures.measured_line == "Measured over 15 min after a 5 min warm-up");
  CHECK(*repeat.figures.output_tokens_per_second_per_gpu ==
        Approx(repeat.figures.requests.output_tokens_per_second / 4));
  CHECK(*repeat.figures.reuse_captured == Approx(*repeat.figures.reused / *repeat.facts.reuse.reusable));
  CHECK(repeat.figures.valid);
}

TEST_CASE("a cache's size that was read through an unconfirmed name holds the result back", "[I9]") {
  const auto repeats = test::ExampleRepeats();
  auto manifest = test::ExampleManifest();
  const auto held = [&] {
    std::string all;
    for (const std::string& line : Summarize(test::ExampleJob(), manifest, repeats).held_back_by)
      all += line + "\n";
    return all;
  };
  const auto size = std::find_if(manifest.series.begin(), manifest.series.end(),
                                 [](const auto& series) { return series.figure == "GPU KV capacity"; });
  REQUIRE(size != manifest.series.end());
  CHECK_THAT(held(), !Catch::Contains("cache_config_info"));
  size->confirmed = false;
  CHECK_THAT(held(), Catch::Contains("vllm:cache_config_info"));
  manifest.series.erase(size);  // a manifest that does not name it confirms nothing either
  CHECK_THAT(held(), Catch::Contains("vllm:cache_config_info"));
}

TEST_CASE("reuse is not measured where an engine was not read, and the result is held back", "[B4][B6][I9]") {
  auto repeats = test::ExampleRepeats();
  CHECK(Summarize(test::ExampleJob(), test::ExampleManifest(), repeats).publishable);
  for (RepeatFile& repeat : repeats) {
    if (repeat.facts.repeat != 2 || repeat.facts.point.stack != "cand") continue;
    stats::EngineFacts lost = repeat.facts.engines[0];
    lost.process = "cand.engine-n2";
    lost.machine = "n2";
    lost.deltas.clear();
    lost.unreadable = "the last reading is from 3s into it";
    repeat.facts.engines.push_back(lost);
    const auto requests = test::ExampleRequests("cand", 2);
    size_t next = 0;
    auto figures = ComputeRepeat(repeat.facts, [&](stats::RequestFacts* request) -> Result<bool> {
      if (next == requests.size()) return false;
      *request = requests[next++];
      return true;
    });
    REQUIRE(figures.ok());
    CHECK(figures->valid);
    CHECK_FALSE(figures->sources.complete);
    CHECK(figures->sources.total.has_value());
    REQUIRE_FALSE(figures->reused.has_value());
    CHECK_THAT(figures->reused.reason(), Catch::Contains("cand.engine-n2: the last reading is from 3s"));
    CHECK(figures->reuse_captured.reason() == figures->reused.reason());
    CHECK_THAT(figures->notes,
               Catch::VectorContains(std::string("Reuse is not measured, because not every engine was read "
                                                 "(cand.engine-n2: the last reading is from 3s into it).")));
    repeat.figures = *std::move(figures);
  }
  auto manifest = test::ExampleManifest();
  manifest.engines.push_back(manifest.engines.back());
  manifest.engines.back().process = "cand.engine-n2";
  const auto summary = Summarize(test::ExampleJob(), manifest, repeats);
  CHECK_FALSE(summary.publishable);
  CHECK(summary.points[0].publishable);  // the other stack's engine was read
  const SummaryPoint& point = summary.points[1];
  CHECK_FALSE(point.publishable);
  REQUIRE(point.held_back_by.size() == 1);
  CHECK_THAT(point.held_back_by[0], Catch::Contains("repeat 2: cand.engine-n2"));
  CHECK(point.figures.at("reused").n == 2);  // the other two repeats tell it
  CHECK_FALSE(point.figures.at("reused").repeats[1].has_value());
}

TEST_CASE("figures that are compared have the unit that they are measured in", "[E13]") {
  for (const auto& figure : FiguresOf(test::ExampleRepeat("cand", 1))) {
    INFO(figure.name);
    if (DirectionOf(figure.name) != Direction::kNone) CHECK(UnitOf(figure.name) == figure.unit);
    CHECK(TitleOf(figure.name) != figure.name);
  }
}

TEST_CASE("KV transfer bandwidth is the whole or not measured, never the sum of what could be read", "[E6]") {
  RepeatFacts whole = test::ExampleRepeat("cand", 1).facts;
  whole.engines[0].deltas.erase("lmcache:num_remote_read_bytes_total");
  whole.drain_end = whole.measured_to;
  const auto compute = [](const RepeatFacts& facts) {
    auto figures = ComputeRepeat(facts, [](stats::RequestFacts*) -> Result<bool> { return false; });
    REQUIRE(figures.ok());
    return *figures;
  };
  CHECK(*compute(whole).kv_bytes_per_second == Approx(1e9));
  RepeatFacts facts = whole;
  facts.transfers.push_back({"n3", "n1", "tcp", NotMeasured{"two senders"}, 2e10, ""});
  auto figures = compute(facts);
  REQUIRE_FALSE(figures.kv_bytes_per_second.has_value());
  CHECK(figures.kv_bytes_per_second.reason() ==
        "1 of 2 pairs of machines could not be measured (n3 to n1: two senders)");
  CHECK(*figures.transfers[0].bytes_per_second == Approx(1e9));  // what could be read stays readable
  // The busiest link may be the one that nobody measured.
  RepeatFile file;
  file.facts = facts;
  file.figures = figures;
  for (const auto& figure : FiguresOf(file)) {
    if (figure.name == "kv_share_of_line") CHECK(figure.value.reason() == "n3 to n1: two senders");
  }
  // The receivers' own counters give the total, said so.
  facts.engines[0].deltas["vllm:nixl_bytes_transferred_sum"] = 1.8e12;
  figures = compute(facts);
  CHECK(*figures.kv_bytes_per_second == Approx(2e9));
  CHECK_THAT(figures.notes.back(), Catch::Contains("what the engines counted together: 1 of 2 pairs"));
  // One engine that cannot be read leaves a part, which is no total.
  facts.engines.push_back(facts.engines[0]);
  facts.engines[1].process = "cand.engine-n2";
  facts.engines[1].unreadable = "its page failed";
  CHECK_FALSE(compute(facts).kv_bytes_per_second.has_value());
  // Split: a hand-over counts at the decode side, and the prefill side has no such counter.
  facts.strategy = "split";
  facts.engines[1].unreadable = "";
  facts.engines[1].deltas.erase("vllm:nixl_bytes_transferred_sum");
  facts.engines[1].role = stats::EngineFacts::Role::kPrefill;
  CHECK(*compute(facts).kv_bytes_per_second == Approx(2e9));
  facts.strategy = "split-offload";
  CHECK_FALSE(compute(facts).kv_bytes_per_second.has_value());
}

TEST_CASE("engines without a GPU: their own cache is called so", "[B1]") {
  auto repeats = test::ExampleRepeats();
  for (auto& repeat : repeats) {
    if (repeat.facts.point.stack == "cand") repeat.facts.engines[0].has_gpu = false;
  }
  const auto summary = Summarize(test::ExampleJob(), test::ExampleManifest(), repeats);
  CHECK_FALSE(summary.points[0].engine_cache);
  CHECK(summary.points[1].engine_cache);
  CHECK(TitleOf("source_gpu") == "Prompt tokens from GPU cache");
  CHECK(TitleOf("source_gpu", true) == "Prompt tokens from engine cache");
  CHECK(TitleOf("gpu_kv_usage_peak", true) == "Engine cache usage, peak");
  CHECK(TitleOf("source_host", true) == TitleOf("source_host"));
}
