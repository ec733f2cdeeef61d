// A verdict never rests on evidence that is not there: each piece that is taken out of a repeat, or made to
// say something else than the job and the plan, makes it invalid by name; each that is taken out of the
// manifest holds the result back from publication.
#include <catch2/catch.hpp>
#include <functional>
#include <nlohmann/json.hpp>

#include "common/base/files.h"
#include "common/base/json.h"
#include "common/base/zstd_file.h"
#include "common/report/command_lines.h"
#include "common/report/compare.h"
#include "common/report/html.h"
#include "common/report/recompute.h"
#include "common/report/text.h"
#include "tests/unit/report/edited.h"

using namespace poolmark;
using poolmark::test::Edited;

namespace {

const std::string kDirectory = "points/cand/code-c4/repeat_2";

using Change = Edited::Change;

struct Case {
  std::string what;
  Change change;
  std::string named;  // in the reason
};

const results::RepeatFile& Second(const report::Recomputed& job) {
  for (const auto& repeat : job.repeats) {
    if (results::DirectoryOf(repeat) == kDirectory) return repeat;
  }
  FAIL("the repeat is gone");
  return job.repeats.front();
}

std::string ReasonsOf(const results::RepeatFile& repeat) {
  std::string out;
  for (const auto& reason : repeat.figures.reasons)
    out += std::string(stats::ReasonName(reason.reason)) + ": " + reason.detail + "\n";
  return out;
}

Json& EvidenceOf(Json& repeat) {
  return repeat["facts"]["evidence"];
}

}  // namespace

TEST_CASE("the example is valid and publishable as it is", "[I9]") {
  Edited dir;
  const auto job = dir.Judged();
  for (const auto& problem : job.problems) UNSCOPED_INFO(problem.path + ": " + problem.message);
  CHECK(job.problems.empty());
  CHECK(job.differences.empty());
  CHECK(job.summary.verdict == "VALID");
  for (const auto& line : job.summary.held_back_by) UNSCOPED_INFO(line);
  CHECK(job.summary.publishable);
}

