// Speed and memory of a report over a million request records; hidden: unit_report "[.bench]".
// POOLMARK_BENCH_EVENTS=160 has that many output events a record, POOLMARK_BENCH_ANSWERS=live has chats whose
// prompts hold the answers that came.
#include <sys/resource.h>

#include <catch2/catch.hpp>
#include <chrono>
#include <cstdio>
#include <cstdlib>

#include "common/base/files.h"
#include "common/base/random.h"
#include "common/base/zstd_file.h"
#include "common/report/html.h"
#include "common/results/layout.h"
#include "common/results/sums.h"
#include "tests/support/temp_dir.h"
#include "tests/unit/results/example.h"

using namespace poolmark;
using poolmark::test::TempDir;

namespace {

constexpr int kRecords = 1'000'000;

int Setting(const char* name, int otherwise) {
  const char* value = std::getenv(name);
  return value == nullptr ? otherwise : std::atoi(value);
}
const int kEvents = Setting("POOLMARK_BENCH_EVENTS", 64);

// As the load generator writes them.
void WriteRecords(const std::string& path, int records, uint64_t seed) {
  auto out = ZstdWriter::Create(path);
  REQUIRE(out.ok());
  SplitMix64 random(seed);
  std::string text;
  for (int i = 0; i < records; ++i) {
    const int64_t sent = 300'000'000'000 + static_cast<int64_t>(i) * 900'000'000'000 / records;
    int64_t at = sent + 100'000'000 + static_cast<int64_t>(random.Below(100'000'000));
    const int64_t first = at;
    std::string events = std::to_string(at);
    for (int e = 1; e < kEvents; ++e) {
      const auto step = static_cast<int64_t>(5'000'000 + random.Below(10'000'000));
      at += step;
      events += "," + std::to_string(step);
    }
    const std::string prompt = std::to_string(512 + 128 + i % 8 * (64 + kEvents));
    text +=
        "{\"session\":" + std::to_string(i / 8) + ",\"turn\":" + std::to_string(i % 8) + ",\"id\":\"s" +
        std::to_string(i / 8) +
        "\",\"target\":0,\"outcome\":\"ok\",\"status\":200,\"attempts\":1,\"intended\":null,\"started\":" +
        std::to_string(sent - 20000) + ",\"sent\":" + std::to_string(sent) +
        ",\"connect\":null,\"first_byte\":" + std::to_string(first - 50000) +
        ",\"first_output\":" + std::to_string(first) + ",\"first_answer_output\":" + std::to_string(first) +
        ",\"last_output\":" + std::to_string(at) + ",\"end\":" + std::to_string(at + 40000) +
        ",\"kernel_first_output\":" + std::to_string(first - 30000) +
        ",\"kernel_last_output\":" + std::to_string(at - 20000) +
        ",\"lateness\":30000,\"planned_input_tokens\":" + prompt + ",\"input_tokens\":" + prompt +
        ",\"cached_tokens\":512,"
        "\"output_tokens\":" +
        std::to_string(kEvents) +
        ",\"output_tokens_counted\":false,"
        "\"first_event_tokens\":1,\"event_tokens_known\":false,\"finish_reason\":\"length\",\"events\":[" +
        events + "]}\n";
    if (text.size() > (1u << 20)) {
      REQUIRE((*out)->Write(text).ok());
      text.clear();
    }
  }
  REQUIRE((*out)->Write(text).ok());
  REQUIRE((*out)->Finish().ok());
}

}  // namespace

TEST_CASE("a report over a million records", "[.bench]") {
  TempDir dir;
  test::WriteExample(dir.path());
  for (const char* stack : {"base", "cand"}) {
    for (int repeat = 1; repeat <= 3; ++repeat) {
      WriteRecords(dir / ("points/" + std::string(stack) + "/code-c4/repeat_" + std::to_string(repeat) +
                          "/requests.jsonl.zst"),
                   kRecords / 6, static_cast<uint64_t>(repeat));
    }
  }
  const char* answers = std::getenv("POOLMARK_BENCH_ANSWERS");
  const bool live = answers != nullptr && std::string_view(answers) == "live";
  // Prompts that fit the records, so that the reuse is computed again from them.
  results::JobFile job_file = test::ExampleJob();
  job_file.workloads[0].shape = "synthetic";
  job_file.workloads[0].options =
      R"({"shape":"synthetic","sessions":)" + std::to_string(kRecords / 6 / 8 + 1) +
      R"(,"groups":10,"prefix":512,"turns":8,"input":128,"growth":64,"output":)" + std::to_string(kEvents) +
      (live ? R"(,"prompt":"text","api":"chat","answers":"live","model":"m"})" : R"(,"prompt":"ids"})");
  const auto text = results::Encode(job_file);
  REQUIRE(text.ok());
  REQUIRE(AtomicWriteFile(dir / std::string(results::kJobFile), *text).ok());
  REQUIRE(results::WriteSums(dir.path()).ok());  // `poolmark report` reads every file for its sum, too
  // CPU time: the bar is for a machine that does nothing else.
  const auto cpu = [] {
    rusage now{};
    getrusage(RUSAGE_SELF, &now);
    return static_cast<double>(now.ru_utime.tv_sec + now.ru_stime.tv_sec) +
           static_cast<double>(now.ru_utime.tv_usec + now.ru_stime.tv_usec) * 1e-6;
  };
  const double before = cpu();
  const auto begin = std::chrono::steady_clock::now();
  const auto job = report::WriteReport(dir.path());
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  const double cpu_seconds = cpu() - before;
  REQUIRE(job.ok());
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  std::printf("report over %d records of %d events%s: %.2f s of CPU, %.2f s by the clock, %.0f MiB\n",
              kRecords, kEvents, live ? " with live answers" : "", cpu_seconds, seconds,
              static_cast<double>(usage.ru_maxrss) / 1024);
  CHECK(job->problems.empty());
  CHECK(job->unchecked.empty());
  CHECK(job->repeats.front().facts.reuse.curve.size() > 10);
  CHECK(cpu_seconds < 10);
  CHECK(usage.ru_maxrss < 1024 * 1024);
}
