// When a load without tokens is a stall: engines that hang, against think time, long prompts, late lines and
// several load machines.
#include "controller/steps/stall_watch.h"

#include <catch2/catch.hpp>

#include "absl/strings/str_cat.h"
#include "common/spec/read.h"

using namespace poolmark;
using namespace poolmark::controller;
using std::chrono::seconds;

namespace {

// A line as `poolmark load --plan` prints it.
LoadProgress At(double t, int in_flight, double events, int failed = 0) {
  const auto progress =
      ParseProgress(absl::StrCat(R"({"event":"progress","t":)", t, R"(,"phase":"load","in_flight":)",
                                 in_flight, R"(,"failed":)", failed, R"(,"events_per_s":)", events, "}"));
  REQUIRE(progress.has_value());
  return *progress;
}

// One line a second from `from` to `to`, both included.
void Feed(StallWatch* watch, int from, int to, int in_flight, double events, size_t worker = 0) {
  for (int t = from; t <= to; ++t) watch->Take(worker, At(t, in_flight, events));
}

}  // namespace

TEST_CASE("Requests in flight and no token for anybody for the limit is a stall") {
  StallWatch watch(1, seconds(60));
  Feed(&watch, 1, 20, 6, 900);
  Feed(&watch, 21, 79, 6, 0);
  CHECK_FALSE(watch.Found());
  Feed(&watch, 80, 80, 6, 0);
  CHECK(watch.Found() == "no token for 60 s for any user, with 6 requests in flight");
}

TEST_CASE("A single token in the whole limit is none") {
  StallWatch watch(1, seconds(60));
  Feed(&watch, 1, 10, 6, 900);
  for (int round = 0; round < 10; ++round) {
    Feed(&watch, 11 + round * 50, 59 + round * 50, 6, 0);
    CHECK_FALSE(watch.Found());
    Feed(&watch, 60 + round * 50, 60 + round * 50, 6, 0.02);
  }
  CHECK_FALSE(watch.Found());
}

TEST_CASE("Think time and gaps between arrivals are no stall, however long") {
  StallWatch watch(1, seconds(60));
  Feed(&watch, 1, 10, 4, 500);
  Feed(&watch, 11, 5000, 0, 0);
  CHECK_FALSE(watch.Found());
  // A request that is sent after it has the whole limit.
  Feed(&watch, 5001, 5059, 1, 0);
  CHECK_FALSE(watch.Found());
  Feed(&watch, 5060, 5060, 1, 0);
  CHECK(watch.Found());
}

TEST_CASE("The first prompts have five times the limit") {
  StallWatch watch(1, seconds(60));
  Feed(&watch, 1, 299, 8, 0);
  CHECK_FALSE(watch.Found());
  Feed(&watch, 300, 300, 8, 0);
  CHECK(watch.Found());
  // Their length is not what later silences are measured by.
  StallWatch slow(1, seconds(60));
  Feed(&slow, 1, 200, 8, 0);
  Feed(&slow, 201, 201, 8, 3);
  CHECK(slow.allowed() == seconds(60));
}

TEST_CASE("A pool whose prompts take long is given four times the longest silence that it came out of") {
  StallWatch watch(1, seconds(60));
  Feed(&watch, 1, 5, 2, 10);
  Feed(&watch, 6, 44, 2, 0);  // all users wait for the first token
  Feed(&watch, 45, 45, 2, 10);
  CHECK(watch.allowed() == seconds(160));
  Feed(&watch, 46, 204, 2, 0);
  CHECK_FALSE(watch.Found());
  Feed(&watch, 205, 205, 2, 0);
  CHECK(watch.Found());
}

TEST_CASE("Requests that fail meanwhile are no token, and are told") {
  StallWatch watch(1, seconds(5));
  watch.Take(0, At(1, 6, 10, 2));
  for (int t = 2; t <= 6; ++t) watch.Take(0, At(t, 6, 0, t * 10));
  CHECK(watch.Found() == "no token for 5 s for any user, with 6 requests in flight; 58 failed meanwhile");
}