TEST_CASE("evidence that was taken out, or that contradicts the job, makes a repeat invalid by name",
          "[I1][I2][I3][I4][I5][I6][I7][I8]") {
  const auto set = [](const char* key, const Json& value) {
    return [key = std::string(key), value](Json& repeat) { EvidenceOf(repeat)[key] = value; };
  };
  const auto fact = [](const char* key, const Json& value) {
    return [key = std::string(key), value](Json& repeat) { repeat["facts"][key] = value; };
  };
  const std::vector<Case> cases = {
      {"no silences", set("silences", Json::array()), "evidence.silences says nothing of n1"},
      {"one silence less", [](Json& r) { EvidenceOf(r)["silences"].erase(1); },
       "silences says nothing of n2"},
      {"a longer silence allowed", set("silence_limit_seconds", 1e6), "silence_limit_seconds is 1000000"},
      {"no clocks", set("clocks", Json::array()), "evidence.clocks says nothing of n1"},
      {"one clock less", [](Json& r) { EvidenceOf(r)["clocks"].erase(0); }, "clocks says nothing of n1"},
      {"a clock that was not compared", [](Json& r) { EvidenceOf(r)["clocks"][1]["measured"] = false; },
       "n2: its clock was not compared"},
      {"a wider clock limit", set("clock_limit_seconds", 5.0), "clock_limit_seconds is 5"},
      {"no limit for the clock", set("clock_limit_seconds", 0.0), "clock_limit_seconds is 0"},
      {"a reset that only the facts know", [](Json& r) { r["facts"]["engines"][0]["reset"] = true; },
       "its counters began anew by the facts"},
      {"no engines", fact("engines", Json::array()), "facts.engines says nothing of cand.engine-n1"},
      {"no paths", set("paths", Json::array()), "evidence.paths says nothing of n2 to n1"},
      {"another path meant", [](Json& r) { EvidenceOf(r)["paths"][0]["intended"] = "rdma"; },
       "n2 to n1 intends 'rdma', plan.json says 'tcp'"},
      {"fewer bytes expected", [](Json& r) { EvidenceOf(r)["paths"][0]["expected_bytes"] = 0.0; },
       "the bytes of n2 to n1 are not those of facts.transfers"},
      {"no transfers", fact("transfers", Json::array()), "facts.transfers says nothing of n2 to n1"},
      {"blocks of another format that only the counter knows",
       [](Json& r) { r["facts"]["engines"][0]["deltas"]["poolmark_sim_kv_format_mismatch_total"] = 3.0; },
       "evidence.formats says nothing of it"},
      {"no tiers", [](Json& r) { EvidenceOf(r)["state"]["tiers"] = Json::array(); },
       "cand.engine-n1: nothing was read back"},
      {"no holders and no tiers",
       [](Json& r) {
         EvidenceOf(r)["state"]["tiers"] = Json::array();
         EvidenceOf(r)["state"]["holders"] = Json::array();
       },
       "evidence.state.holders leaves out cand.store-n2"},
      {"a state that was not asked for", [](Json& r) { EvidenceOf(r)["state"]["declared"] = "attached"; },
       "evidence.state.declared is 'attached', job.json says 'empty'"},
      {"compression that the plan does not have",
       [](Json& r) {
         EvidenceOf(r)["accuracy"]["compression"] = "fp8";
         EvidenceOf(r)["accuracy"]["verdict"] = "PASS";
       },
       "evidence.accuracy.compression is 'fp8', plan.json says 'none'"},
      {"an accuracy result that is not there", [](Json& r) { EvidenceOf(r)["accuracy"]["verdict"] = "PASS"; },
       "quality/cand/summary.json is missing or cannot be read, evidence.accuracy says PASS"},
      {"another job", fact("job_id", "job-2"), "facts.job_id is 'job-2', job.json says 'job-1'"},
      {"another strategy", fact("strategy", "local"), "facts.strategy is 'local', plan.json says 'shared'"},
      {"fewer GPUs", fact("gpus", 1), "facts.gpus is '1', plan.json says '4'"},
      {"the baseline", fact("baseline", true), "facts.baseline is 'true', job.json says 'false'"},
      {"another shape", fact("shape", "trace"), "facts.shape is 'trace', job.json says 'agentic'"},
      {"no held load", fact("held_load", false), "facts.held_load is 'false'"},
      {"another clock of latency", fact("open_loop", true), "facts.open_loop is 'true'"},
      {"no SLO", fact("slos", Json::array()), "facts.slos is 'none', job.json says 'mlperf-llama2-70b'"},
  };
  for (const Case& one : cases) {
    Edited dir;
    dir.Edit(kDirectory + "/repeat.json", one.change);
    const auto job = dir.Judged();
    INFO(one.what);
    CHECK_FALSE(Second(job).figures.valid);
    CHECK_THAT(ReasonsOf(Second(job)), Catch::Contains(one.named));
    CHECK_FALSE(job.differences.empty());
    const std::string text = report::ReportText(job);
    CHECK(text.find("Every stored figure") == std::string::npos);
    for (const auto& repeat : job.repeats) {
      if (results::DirectoryOf(repeat) != kDirectory) CHECK(repeat.figures.valid);
    }
  }
}

