// Files of a result that are gone, cut or changed, with SHA256SUMS written anew to fit: each is named.
#include <catch2/catch.hpp>
#include <filesystem>

#include "common/base/files.h"
#include "common/base/zstd_file.h"
#include "common/report/recompute.h"
#include "common/report/text.h"
#include "common/results/sums.h"
#include "tests/support/temp_dir.h"
#include "tests/unit/results/example.h"

using namespace poolmark;
using poolmark::test::TempDir;

namespace {

constexpr char kRepeat[] = "points/cand/code-c4/repeat_1/";

class Damaged {
 public:
  Damaged() { test::WriteExample(dir_.path()); }
  std::string At(const std::string& name) const { return dir_ / name; }
  void Remove(const std::string& name) { REQUIRE(std::filesystem::remove_all(At(name)) > 0); }
  void Write(const std::string& name, const std::string& text) {
    REQUIRE(AtomicWriteFile(At(name), text).ok());
  }
  void Cut(const std::string& name, size_t end) {
    const std::string text = *ReadFile(At(name));
    REQUIRE(text.size() > end);
    Write(name, text.substr(0, end));
  }
  void Replace(const std::string& name, const std::string& from, const std::string& to) {
    std::string text = *ReadFile(At(name));
    const size_t at = text.find(from);
    REQUIRE(at != std::string::npos);
    Write(name, text.replace(at, from.size(), to));
  }
  // What `poolmark report` prints; the sums fit what is there now.
  std::string Report() {
    REQUIRE(results::WriteSums(dir_.path()).ok());
    const auto job = report::Recompute(dir_.path());
    INFO(job.status().ToString());
    REQUIRE(job.ok());
    const std::string text = report::ReportText(*job);
    CHECK((!job->problems.empty() || !job->differences.empty()));
    CHECK(text.find("Every stored figure") == std::string::npos);
    return text;
  }

 private:
  TempDir dir_;
};

void WriteSamples(const std::string& path, const std::string& text) {
  auto out = ZstdWriter::Create(path);
  REQUIRE(out.ok());
  REQUIRE((*out)->Write(text).ok());
  REQUIRE((*out)->Finish().ok());
}

}  // namespace

TEST_CASE("samples that are gone, cut or no samples are named", "[I8][J6]") {
  Damaged dir;
  const std::string name = std::string(kRepeat) + "samples/n1.jsonl.zst";
  const std::string whole = *ReadFile(dir.At(name));
  dir.Remove(std::string(kRepeat) + "samples");
  CHECK_THAT(dir.Report(), Catch::Contains("repeat_1: not computed again: samples/n1.jsonl.zst is missing"));
  REQUIRE(MakeDirs(dir.At(std::string(kRepeat) + "samples")).ok());
  dir.Write(name, whole.substr(0, whole.size() - 6));
  CHECK_THAT(dir.Report(), Catch::Contains("samples/n1.jsonl.zst"));
  const std::string head = R"({"schema_version":1,"machine":"n1","wall_start":""})"
                           "\n";
  const auto says = [&](const std::string& line, const std::string& problem) {
    WriteSamples(dir.At(name), head + line + "\n");
    CHECK_THAT(dir.Report(), Catch::Contains("samples/n1.jsonl.zst:2") && Catch::Contains(problem) &&
                                 !Catch::Contains("map::at"));
  };
  says(R"({"dt":1,"source":"e","took":1,"v":[[7,5]]})",
       "'v[0]' is a difference, but no value of series 7 stands before it");
  says(R"({"dt":1,"source":"e","took":1,"v":[[7,true,1]]})", "'v[0][1]' has another type");
  says(R"({"dt":1,"source":"e","took":1,"v":[[-7,5]]})", "'v[0][0]' is out of range");
  says(R"({"dt":1,"source":"e","took":1,"v":[[]]})", "'v[0][0]' is missing");
  says(R"({"dt":1,"source":"e","took":1})", "'v' is no list");
  says(R"({"source":"e","took":1,"v":[]})", "'dt' is missing");
  says(R"({"series":1,"source":3})", "'source' has another type");
  WriteSamples(dir.At(name), R"({"schema_version":1,"machine":5,"wall_start":""})"
                             "\n");
  CHECK_THAT(dir.Report(), Catch::Contains("'machine' has another type"));
}