TEST_CASE("Lines that come late in a burst are no silence") {
  StallWatch watch(1, seconds(5));
  Feed(&watch, 1, 10, 6, 900);
  // The controller stood still for a minute and reads all at once.
  Feed(&watch, 11, 70, 6, 900);
  CHECK_FALSE(watch.Found());
}

TEST_CASE("With several load machines one user's token is enough") {
  StallWatch watch(2, seconds(60));
  Feed(&watch, 1, 10, 3, 100, 0);
  Feed(&watch, 1, 10, 3, 100, 1);
  Feed(&watch, 11, 100, 3, 0, 0);
  Feed(&watch, 11, 60, 3, 100, 1);
  CHECK_FALSE(watch.Found());
  SECTION("the other's users think for a while") {
    Feed(&watch, 61, 100, 0, 0, 1);
    CHECK_FALSE(watch.Found());
    Feed(&watch, 101, 130, 0, 0, 1);
    Feed(&watch, 101, 130, 3, 0, 0);
    CHECK(watch.Found());
  }
  SECTION("the other ends") {
    watch.Ended(1);
    Feed(&watch, 101, 101, 3, 0, 0);
    Feed(&watch, 61, 130, 0, 0, 1);
    CHECK(watch.Found());
  }
  SECTION("the other hangs as well") {
    Feed(&watch, 61, 119, 3, 0, 1);
    CHECK_FALSE(watch.Found());
    Feed(&watch, 120, 120, 3, 0, 1);
    CHECK(watch.Found() == "no token for 60 s for any user, with 6 requests in flight");
  }
}

TEST_CASE("Without a limit, and of lines that do not say it, nothing is found") {
  StallWatch off(1, std::nullopt);
  Feed(&off, 1, 10, 6, 900);
  Feed(&off, 11, 10'000, 6, 0);
  CHECK_FALSE(off.Found());
  StallWatch bare(1, seconds(60));
  for (int t = 1; t < 1000; ++t) {
    LoadProgress line = At(t, 6, t == 1 ? 5 : 0);
    if (t > 1) line.events_per_second.reset();
    bare.Take(0, line);
  }
  CHECK_FALSE(bare.Found());
}

TEST_CASE("load.stall of a job: a time, off, and 60 s by itself") {
  const auto read = [](const std::string& load, Errors* errors) {
    auto files = [](const std::string& name) -> Result<std::string> {
      if (name == "pool.yaml") return std::string("version: 1\nmachines: [{name: n0}]\n");
      return std::string(
          "version: 1\nstrategy: local\nengine: sim\nparams: {model: sim}\nprocesses:\n"
          "  - {name: engine, role: engine, on: each, exec: poolmark-sim, argv: [engine], ports: [http]}\n"
          "entry: engine.http\n");
    };
    return spec::ReadJob(
        "version: 1\npool: pool.yaml\nstacks: [{use: stack.yaml, as: s}]\nworkloads:\n"
        "  w: {shape: synthetic, sessions: 4, turns: 2, input: 64, output: 8, concurrency: [2]}\n" +
            load,
        "job.yaml", files, {}, errors);
  };
  Errors errors;
  CHECK(read("", &errors)->load.stall == seconds(60));
  CHECK(read("load: {stall: 5s}\n", &errors)->load.stall == seconds(5));
  CHECK_FALSE(read("load: {stall: off}\n", &errors)->load.stall.has_value());
  CHECK(errors.empty());
  for (const char* bad : {"4s", "25h", "never", "[5s]", "-1s"}) {
    Errors found;
    INFO(bad);
    CHECK_FALSE(read(absl::StrCat("load: {stall: ", bad, "}\n"), &found).ok());
    CHECK_FALSE(found.empty());
  }
}
