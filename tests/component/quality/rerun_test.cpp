// What a run does to passes that are there already: kept, run again, replaced or left alone; and what a plan
// takes of a tokenize endpoint that is not always there.
#include <catch2/catch.hpp>
#include <map>

#include "common/base/files.h"
#include "common/quality/directory.h"
#include "tests/component/quality/bench_setup.h"

namespace poolmark::quality {
namespace {

using test::Answering;
using test::FakeEngine;
using test::FakeEngineOptions;
using test::QualityBench;

std::string Text(const QualityBench& bench, const std::string& name) {
  return ReadFile(bench.out() + "/" + name).value();
}

}  // namespace

TEST_CASE("an engine that answers nothing takes no good pass away") {
  test::RunOnce once;
  QualityBench& bench = once.bench;
  bench.options.reference_url = "";
  bench.options.tokenize_url = once.engine.url();
  const std::string arm = Text(bench, "arm_candidate.json");
  const std::string answers = Text(bench, "answers_candidate.jsonl");
  REQUIRE(AtomicWriteFile(bench.out() + "/summary.json", "{}").ok());

  FakeEngineOptions refusing = Answering();
  std::string said;
  int sent = 0;
  SECTION("the key is refused with the list of models") {
    refusing.models_status = GENERATE(401, 403);
    refusing.status = [&](bool, int) { return refusing.models_status; };
    said = "answers " + std::to_string(refusing.models_status) + " to no key";
  }
  SECTION("every request is refused, models are listed to anybody") {
    refusing.models = {"m"};
    refusing.status = [](bool, int) { return 401; };
    said = "not one of the requests of candidate succeeded (HTTP 401: ";
    sent = QualityBench::kQuestions;
  }
  FakeEngine bad(refusing);
  bench.options.candidate_url = bad.url();
  const Result<RunReport> run = bench.TryRun();
  REQUIRE(!run.ok());
  CHECK_THAT(std::string(run.status().message()), Catch::Contains(said) && Catch::Contains("stand"));
  CHECK(bad.measured() == sent);
  CHECK(Text(bench, "arm_candidate.json") == arm);
  CHECK(Text(bench, "answers_candidate.jsonl") == answers);
  CHECK(FileExists(bench.out() + "/summary.json"));

  // One answer is a pass: what fails in it is data.
  refusing.models_status = 0;
  refusing.status = [](bool store, int number) { return !store && number == 3 ? 0 : 400; };
  FakeEngine mostly(refusing);
  bench.options.candidate_url = mostly.url();
  CHECK(bench.Run().failed_questions == QualityBench::kQuestions - 1);
  CHECK(Text(bench, "arm_candidate.json") != arm);
}

TEST_CASE("a pass of which every request failed is an error, not a pass") {
  QualityBench bench;
  FakeEngineOptions failing = Answering();
  failing.status = [](bool, int) { return 400; };
  FakeEngine bad(failing), good(Answering());
  bench.options.tokenize_url = good.url();
  std::string label = "candidate";
  SECTION("a candidate") {
    bench.options.candidate_url = bad.url();
  }
  SECTION("a reference, before the candidate is asked anything") {
    label = "reference_1";
    bench.options.reference_url = bad.url();
    bench.options.candidate_url = good.url();
  }
  const Status refused = bench.TryRun().status();
  CHECK_THAT(std::string(refused.message()),
             Catch::Contains("not one of the requests of " + label + " succeeded (HTTP 400: ") &&
                 Catch::Contains("told to fail") && Catch::Contains("it is not saved") &&
                 !Catch::Contains("stands"));
  CHECK(good.bodies().empty());
  CHECK(ListDir(bench.out()).value() == std::vector<std::string>{"manifest.jsonl", "plan.json"});
}

TEST_CASE("an engine that takes store requests and answers nothing is data, told clearly") {
  test::TwoArms arms([] {
    FakeEngineOptions options = Answering();
    options.status = [](bool store, int) { return store ? 0 : 400; };
    return options;
  }());
  CHECK(arms.bench.Run().failed_questions == QualityBench::kQuestions);
  CHECK_THAT(arms.bench.notes,
             Catch::Contains("candidate took its store requests and answered not one of its 24 questions"));
  CHECK(Directory(arms.bench.out()).Load(false)->passes.size() == 3);
}

TEST_CASE("what could not be read again is not saved, and takes nothing away", "[K2][K5]") {
  test::TwoArms arms;
  QualityBench& bench = arms.bench;
  bench.Run();
  const Directory whole(bench.out());
  REQUIRE(whole.SaveResults("rows", "statistics", "summary").ok());
  const LoadedDirectory before = whole.Load(true).value();
  const Pass& candidate = before.passes.back();
  const auto files = [&] {
    std::map<std::string, std::string> out;
    const std::vector<std::string> names = ListDir(bench.out()).value();
    for (const std::string& name : names) out[name] = ReadFile(bench.out() + "/" + name).value();
    return out;
  };
  const std::map<std::string, std::string> stored = files();
  const std::string answers = stored.at("answers_candidate.jsonl");
  const auto why = [](const Status& status) { return std::string(status.message()); };

  // As large as the limit is saved and read; one byte more is not.
  const std::string larger = answers + "\n";
  const Directory limited(bench.out(), answers.size());
  const Status refused = limited.SavePass(candidate.arm, larger, candidate.requests, true);
  CHECK_THAT(why(refused), Catch::Contains("answers_candidate.jsonl") &&
                               Catch::Contains("would have " + std::to_string(larger.size()) +
                                               " bytes, at most " + std::to_string(answers.size())) &&
                               Catch::Contains("this pass is not saved, the earlier pass stands"));
  CHECK(files() == stored);
  Arm control = candidate.arm;
  control.role = control.label = "control";
  CHECK_THAT(why(limited.SavePass(control, larger, {}, true)), !Catch::Contains("stands"));
  CHECK(files() == stored);
  const Directory tiny(bench.out(), 10);
  CHECK_THAT(why(tiny.SavePass(candidate.arm, "short", {}, true)), Catch::Contains("arm_candidate.json"));
  CHECK_THAT(why(tiny.SaveResults("rows", "statistics", "longer than ten")),
             Catch::Contains("summary.json") && Catch::Contains("this comparison is not saved"));
  CHECK_THAT(why(tiny.SavePlan(before.plan)),
             Catch::Contains("manifest.jsonl") && Catch::Contains("no plan is written"));
  // The plan itself is the larger of its two files.
  const Directory below_plan(bench.out(), stored.at("plan.json").size() - 1);
  REQUIRE(stored.at("manifest.jsonl").size() < stored.at("plan.json").size());
  CHECK_THAT(why(below_plan.SavePlan(before.plan)), Catch::Contains("plan.json"));
  CHECK_FALSE(below_plan.LoadPlan().ok());
  CHECK(files() == stored);

  REQUIRE(limited.SavePass(candidate.arm, answers, candidate.requests, true).ok());
  CHECK(limited.LoadPass(before.plan, "candidate", true).ok());
  const Directory at_plan(bench.out(), stored.at("plan.json").size());
  REQUIRE(at_plan.SavePlan(before.plan).ok());
  CHECK(at_plan.LoadPlan().ok());
}

TEST_CASE("resume keeps what analyze will read and runs the rest again") {
  test::RunOnce once;
  QualityBench& bench = once.bench;
  bench.options.resume = true;
  CHECK(bench.Run().kept == std::vector<std::string>{"reference_1", "reference_2", "candidate"});
  CHECK_THAT(bench.notes, !Catch::Contains("cannot be kept"));

  const std::string answers = Text(bench, "answers_candidate.jsonl");
  std::string named = "answers_candidate.jsonl:1";
  SECTION("a line is cut in its middle") {
    const size_t line = answers.find('\n');
    REQUIRE(AtomicWriteFile(bench.out() + "/answers_candidate.jsonl",
                            answers.substr(0, line / 2) + answers.substr(line))
                .ok());
  }
  SECTION("answers are missing at the end") {
    named = "answers_candidate.jsonl: holds 1 answers";
    REQUIRE(
        AtomicWriteFile(bench.out() + "/answers_candidate.jsonl", answers.substr(0, answers.find('\n') + 1))
            .ok());
  }
  SECTION("the arm file is half") {
    named = "arm_candidate.json";
    REQUIRE(AtomicWriteFile(bench.out() + "/arm_candidate.json", "{").ok());
  }
  SECTION("the arm file is empty") {
    named = "arm_candidate.json";
    REQUIRE(AtomicWriteFile(bench.out() + "/arm_candidate.json", "").ok());
  }
  CHECK(!Directory(bench.out()).Load(false).ok());
  const RunReport again = bench.Run();
  CHECK(again.kept == std::vector<std::string>{"reference_1", "reference_2"});
  CHECK(again.saved == std::vector<std::string>{"candidate"});
  CHECK_THAT(bench.notes, Catch::Contains("candidate: the pass in the directory cannot be kept") &&
                              Catch::Contains(named));
  CHECK(Directory(bench.out()).Load(false).ok());
}

TEST_CASE("an arm file that cannot be read stands in the way of other roles alone") {
  test::RunOnce once;
  QualityBench& bench = once.bench;
  const std::string file = bench.out() + "/arm_candidate.json";
  std::string arm = ReadFile(file).value();
  REQUIRE(AtomicWriteFile(file, "{").ok());
  bench.options.candidate_url = "";
  const int before = once.engine.measured();
  CHECK_THAT(std::string(bench.TryRun().status().message()),
             Catch::Contains(file) && Catch::Contains("run this arm again, or delete the file"));
  CHECK(once.engine.measured() == before);
  bench.options.candidate_url = once.engine.url();
  bench.options.reference_url = "";
  CHECK(bench.Run().saved == std::vector<std::string>{"candidate"});
  CHECK(Directory(bench.out()).Load(false)->passes.size() == 3);
  // Another schema is refused whoever runs.
  const size_t at = arm.find("\"schema_version\": ") + 18;
  arm.replace(at, arm.find(',', at) - at, "99");
  REQUIRE(AtomicWriteFile(file, arm).ok());
  CHECK_THAT(std::string(bench.TryRun().status().message()), Catch::Contains("schema_version is 99"));
  CHECK(ReadFile(file).value() == arm);
}

TEST_CASE("a tokenize endpoint that is busy for a moment costs no plan", "[K11]") {
  std::string calm;
  {
    QualityBench bench;
    FakeEngine engine(Answering());
    bench.options.reference_url = engine.url();
    bench.Run();
    calm = Directory(bench.out()).LoadPlan().value()->prompts_digest;
    CHECK(bench.slept() == Nanoseconds(0));
    CHECK_THAT(bench.notes, !Catch::Contains("asked again"));
  }
  QualityBench bench;
  FakeEngineOptions options = Answering();
  int calls_when_lost = 0;
  SECTION("twice in a row") {
    options.tokenize_status = [](int number) { return number == 60 || number == 61 ? 503 : 0; };
    FakeEngine engine(options);
    bench.options.reference_url = engine.url();
    bench.Run();
    CHECK(Directory(bench.out()).LoadPlan().value()->prompts_digest == calm);
    CHECK(bench.slept() == std::chrono::milliseconds(1500));
    CHECK_THAT(bench.notes, Catch::Contains("/tokenize was asked again 2 times after errors that may pass, " +
                                            std::to_string(engine.tokenized() - 2) + " answers were needed"));
    return;
  }
  SECTION("for good") {
    options.tokenize_status = [](int number) { return number >= 60 ? 503 : 0; };
    calls_when_lost = 63;
  }
  SECTION("by a refusal that waiting does not mend") {
    options.tokenize_status = [](int number) { return number == 60 ? 400 : 0; };
    calls_when_lost = 61;
  }
  FakeEngine engine(options);
  bench.options.reference_url = engine.url();
  CHECK_THAT(std::string(bench.TryRun().status().message()),
             Catch::Contains("/tokenize: answered " + std::string(calls_when_lost == 63 ? "503" : "400")));
  CHECK(engine.tokenized() == calls_when_lost);
}

}  // namespace poolmark::quality