TEST_CASE("evidence in other files that is gone makes repeats invalid by name", "[I3][I7][I8]") {
  SECTION("the plan") {
    Edited dir;
    REQUIRE(RemoveTree(dir.path() + "/plan.json").ok());
    const auto job = dir.Judged();
    CHECK(job.summary.verdict == "INVALID");
    CHECK_THAT(ReasonsOf(Second(job)), Catch::Contains("not_judged: plan.json is missing"));
  }
  SECTION("that the plan's engines are simulated, which the facts would have real") {
    Edited dir;
    dir.Edit("plan.json", [](Json& plan) { plan["stacks"][1]["simulated"] = true; });
    CHECK_THAT(ReasonsOf(Second(dir.Judged())),
               Catch::Contains("facts.simulated is 'false', plan.json says 'true'"));
  }
  SECTION("the stack in the plan") {
    Edited dir;
    dir.Edit("plan.json", [](Json& plan) { plan["stacks"].erase(1); });
    CHECK_THAT(ReasonsOf(Second(dir.Judged())), Catch::Contains("plan.json has no stack 'cand'"));
  }
  SECTION("the repeat in the plan") {
    Edited dir;
    dir.Edit("plan.json", [](Json& plan) { plan["cycles"] = Json::array(); });
    CHECK_THAT(ReasonsOf(Second(dir.Judged())), Catch::Contains("plans no repeat 2 of cand code-c4"));
  }
  SECTION("the workload in the job") {
    Edited dir;
    dir.Edit("job.json", [](Json& file) { file["workloads"] = Json::array(); });
    CHECK_THAT(ReasonsOf(Second(dir.Judged())), Catch::Contains("job.json has no workload 'code'"));
  }
  SECTION("the samples of a machine, also of one without an engine") {
    for (const char* machine : {"n1", "n2"}) {
      Edited dir;
      const std::string name = std::string("samples/") + machine + ".jsonl.zst";
      REQUIRE(RemoveTree(dir.path() + "/" + kDirectory + "/" + name).ok());
      CHECK_THAT(ReasonsOf(Second(dir.Judged())), Catch::Contains("not_judged: " + name + " is missing"));
    }
  }
  SECTION("the records") {
    Edited dir;
    dir.Write(kDirectory + "/requests.jsonl.zst", "nothing");
    const auto job = dir.Judged();
    CHECK_FALSE(Second(job).figures.valid);
    CHECK_THAT(ReasonsOf(Second(job)), Catch::Contains("not_judged: requests.jsonl.zst cannot be read"));
  }
  SECTION("a restart that only the samples know") {
    Edited dir;
    auto out = ZstdWriter::Create(dir.path() + "/" + kDirectory + "/samples/n2.jsonl.zst");
    REQUIRE(out.ok());
    REQUIRE(
        (*out)
            ->Write(
                "{\"schema_version\":1,\"machine\":\"n2\",\"wall_start\":\"\"}\n"
                "{\"reset\":\"the process started anew\",\"at\":600000000000,\"source\":\"cand.router-n2\","
                "\"of\":0}\n")
            .ok());
    REQUIRE((*out)->Finish().ok());
    CHECK_THAT(ReasonsOf(Second(dir.Judged())),
               Catch::Contains("counter_backwards: cand.router-n2: its counters began anew by the samples"));
  }
  SECTION("an accuracy result that says something else") {
    Edited dir;
    dir.Write("quality/cand/summary.json", R"({"schema_version":1,"verdict":"FAIL"})");
    dir.Edit("plan.json", [](Json& plan) { plan["stacks"][1]["kv"]["compression"] = "fp8"; });
    dir.Edit(kDirectory + "/repeat.json", [](Json& repeat) {
      EvidenceOf(repeat)["accuracy"]["compression"] = "fp8";
      EvidenceOf(repeat)["accuracy"]["verdict"] = "PASS";
    });
    CHECK_THAT(ReasonsOf(Second(dir.Judged())),
               Catch::Contains("quality/cand/summary.json says FAIL, evidence.accuracy says PASS"));
  }
  SECTION("an accuracy run that lies nowhere") {
    Edited dir;
    const auto page = [&](const std::string& directory) {
      dir.Edit(kDirectory + "/repeat.json", [&](Json& repeat) {
        EvidenceOf(repeat)["accuracy"]["compression"] = "fp8";
        EvidenceOf(repeat)["accuracy"]["directory"] = directory;
      });
      return report::ReportPage(dir.Judged());
    };
    CHECK_THAT(page("quality/cand"), Catch::Contains("<a href=\"quality/cand/report.html\">"));
    CHECK_THAT(page("javascript:alert(1)//"), !Catch::Contains("href=\"javascript"));
  }
}

TEST_CASE("a repeat that did not run to its end keeps that as its only reason", "[I8]") {
  Edited dir;
  dir.Edit(kDirectory + "/repeat.json", [](Json& repeat) {
    EvidenceOf(repeat)["interrupted"] = "n2 went away";
    EvidenceOf(repeat)["clocks"] = Json::array();
  });
  CHECK(ReasonsOf(Second(dir.Judged())) == "interrupted: n2 went away\n");
}

