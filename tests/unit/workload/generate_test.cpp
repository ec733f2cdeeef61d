// What `workload generate` writes over, and what it leaves alone.
#include "common/workload/generate.h"

#include <catch2/catch.hpp>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "common/base/files.h"
#include "common/base/json.h"
#include "common/workload/open_scripts.h"
#include "common/workload/source.h"
#include "tests/support/temp_dir.h"

using namespace poolmark;
using namespace poolmark::workload;

TEST_CASE("a generated file takes the place of no input, link, device or directory", "[J6]") {
  test::TempDir dir;
  const std::string trace = dir / "trace.jsonl", spec = dir / "spec.json";
  const std::string lines = R"({"timestamp":0,"input_length":8,"output_length":2,"hash_ids":[1]})"
                            "\n"
                            R"({"timestamp":9,"input_length":8,"output_length":2,"hash_ids":[1]})"
                            "\n";
  REQUIRE(AtomicWriteFile(trace, lines).ok());
  REQUIRE(AtomicWriteFile(spec, R"({"shape":"trace","format":"mooncake","file":")" + trace + "\"}").ok());
  std::filesystem::create_symlink(trace, dir / "link.jsonl");
  const auto refusal = [&](const std::string& source, const std::string& out) {
    const auto done = Generate(source, {}, out);
    return done.ok() ? "" : std::string(done.status().message());
  };
  CHECK_THAT(refusal(trace, trace), Catch::Contains("is the workload that is read"));
  CHECK_THAT(refusal(spec, trace), Catch::Contains("is the workload that is read"));
  CHECK_THAT(refusal(spec, dir / "link.jsonl"), Catch::Contains("is no regular file"));
  CHECK_THAT(refusal(spec, dir.path()), Catch::Contains("is no regular file"));
  CHECK_THAT(refusal(spec, "-"), Catch::Contains("is no name of a file"));
  CHECK(*ReadFile(trace) == lines);
  // A directory of the name that the writing uses meanwhile keeps what it holds.
  REQUIRE(MakeDirs(dir / "out.jsonl.tmp/keep").ok());
  CHECK_FALSE(Generate(spec, {}, dir / "out.jsonl").ok());
  CHECK(FileExists(dir / "out.jsonl.tmp/keep"));
  const auto done = Generate(spec, {}, dir / "good.jsonl");
  INFO(done.status().ToString());
  REQUIRE(done.ok());
  CHECK(done->requests == 2);
  CHECK(FileExists(dir / "good.jsonl"));
}

TEST_CASE("what is reused of live answers is not in the file, whatever its blocks", "[D3]") {
  test::TempDir dir;
  // Prompts of 64, 192 and 320 tokens; with the answers of 64 all of the one before is reused.
  const std::string spec = dir / "spec.json";
  for (const char* answers : {"live", "recorded"}) {
    REQUIRE(
        AtomicWriteFile(
            spec,
            R"({"shape":"synthetic","sessions":1,"turns":3,"input":64,"growth":64,"output":64,"answers":")" +
                std::string(answers) + "\"}")
            .ok());
    const bool live = std::string(answers) == "live";
    for (const bool tokens : {false, true}) {
      const auto done = Generate(spec, {tokens, 16}, dir / "out.jsonl");
      INFO(done.status().ToString());
      REQUIRE(done.ok());
      CHECK(done->reusable == Approx((live ? 128.0 + 256 : 64.0 + 192) / 576));
      CHECK(done->reusable_of_prompts == Approx((64.0 + 192) / 576));
      CHECK(done->reusable_written == Approx((64.0 + 192) / 576));
    }
  }
}

TEST_CASE("of several levels the first is written, and that is said", "[D3]") {
  test::TempDir dir;
  const std::string spec = dir / "spec.json",
                    head = R"({"shape":"synthetic","sessions":4,"input":8,"output":2,)";
  for (const auto& [level, notes] : {std::pair<std::string, size_t>{R"("rate":[2,4])", 1},
                                     {R"("concurrency":[1,2,3])", 1},
                                     {R"("rate":[2])", 0}}) {
    REQUIRE(AtomicWriteFile(spec, head + level + "}").ok());
    const auto done = Generate(spec, {}, dir / "out.jsonl");
    INFO(done.status().ToString());
    REQUIRE(done.ok());
    REQUIRE(done->notes.size() == notes);
    if (notes > 0) CHECK_THAT(done->notes[0], Catch::Contains("levels only the first is written"));
  }
}

TEST_CASE("each session is opened once, however its turns lie between those of others", "[D3]") {
  class Counted : public Workload {
   public:
    explicit Counted(std::shared_ptr<const Workload> of) : of_(std::move(of)) {}
    uint64_t sessions() const override { return of_->sessions(); }
    Script Open(uint64_t number) const override {
      ++opened;
      return of_->Open(number);
    }
    mutable uint64_t opened = 0;

   private:
    std::shared_ptr<const Workload> of_;
  };
  const auto spec = ParseWorkload(*ParseJson(
      R"({"shape":"synthetic","sessions":8,"turns":5,"input":8,"output":2,"think":"1s","concurrency":8})"));
  REQUIRE(spec.ok());
  const auto workload = OpenWorkload(*spec);
  REQUIRE(workload.ok());
  const auto arrivals = PlanArrivals(**workload, *spec, false);
  REQUIRE(arrivals.size() == 40);
  REQUIRE(arrivals[0].session != arrivals[1].session);
  const Counted counted(*workload);
  OpenScripts scripts(counted, arrivals);
  for (const Arrival& arrival : arrivals) {
    const Turn* turn = scripts.Take(arrival);
    REQUIRE(turn != nullptr);
    CHECK(scripts.IdOf(arrival.session) == (*workload)->Open(arrival.session).id);
    CHECK(TokensOf(turn->prompt) == TokensOf((*workload)->Open(arrival.session).turns[arrival.turn].prompt));
    scripts.Done(arrival);
  }
  CHECK(counted.opened == 8);
}
