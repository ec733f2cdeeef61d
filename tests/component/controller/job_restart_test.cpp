// Cancelled jobs, and jobs whose controller is started again in the middle of them.
#include "common/results/directory.h"
#include "common/results/layout.h"
#include "controller/runner/planning.h"
#include "controller/runner/recall.h"
#include "tests/component/controller/fixture.h"

namespace poolmark::test {
namespace {

using controller::StateName;

TEST_CASE("cancel in every state that holds machines: CANCELLED, torn down, complete files") {
  const std::string call =
      GENERATE("RunChecks", "StartProcess", "Probe", "ResetCaches", "StartSampling", "FetchFile", "Teardown");
  ControllerFixture f;
  auto gate = std::make_shared<Gate>(call);
  f.pool.SetHook(
      [gate](const std::string& m, const std::string& c, std::stop_token s) { return (*gate)(m, c, s); });
  const std::string id = f.Submit(f.Request());
  gate->AwaitReached();
  INFO("cancelled while " << StateName(f.Job(id).state()) << " in " << call);
  REQUIRE(f.jobs->Cancel(id, false, "ada").ok());
  gate->Open();
  v1::Job job = f.Finished(id);
  // The tear-down of a job that has all its results is not taken back.
  CHECK(StateName(job.state()) == (call == "Teardown" ? "SUCCEEDED" : "CANCELLED"));
  if (call != "Teardown") {
    REQUIRE(job.reasons_size() >= 1);
    CHECK(job.reasons(0).message() == "cancelled by ada");
  }
  CHECK(job.teardown() == v1::TEARDOWN_VERDICT_CLEAN);
  CHECK(f.pool.at("n0").Processes().empty());
  CHECK(results::ReadDirectory(f.Results(id)).ok());
  // Again, after the end: the same answer.
  CHECK(f.jobs->Cancel(id, true, "ada")->state() == job.state());
}

TEST_CASE("the controller comes back in every state: torn down, and on with what is left") {
  const std::string call = GENERATE("AcquireLease", "RunChecks", "StartProcess", "Probe", "ResetCaches",
                                    "StreamSamples", "FetchFile", "Teardown");
  ControllerFixture f;
  auto gate = std::make_shared<Gate>(call);
  f.pool.SetHook(
      [gate](const std::string& m, const std::string& c, std::stop_token s) { return (*gate)(m, c, s); });
  const std::string id = f.Submit(f.Request(2));
  gate->AwaitReached();
  INFO("restarted while " << StateName(f.Job(id).state()) << " in " << call);
  f.Restart();
  gate->Open();
  v1::Job job = f.Finished(id);
  CHECK(StateName(job.state()) == "SUCCEEDED");
  CHECK(job.teardown() == v1::TEARDOWN_VERDICT_CLEAN);
  CHECK(f.store->Repeats(id)->size() == 2);
  CHECK(f.pool.at("n0").Processes().empty());
  CHECK(f.pool.at("n1").Processes().empty());
}

TEST_CASE("a job of any two machines keeps those that it got over a restart, and touches no other") {
  ControllerFixture f({"n0", "n1", "n2"});
  REQUIRE(f.registry->Act("n0", v1::MACHINE_ACTION_DRAIN, "why", true).ok());
  auto gate = std::make_shared<Gate>("StreamSamples");
  auto touched = std::make_shared<std::atomic<int>>(0);
  f.pool.SetHook([gate, touched](const std::string& m, const std::string& c, std::stop_token s) {
    if (m == "n0" && (c == "AcquireLease" || c == "StartProcess" || c == "Teardown")) ++*touched;
    return (*gate)(m, c, s);
  });
  v1::SubmitJobRequest request = f.Request(2);
  f.AskForMachines(2, &request);
  const std::string id = f.Submit(request);
  gate->AwaitReached();
  const auto machines = [&] {
    const v1::Job job = f.Job(id);
    return std::vector<std::string>(job.machines().begin(), job.machines().end());
  };
  CHECK(machines() == std::vector<std::string>{"n1", "n2"});
  REQUIRE(f.registry->Act("n0", v1::MACHINE_ACTION_UNDRAIN, "", true).ok());
  f.Restart();
  gate->Open();
  const v1::Job job = f.Finished(id);
  CHECK(StateName(job.state()) == "SUCCEEDED");
  CHECK(job.teardown() == v1::TEARDOWN_VERDICT_CLEAN);
  CHECK(machines() == std::vector<std::string>{"n1", "n2"});
  CHECK(*touched == 0);
  CHECK(f.pool.at("n2").Processes().empty());
}

TEST_CASE("after a restart the preflight's line rates and calibration are read back") {
  ControllerFixture f;
  results::PreflightRecord file;
  file.passed = true;
  results::LineRate line;
  line.from = "n0";
  line.to = "n1";
  line.path = "tcp";
  line.tool = "iperf3";
  line.tool_version = "3.12";
  line.bits_per_second = 9e9;
  line.counted_per_byte = {{"net:eth0", 1.05}};
  file.line_rates.push_back(line);
  line.path = "rdma";
  line.tool = "ib_write_bw";
  line.bits_per_second = 390e9;
  line.counted_per_byte = {{"rdma:mlx5_0", 1.0}};
  file.line_rates.push_back(line);
  line.from = "n1";
  line.to = "n0";
  line.path = "tcp";
  line.tool = "";
  line.bits_per_second = NotMeasured{"no answer"};
  line.counted_per_byte.clear();
  file.line_rates.push_back(line);
  auto text = results::Encode(file);
  REQUIRE(text.ok());
  REQUIRE(AtomicWriteFile(f.dir / "preflight.json", *text, 0640).ok());
  controller::Plan plan;
  plan.machines = {"n0", "n1"};
  controller::JobRun run;
  run.registry = f.registry.get();
  run.plan = &plan;
  run.results_dir = std::string(f.dir / "");
  controller::RecallPreflight(&run);
  using Pair = std::pair<std::string, std::string>;
  CHECK(run.line_rate_bits == std::map<Pair, double>{{{"n0", "n1"}, 390e9}});
  CHECK(run.calibrations.at("n0").tcp == std::map<std::string, double>{{"net:eth0", 1.05}});
  CHECK(run.calibrations.at("n0").rdma == std::map<std::string, double>{{"rdma:mlx5_0", 1.0}});
  CHECK(run.calibrations.at("n1").tcp.empty());
  CHECK(run.facts.at("n1").SerializeAsString() == FakeAgent::Facts().SerializeAsString());
  CHECK(run.tools.at("n0").at("iperf3").version() == "3.12");
}

TEST_CASE("finished repeats are kept over a restart, the interrupted one is measured again") {
  ControllerFixture f;
  const std::string id = f.Submit(f.Request(3));
  ControllerFixture::Until([&] { return f.store->Repeats(id)->size() >= 1; });
  f.pool.hold_load = true;
  ControllerFixture::Until([&] {
    return f.Job(id).state() == v1::JOB_STATE_BENCHMARKING || controller::IsTerminal(f.Job(id).state());
  });
  f.Restart();
  f.pool.hold_load = false;
  v1::Job job = f.Finished(id);
  CHECK(StateName(job.state()) == "SUCCEEDED");
  auto repeats = *f.store->Repeats(id);
  REQUIRE(repeats.size() == 3);
  for (const auto& repeat : repeats) CHECK(repeat.valid);
}

TEST_CASE("--no-continue ends an interrupted job instead") {
  ControllerFixture f;
  f.pool.hold_load = true;
  v1::SubmitJobRequest request = f.Request();
  request.set_no_continue(true);
  const std::string id = f.Submit(request);
  ControllerFixture::Until([&] { return f.Job(id).state() == v1::JOB_STATE_BENCHMARKING; });
  f.Restart();
  v1::Job job = f.Finished(id);
  CHECK(StateName(job.state()) == "INVALID");
  CHECK(job.reasons(0).code() == "controller_restarted");
}

}  // namespace
}  // namespace poolmark::test