TEST_CASE("what the manifest does not have holds a result back from publication", "[I9][F1][F4]") {
  const std::vector<Case> cases = {
      {"no machines", [](Json& m) { m["machines"] = Json::array(); }, "n1 recorded no tool"},
      {"one machine less", [](Json& m) { m["machines"].erase(1); }, "n2 recorded no tool"},
      {"no tools", [](Json& m) { m["machines"][0]["tools"] = Json::array(); }, "n1 recorded no tool"},
      {"no series", [](Json& m) { m["series"] = Json::array(); },
       "prompt token sources was read through vllm:prompt_tokens_total, which the manifest does not name"},
      {"one series less",
       [](Json& m) {
         Json kept = Json::array();
         for (const Json& series : m["series"]) {
           if (series["series"] != "vllm:kv_cache_usage_perc") kept.push_back(series);
         }
         m["series"] = kept;
       },
       "GPU KV usage was read through vllm:kv_cache_usage_perc, which the manifest does not name"},
      {"an unconfirmed series", [](Json& m) { m["series"][0]["confirmed"] = false; }, "is not confirmed"},
      {"no engines", [](Json& m) { m["engines"] = Json::array(); },
       "does not list cand.engine-n1 as it was read"},
      {"another version", [](Json& m) { m["engines"][0]["version"] = "0.1"; },
       "does not list base.engine-n1 as it was read"},
  };
  for (const Case& one : cases) {
    Edited dir;
    dir.Edit("manifest.json", one.change);
    const auto job = dir.Judged();
    INFO(one.what);
    CHECK_FALSE(job.summary.publishable);
    std::string held;
    for (const std::string& line : job.summary.held_back_by) held += line + "\n";
    CHECK_THAT(held, Catch::Contains(one.named));
  }
  Edited dir;
  dir.Edit(kDirectory + "/repeat.json", [](Json& repeat) {
    repeat["facts"]["switch_power"] = Json::array({Json{
        {"name", "leaf1"}, {"input_watts", Json::array()}, {"ports_used", nullptr}, {"ports_up", nullptr}}});
  });
  std::string held;
  for (const std::string& line : dir.Judged().summary.held_back_by) held += line + "\n";
  CHECK_THAT(held, Catch::Contains("switch leaf1 has readings, but the manifest does not list it"));
}

TEST_CASE("a window that was chosen afterwards is found by the load's own", "[H3][I8]") {
  Edited dir;
  dir.Edit(kDirectory + "/repeat.json", [](Json& repeat) {
    repeat["facts"]["measured_from"] = 500.0;
    repeat["facts"]["measured_to"] = 900.0;
  });
  const std::string text = report::ReportText(dir.Judged());
  CHECK_THAT(text, Catch::Contains("facts.measured_from") && Catch::Contains("facts.measured_to"));
}

TEST_CASE("a repeat that was taken out is missed, and the verdict is no longer that of the whole",
          "[I8][C28]") {
  Edited dir;
  REQUIRE(RemoveTree(dir.path() + "/points/cand").ok());
  const auto job = dir.Judged();
  CHECK(job.summary.verdict == "INCOMPLETE");
  CHECK_THAT(report::ReportText(job),
             Catch::Contains("points/cand/code-c4/repeat_1/repeat.json: is missing"));
}

TEST_CASE("a comparison names other kernels, systems, drivers and firmware", "[M26]") {
  Edited first, other;
  other.Edit("manifest.json", [](Json& manifest) {
    for (Json& machine : manifest["machines"]) {
      machine["kernel"] = "6.9";
      machine["os"] = "Debian 13";
      machine["gpus"][0]["driver"] = "560";
    }
  });
  (void)first.Judged();
  (void)other.Judged();
  const auto comparison = report::CompareDirectories({first.path(), other.path()}, {});
  REQUIRE(comparison.ok());
  CHECK_FALSE(comparison->refused());
  std::string unlike;
  for (const auto& one : comparison->unlike) unlike += one.what + ": " + one.first + " / " + one.other + "\n";
  CHECK_THAT(unlike, Catch::Contains("kernel: ") && Catch::Contains("6.9") &&
                         Catch::Contains("operating system: ") &&
                         Catch::Contains("GPU driver: 550 / 550, 560"));
}

