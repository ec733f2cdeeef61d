// What `workload generate` writes over, and what it leaves alone.
#include "common/workload/generate.h"

#include <catch2/catch.hpp>
#include <filesystem>

#include "common/base/files.h"
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
