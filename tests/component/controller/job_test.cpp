// A job through all seven steps over fake agents, and what its engines and disks can do on the way.
#include "common/results/directory.h"
#include "common/results/layout.h"
#include "common/results/samples.h"
#include "common/results/sums.h"
#include "tests/component/controller/fixture.h"

namespace poolmark::test {
namespace {

using controller::StateName;

TEST_CASE("one job through all seven steps to a result that counts", "[C1][L1]") {
  ControllerFixture f;
  const std::string id = f.Submit(f.Request());
  v1::Job job = f.Finished(id);
  CHECK(StateName(job.state()) == "SUCCEEDED");
  CHECK(job.teardown() == v1::TEARDOWN_VERDICT_CLEAN);
  CHECK(f.States(id) == std::vector<std::string>{"SUBMITTED", "QUEUED", "PREFLIGHT", "LAUNCHING", "VERIFYING",
                                                 "BENCHMARKING", "COLLECTING", "TEARING_DOWN", "SUCCEEDED"});
  CHECK(f.pool.at("n0").Processes().empty());
  CHECK(f.pool.at("n1").Processes().empty());
  CHECK(f.store->Machines()->at(0).job_id.empty());
  auto read = results::ReadDirectory(f.Results(id));
  REQUIRE(read.ok());
  for (const auto& problem : read->problems) UNSCOPED_INFO(problem.path << ": " << problem.message);
  CHECK(read->problems.empty());
  CHECK(read->job.state == "SUCCEEDED");
  REQUIRE(read->repeats.size() == 1);
  CHECK(read->repeats[0].figures.valid);
  CHECK(read->repeats[0].figures.requests.requests == 20);
  REQUIRE(read->summary);
  CHECK(read->verifies.at(1).passed);
  CHECK(read->teardowns.at(1).outcome == "CLEAN");
  REQUIRE(read->preflight);
  CHECK(read->preflight->passed);
  auto sums = results::CheckSums(f.Results(id));
  REQUIRE(sums.ok());
  CHECK(sums->empty());
}

TEST_CASE("a canary prompt that an engine fails is sent again, within bounds", "[I6]") {
  ControllerFixture f;
  f.pool.failing_answers = 3;
  const std::string id = f.Submit(f.Request());
  CHECK(StateName(f.Finished(id).state()) == "SUCCEEDED");
  CHECK(f.pool.failing_answers == 0);
  auto read = results::ReadDirectory(f.Results(id));
  REQUIRE(read.ok());
  REQUIRE(read->repeats.size() == 1);
  const auto& state = read->repeats[0].facts.evidence.state;
  CHECK(state.holders == std::vector<std::string>{"base.engine-n0", "base.engine-n1"});
  REQUIRE(state.tiers.size() == 2);
  for (const auto& tier : state.tiers) {
    CHECK(tier.method == "canary");
    CHECK(tier.held.has_value());
    CHECK(tier.held.value_or(1) == 0);
  }
}

TEST_CASE("an engine that fails every canary prompt is named, not its agent, and measured nothing",
          "[I6][H9]") {
  ControllerFixture f;
  f.pool.failing_answers = 1000;
  const std::string id = f.Submit(f.Request());
  const v1::Job job = f.Finished(id);
  CHECK(StateName(job.state()) == "INVALID");
  REQUIRE(job.reasons_size() >= 1);
  CHECK(job.reasons(0).code() == "engine_failed");
  CHECK_THAT(job.reasons(0).message(), Catch::Contains("asking the canary prompt of base.engine-n0") &&
                                           Catch::Contains("HTTP 500: no luck"));
  CHECK(f.pool.failing_answers == 995);  // five tries
  auto read = results::ReadDirectory(f.Results(id));
  REQUIRE(read.ok());
  REQUIRE(read->repeats.size() == 1);
  CHECK(read->repeats[0].figures.warnings.empty());
  CHECK(read->repeats[0].figures.measured_line == "Nothing was measured");
  REQUIRE(read->repeats[0].figures.reasons.size() == 1);
  CHECK(read->repeats[0].figures.reasons[0].reason == stats::Reason::kInterrupted);
}

TEST_CASE("an engine without reset and gauge is started anew before every repeat and asked", "[I6][C4]") {
  ControllerFixture f;
  std::string stack = *ReadFile(Source("deploy/stacks/sim-local.yaml"));
  for (const char* line : {"    reset: {http: POST /reset_prefix_cache}\n", "    empty: canary\n"}) {
    REQUIRE(stack.find(line) != std::string::npos);
    stack.erase(stack.find(line), std::string(line).size());
  }
  v1::SubmitJobRequest request = f.Request(2);
  for (v1::JobInput& input : *request.mutable_inputs()) {
    if (input.path() != "job.yaml") continue;
    std::string text = *ReadFile(f.inputs->PathOf(input.sha256()));
    text.replace(text.find("use: sim-local"), std::string("use: sim-local").size(), "use: bare.yaml");
    input.set_sha256(f.Upload(text));
    input.set_size(text.size());
  }
  v1::JobInput* added = request.add_inputs();
  added->set_path("bare.yaml");
  added->set_sha256(f.Upload(stack));
  added->set_size(stack.size());
  const std::string id = f.Submit(request);
  CHECK(StateName(f.Finished(id).state()) == "SUCCEEDED");
  CHECK(f.pool.launched == 6);  // two engines: the launch, and once before each of two repeats
  auto read = results::ReadDirectory(f.Results(id));
  REQUIRE(read.ok());
  REQUIRE(read->repeats.size() == 2);
  for (const auto& repeat : read->repeats) {
    CHECK(repeat.figures.valid);
    std::map<std::string, int> methods;
    for (const auto& tier : repeat.facts.evidence.state.tiers) ++methods[tier.method];
    CHECK(methods == std::map<std::string, int>{{"canary", 2}, {"restart", 2}});
  }
}

TEST_CASE("a failed check stops the job before anything is launched, and is named", "[C28]") {
  ControllerFixture f;
  f.pool.failing_checks = {"disk_space"};
  v1::Job job = f.Finished(f.Submit(f.Request()));
  CHECK(StateName(job.state()) == "FAILED");
  CHECK(job.teardown() == v1::TEARDOWN_VERDICT_CLEAN);
  CHECK(f.pool.launched == 0);
  REQUIRE(job.reasons_size() == 2);
  CHECK(job.reasons(0).check() == "disk_space");
  auto read = results::ReadDirectory(f.Results(job.id()));
  REQUIRE(read.ok());
  CHECK(read->job.failed_check == "disk_space");
}

TEST_CASE("an engine that streams nothing is stopped by Verify, on the API that the workload asks", "[C18]") {
  const bool chat_alone = GENERATE(false, true);
  const bool chat_asked = GENERATE(false, true);
  ControllerFixture f;
  f.pool.streams_nothing = true;
  f.pool.only_chat = chat_alone;
  v1::SubmitJobRequest request = f.Request();
  if (chat_asked) request = f.Request(1, "", {}, "api: chat, ");
  v1::Job job = f.Finished(f.Submit(request));
  if (chat_alone && !chat_asked) {
    CHECK(StateName(job.state()) == "SUCCEEDED");  // nobody asks what does not work
    return;
  }
  CHECK(StateName(job.state()) == "FAILED");
  CHECK(job.teardown() == v1::TEARDOWN_VERDICT_CLEAN);
  REQUIRE(job.reasons_size() >= 1);
  CHECK(job.reasons(0).check() == "tokens_through_router");
  CHECK_THAT(job.reasons(0).message(), Catch::Contains("the stream ended without any output"));
  auto read = results::ReadDirectory(f.Results(job.id()));
  REQUIRE(read.ok());
  CHECK(read->repeats.empty());
  CHECK_FALSE(read->verifies.at(1).passed);
}

TEST_CASE("machines of two NVLink fabrics or cliques stop a job, of one they pass") {
  ControllerFixture f;
  f.pool.fabrics = {{"n0", "c1/0"}, {"n1", "c1/1"}};
  v1::Job job = f.Finished(f.Submit(f.Request()));
  CHECK(StateName(job.state()) == "FAILED");
  CHECK(f.pool.launched == 0);
  REQUIRE(job.reasons_size() >= 1);
  CHECK(job.reasons(0).check() == "one_nvlink_fabric");
  CHECK_THAT(job.reasons(0).message(), Catch::Contains("c1/0 on n0; c1/1 on n1"));
  f.pool.fabrics["n1"] = "c1/0";
  CHECK(StateName(f.Finished(f.Submit(f.Request())).state()) == "SUCCEEDED");
}

TEST_CASE("a disk that fills under load ends the repeat at once, and the reason names it") {
  ControllerFixture f;
  f.pool.hold_load = true;
  f.pool.disks_fill = true;
  const std::string id = f.Submit(f.Request());
  const v1::Job job = f.Finished(id);
  CHECK(StateName(job.state()) == "INVALID");
  CHECK(job.teardown() == v1::TEARDOWN_VERDICT_CLEAN);
  REQUIRE(job.reasons_size() >= 1);
  CHECK(job.reasons(0).code() == "disk_full");
  CHECK_THAT(job.reasons(0).message(), Catch::Contains("the disk of /var/lib/poolmark-work is full"));
  CHECK((job.reasons(0).machine() == "n0" || job.reasons(0).machine() == "n1"));
}

// The usual job on one engine a machine, of a stack file of its own; `more`: keys of its engine.
v1::SubmitJobRequest OwnStack(ControllerFixture* f, const std::string& more = "") {
  const std::string stack =
      "version: 1\nstrategy: local\nengine: vllm\nparams: {model: m}\n"
      "processes: [{name: engine, role: engine, exec: poolmark, argv: [engine, --port, "
      "\"${port.http}\"], "
      "ports: [http], metrics: {port: http, dialect: vllm}, ready: {http: /health}, reset: {http: POST "
      "/reset_prefix_cache}, " +
      more + "empty: canary}]\nentry: engine.http\n";
  return f->WithStack(stack);
}

TEST_CASE("an engine of a version that its stack file is not for is stopped by Verify", "[C28]") {
  ControllerFixture f;  // its engines say 1.0
  const v1::Job job = f.Finished(f.Submit(OwnStack(&f, "compatible: \">=2\", ")));
  CHECK(StateName(job.state()) == "FAILED");
  REQUIRE(job.reasons_size() == 1);
  CHECK(job.reasons(0).check() == "versions");
  CHECK_THAT(job.reasons(0).message(),
             Catch::Contains("engine-n0 1.0, ") && Catch::Contains("correct `compatible`"));
  CHECK(f.pool.reset_seen == false);
  const std::string id = f.Submit(OwnStack(&f, "compatible: \">=0.9, <2\", "));
  CHECK(StateName(f.Finished(id).state()) == "SUCCEEDED");
  auto read = results::ReadDirectory(f.Results(id));
  REQUIRE(read.ok());
  const auto& checks = read->verifies.at(1).checks;
  CHECK(std::any_of(checks.begin(), checks.end(),
                    [](const auto& check) { return check.id == "versions" && check.outcome == "pass"; }));
}

TEST_CASE("an engine that says it is simulated is, whatever its stack file calls it") {
  ControllerFixture f;
  f.pool.simulated_series = true;
  const v1::SubmitJobRequest request = OwnStack(&f);
  const std::string id = f.Submit(request);
  CHECK(StateName(f.Finished(id).state()) == "SUCCEEDED");
  auto read = results::ReadDirectory(f.Results(id));
  REQUIRE(read.ok());
  REQUIRE(read->repeats.size() == 1);
  CHECK(read->repeats[0].facts.simulated);
  REQUIRE(read->summary);
  CHECK_FALSE(read->summary->publishable);
  REQUIRE(read->manifest);
  for (const auto& engine : read->manifest->engines) CHECK(engine.simulated);
  CHECK(read->job.stacks.at(0).simulated);
}

}  // namespace
}  // namespace poolmark::test