TEST_CASE("two jobs whose engines were started otherwise say in which words", "[E13]") {
  Edited first, other;
  const auto start = [](Edited* directory, const std::string& port, const std::string& blocks) {
    directory->Edit("manifest.json", [&](Json& manifest) {
      for (Json& engine : manifest["engines"]) {
        engine["role"] = "engine";
        engine["argv"] = {"serve",     "--host",   "10.0.0." + blocks, "--port", port,
                          "--api-key", "k" + port, "--num-gpu-blocks", blocks};
      }
    });
    (void)directory->Judged();
  };
  start(&first, "8000", "1");
  start(&other, "8001", "1");
  auto comparison = report::CompareDirectories({first.path(), other.path()}, {});
  REQUIRE(comparison.ok());
  for (const auto& one : comparison->unlike) CHECK_THAT(one.what, !Catch::Contains("command line"));
  start(&other, "8001", "2");
  comparison = report::CompareDirectories({first.path(), other.path()}, {});
  REQUIRE(comparison.ok());
  CHECK_FALSE(comparison->refused());
  CHECK_THAT(report::ComparisonText(*comparison),
             Catch::Contains("command line of engine is --num-gpu-blocks 2, in the first it is "
                             "--num-gpu-blocks 1") &&
                 !Catch::Contains("k8001") && !Catch::Contains("10.0.0"));
}

TEST_CASE("words of a command line that a job chooses anew do not count", "[E13]") {
  using Words = std::set<std::string>;
  const auto words = [](const std::vector<std::string>& argv) {
    return report::WordsThatCount(argv, "job-7", "pooled");
  };
  CHECK(words({"engine", "--metrics-port", "90", "--kv-bytes-per-token", "256", "--hf-token=x", "-1"}) ==
        Words{"engine", "--kv-bytes-per-token 256", "-1"});
  CHECK(words({"--store", "redis://store.example:6379/0", "--peers", "10.1.2.3:80,10.1.2.4:81"}) ==
        Words{"--store redis://store.example:PORT/0", "--peers ADDRESS:PORT,ADDRESS:PORT"});
  CHECK(words({"--prefix", "poolmark-job-7-pooled", "--dir", "/var/lib/a/job-7/kv", "--ratio", "1:2"}) ==
        Words{"--prefix poolmark-JOB-STACK", "--dir JOB/kv", "--ratio 1:2"});
  CHECK(words({"--kv", R"({"kv_port": 14579, "auth_key":"open", "rank":3})", "--version", "1.2.3.4.5"}) ==
        Words{R"(--kv {"kv_port": PORT, "auth_key":"SECRET", "rank":3})", "--version 1.2.3.4.5"});
  CHECK(words({"--", "-", "--a=", "\":", "\"key\":\""}).size() == 4);
}

TEST_CASE("a reusable share that was not computed again is named", "[I8]") {
  const auto judged = [](const std::function<void(Edited*)>& edit) {
    Edited directory;
    edit(&directory);
    const auto job = directory.Judged();
    return report::ReportText(job) + *report::ReportJson(job);
  };
  CHECK_THAT(judged([](Edited*) {}),
             Catch::Contains("follows from the files, except what was not computed again: the reusable share "
                             "of workload code, whose input was too big to keep.") &&
                 Catch::Contains("unchecked"));
  CHECK_THAT(judged([](Edited* directory) {
               directory->Edit("job.json", [](Json& job) { job["workloads"][0]["options"] = ""; });
             }),
             Catch::Contains("file: job.json: job.json does not say the settings of workload code") &&
                 !Catch::Contains("Every stored figure"));
  CHECK_THAT(judged([](Edited* directory) {
               directory->Edit("inputs/inputs.json", [](Json& inputs) { inputs["inputs"].erase(1); });
             }),
             Catch::Contains("file: job.json: job.json does not name the input of workload code"));
}

TEST_CASE("a comparison says which of its directories do not follow from their files", "[I8]") {
  Edited good, edited;
  (void)good.Judged();
  edited.Edit(kDirectory + "/repeat.json",
              [](Json& repeat) { EvidenceOf(repeat)["clocks"] = Json::array(); });
  (void)edited.Judged();
  const auto comparison = report::CompareDirectories({good.path(), edited.path()}, {});
  REQUIRE(comparison.ok());
  std::string notes;
  for (const std::string& note : comparison->notes) notes += note + "\n";
  CHECK_THAT(notes, Catch::Contains(edited.path()) && Catch::Contains("do not follow from the files"));
  CHECK(comparison->damaged);
  CHECK_THAT(report::ComparisonText(*comparison), Catch::Contains("damaged: "));
  CHECK(comparison->jobs.at(1).points.at(1).repeats.at(1).valid == false);
}