TEST_CASE("a load's own files that are gone, cut or changed are named", "[I8][J6]") {
  Damaged dir;
  const std::string load = std::string(kRepeat) + "load.json",
                    timeline = std::string(kRepeat) + "timeline.jsonl";
  const std::string whole = *ReadFile(dir.At(load)), seconds = *ReadFile(dir.At(timeline));
  dir.Replace(load, "\"requests\": 450", "\"requests\": 451");
  CHECK_THAT(dir.Report(), Catch::Contains("repeat_1/load.json: requests is 451, computed again 450"));
  dir.Write(load, whole.substr(0, whole.size() / 2));
  CHECK_THAT(dir.Report(), Catch::Contains("repeat_1/load.json: not computed again: "));
  dir.Write(load, whole);
  dir.Replace(load, "\"requests\": 450", "\"started\": 5, \"requests\": 450");
  CHECK_THAT(dir.Report(), Catch::Contains("repeat_1/load.json: not computed again: ") &&
                               Catch::Contains("it is no load.json of this version"));
  dir.Remove(load);
  CHECK_THAT(dir.Report(), Catch::Contains("repeat_1/load.json: not computed again: it is missing"));
  dir.Write(load, whole);
  dir.Cut(timeline, seconds.size() - 5);
  CHECK_THAT(dir.Report(), Catch::Contains("timeline.jsonl: line 2 is cut"));
  dir.Write(timeline, seconds.substr(0, seconds.find('\n') + 1));
  CHECK_THAT(dir.Report(), Catch::Contains("timeline.jsonl: ends at second 600.0, the load lasted 1201.0 s"));
  dir.Remove(timeline);
  CHECK_THAT(dir.Report(), Catch::Contains("timeline.jsonl: is missing"));
}

TEST_CASE("events, inputs and cycles that are gone or cut are named", "[I8][J6]") {
  Damaged dir;
  const std::string events = *ReadFile(dir.At("events.jsonl"));
  dir.Cut("events.jsonl", events.find('\n') + 1);
  CHECK_THAT(dir.Report(),
             Catch::Contains("events.jsonl: ends with the state \"SUBMITTED\", the job ended SUCCEEDED"));
  dir.Write("events.jsonl", events.substr(events.find('\n') + 1));
  CHECK_THAT(dir.Report(), Catch::Contains("events.jsonl: line 1: sequence is 2, expected 1"));
  dir.Write("events.jsonl", events.substr(0, events.size() - 4));
  CHECK_THAT(dir.Report(), Catch::Contains("events.jsonl: line 2 is cut"));
  dir.Write("events.jsonl", "");
  CHECK_THAT(dir.Report(), Catch::Contains("events.jsonl: is empty"));
  dir.Remove("events.jsonl");
  CHECK_THAT(dir.Report(), Catch::Contains("events.jsonl: is missing"));
  dir.Write("events.jsonl", events);
  dir.Write("inputs/job.yaml", "api: other\n");
  CHECK_THAT(dir.Report(), Catch::Contains("inputs/job.yaml: is not the input that was submitted"));
  dir.Remove("inputs/job.yaml");
  CHECK_THAT(dir.Report(), Catch::Contains("inputs/job.yaml: is missing"));
  dir.Write("inputs/inputs.json", "[]");
  CHECK_THAT(dir.Report(), Catch::Contains("inputs/inputs.json: "));
  dir.Remove("inputs");
  CHECK_THAT(dir.Report(), Catch::Contains("inputs/inputs.json: is missing"));
}

TEST_CASE("cycles of repeats that are there are not gone unseen", "[I8][J6]") {
  Damaged dir;
  dir.Remove("cycles/1/verify.json");
  CHECK_THAT(dir.Report(), Catch::Contains("cycles/1/verify.json: is missing"));
  dir.Remove("cycles");
  CHECK_THAT(dir.Report(), Catch::Contains("cycles/3/verify.json: is missing") &&
                               Catch::Contains("cycles/3/teardown.json: is missing"));
}

TEST_CASE("a plan of another version is refused, one without its lists is named", "[I8][J6]") {
  Damaged dir;
  dir.Write("plan.json", "{}");
  CHECK_THAT(dir.Report(), Catch::Contains("plan.json: has no schema_version"));
  dir.Write("plan.json", R"({"schema_version":1,"machines":[],"stacks":[]})");
  CHECK_THAT(dir.Report(), Catch::Contains("plan.json: head is not there"));
  dir.Replace("plan.json", "\"machines\":[]",
              "\"head\":\"n1\",\"machines\":[],\"cycles\":[],\"accuracy\":[],\"loads\":[],"
              "\"load_machines\":[],\"line_pairs\":[],\"estimated_seconds\":1,\"notes\":[]");
  CHECK_THAT(dir.Report(), Catch::Contains("plan.json: is no plan: it has no stacks"));
  for (const char* name : {"plan.json", "inputs/inputs.json"}) {
    Damaged other;
    other.Replace(name, "\"schema_version\": 1", "\"schema_version\": 9");
    const auto job = report::Recompute(other.At(""));
    REQUIRE_FALSE(job.ok());
    CHECK(ErrorOf(job.status()).code == "schema_version");
  }
}
