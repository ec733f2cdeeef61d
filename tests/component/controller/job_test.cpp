// A job through all seven steps over fake agents, and what can come between.
#include "common/results/directory.h"
#include "common/results/layout.h"
#include "common/results/samples.h"
#include "common/results/sums.h"
#include "controller/runner/planning.h"
#include "controller/runner/recall.h"
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

// Ports of all metrics pages in a plan.
std::vector<uint32_t> PortsOf(const controller::Plan& plan) {
  std::vector<uint32_t> ports;
  for (const controller::PlannedProcess& process : plan.stacks.at(0).processes) {
    const size_t colon = process.metrics_url.rfind(':');
    if (colon != std::string::npos)
      ports.push_back(static_cast<uint32_t>(std::stoul(process.metrics_url.substr(colon + 1))));
  }
  REQUIRE(ports.size() >= 2);
  return ports;
}
std::vector<uint32_t> PlannedPorts(const ControllerFixture& f, const std::string& id,
                                   controller::FactsFrom from) {
  Errors errors;
  auto planned = controller::PlanJob(f.environment, f.store->Get(id)->request, id, &errors, from);
  INFO(planned.status());
  REQUIRE(planned.ok());
  return PortsOf((*planned)->plan);
}
// All ports are in use, but those of [first, end).
v1::Facts FactsWithPorts(uint32_t first, uint32_t end) {
  v1::Facts facts = FakeAgent::Facts();
  for (uint32_t port = 1; port <= 65535; ++port) {
    if (port < first || port >= end) facts.add_used_ports(port);
  }
  return facts;
}
constexpr uint32_t kFree = 21'000, kFreeEnd = 21'040;

TEST_CASE("a job is planned from what its machines say when it takes them, a dry run too", "[C5]") {
  ControllerFixture f;
  f.pool.at("n1").SetFacts(FactsWithPorts(kFree, kFreeEnd));  // since the agent registered
  const bool dry_run = GENERATE(true, false);
  const v1::SubmitJobRequest request = f.Request();
  auto all_free = [](const std::vector<uint32_t>& ports) {
    return std::all_of(ports.begin(), ports.end(), [](uint32_t p) { return p >= kFree && p < kFreeEnd; });
  };
  if (dry_run) {
    const auto answer = f.jobs->Validate(request);
    REQUIRE(answer.accepted());
    CHECK(answer.plan_json().find("127.0.0.1:210") != std::string::npos);
    Errors errors;
    auto planned = controller::PlanJob(f.environment, request, "", &errors);
    REQUIRE(planned.ok());
    CHECK(all_free(PortsOf((*planned)->plan)));
    return;
  }
  const std::string id = f.Submit(request);
  CHECK(StateName(f.Finished(id).state()) == "SUCCEEDED");
  const auto ports = PlannedPorts(f, id, controller::FactsFrom::kRegistry);
  CHECK(all_free(ports));
  auto plan = ReadFile(f.Results(id) + "/plan.json");
  REQUIRE(plan.ok());
  for (uint32_t port : ports) CHECK(plan->find(":" + std::to_string(port)) != std::string::npos);
  // What was known at the lock is stored: a controller that comes back makes the same plan.
  auto machines = f.store->Machines();
  REQUIRE(machines.ok());
  CHECK(machines->at(1).registration.facts().used_ports_size() > 60'000);
}

TEST_CASE("an agent that does not tell its facts: the plan is made from those that are known", "[C5]") {
  ControllerFixture f;
  f.pool.at("n1").SetFacts(FactsWithPorts(1, 1));  // nothing could be planned from these
  std::atomic<int> asked{0};
  f.pool.SetHook([&](const std::string& machine, const std::string& call, std::stop_token stop) -> Status {
    if (machine != "n1" || call != "GetFacts" || ++asked > 1) return absl::OkStatus();
    controller::WaitFor(stop, std::chrono::minutes(10));  // until the time for an answer has run out
    return absl::CancelledError("stopped");
  });
  const std::string id = f.Submit(f.Request());
  CHECK(StateName(f.Finished(id).state()) == "SUCCEEDED");
  CHECK(asked == 2);  // for the plan, and before the checks
}

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
  CHECK(job.teardown() == v1::TEARDOWN_VERDICT_CLEAN);
  CHECK(f.pool.at("n0").Processes().empty());
  CHECK(results::ReadDirectory(f.Results(id)).ok());
  // Again, after the end: the same answer.
  CHECK(f.jobs->Cancel(id, true, "ada")->state() == job.state());
}

TEST_CASE("a job that waits is cancelled at once, with complete files") {
  ControllerFixture f;
  f.pool.hold_load = true;
  const std::string first = f.Submit(f.Request());
  const std::string second = f.Submit(f.Request());
  ControllerFixture::Until(
      [&] { return f.Job(second).waiting_for() == "machine n0 is held by job " + first; });
  CHECK(f.jobs->Cancel(second, false, "ada")->state() == v1::JOB_STATE_CANCELLED);
  CHECK(f.Finished(second).teardown() == v1::TEARDOWN_VERDICT_NONE);
  REQUIRE(f.jobs->Cancel(first, false, "ada").ok());
  CHECK(StateName(f.Finished(first).state()) == "CANCELLED");
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

// A pool that says how many machines, not which.
void AskForMachines(ControllerFixture* f, int count, v1::SubmitJobRequest* request) {
  const std::string pool = "version: 1\nmachines: " + std::to_string(count) + "\n";
  request->mutable_inputs(1)->set_sha256(f->Upload(pool));
  request->mutable_inputs(1)->set_size(pool.size());
}

TEST_CASE("a job of any two machines keeps those that it got over a restart, and touches no other") {
  ControllerFixture f({"n0", "n1", "n2"});
  REQUIRE(f.registry->Act("n0", v1::MACHINE_ACTION_DRAIN, "why").ok());
  auto gate = std::make_shared<Gate>("StreamSamples");
  auto touched = std::make_shared<std::atomic<int>>(0);
  f.pool.SetHook([gate, touched](const std::string& m, const std::string& c, std::stop_token s) {
    if (m == "n0" && (c == "AcquireLease" || c == "StartProcess" || c == "Teardown")) ++*touched;
    return (*gate)(m, c, s);
  });
  v1::SubmitJobRequest request = f.Request(2);
  AskForMachines(&f, 2, &request);
  const std::string id = f.Submit(request);
  gate->AwaitReached();
  const auto machines = [&] {
    const v1::Job job = f.Job(id);
    return std::vector<std::string>(job.machines().begin(), job.machines().end());
  };
  CHECK(machines() == std::vector<std::string>{"n1", "n2"});
  REQUIRE(f.registry->Act("n0", v1::MACHINE_ACTION_UNDRAIN, "").ok());
  f.Restart();
  gate->Open();
  const v1::Job job = f.Finished(id);
  CHECK(StateName(job.state()) == "SUCCEEDED");
  CHECK(job.teardown() == v1::TEARDOWN_VERDICT_CLEAN);
  CHECK(machines() == std::vector<std::string>{"n1", "n2"});
  CHECK(*touched == 0);
  CHECK(f.pool.at("n2").Processes().empty());
}

TEST_CASE("jobs of any one machine take free ones, and one that waits is not planned for those of others") {
  ControllerFixture f({"n0", "n1"});
  f.pool.hold_load = true;
  v1::SubmitJobRequest request = f.Request();
  AskForMachines(&f, 1, &request);
  const std::string first = f.Submit(request);
  ControllerFixture::Until([&] { return f.Job(first).machines_size() == 1; });
  const std::string second = f.Submit(request);
  ControllerFixture::Until([&] { return f.Job(second).machines_size() == 1; });
  CHECK(f.Job(first).machines(0) == "n0");
  CHECK(f.Job(second).machines(0) == "n1");
  f.pool.hold_load = false;
  CHECK(StateName(f.Finished(first).state()) == "SUCCEEDED");
  CHECK(StateName(f.Finished(second).state()) == "SUCCEEDED");
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

TEST_CASE("an engine that says it is simulated is, whatever its stack file calls it") {
  ControllerFixture f;
  f.pool.simulated_series = true;
  v1::SubmitJobRequest request = f.Request();
  const std::string stack =
      "version: 1\nstrategy: local\nengine: vllm\nparams: {model: m}\n"
      "processes: [{name: engine, role: engine, exec: poolmark, argv: [engine, --port, "
      "\"${port.http}\"], "
      "ports: [http], metrics: {port: http, dialect: vllm}, ready: {http: /health}, reset: {http: POST "
      "/reset_prefix_cache}, "
      "empty: canary}]\nentry: engine.http\n";
  std::string job = *ReadFile(f.environment.inputs->FilesOf(request).at("job.yaml"), 1u << 20);
  job.replace(job.find("sim-local"), 9, "stack.yaml");
  request.mutable_inputs(0)->set_sha256(f.Upload(job));
  request.mutable_inputs(0)->set_size(job.size());
  v1::JobInput* added = request.add_inputs();
  added->set_path("stack.yaml");
  added->set_sha256(f.Upload(stack));
  added->set_size(stack.size());
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

TEST_CASE("an agent that is started again under load samples again, and its counters go on", "[B4][F22]") {
  ControllerFixture f;
  f.pool.engine_counters = true;
  f.pool.hold_load = true;
  const std::string id = f.Submit(f.Request());
  std::string load;
  ControllerFixture::Until([&] {
    for (const std::string& process : f.pool.at("n0").Processes()) {
      if (process.find(".load-") != std::string::npos) load = process;
    }
    return !load.empty();
  });
  const Nanoseconds loaded = RealClock().Steady();
  f.pool.at("n1").RestartAgent();
  ControllerFixture::Until([&] { return f.pool.at("n1").samplings() == 2; });
  // The records say a load of two seconds: counters are read after it.
  ControllerFixture::Until([&] { return RealClock().Steady() - loaded > std::chrono::seconds(4); });
  f.pool.at("n0").Die(load, 0);
  v1::Job job = f.Finished(id);
  CHECK(StateName(job.state()) == "SUCCEEDED");
  CHECK(f.pool.at("n0").samplings() == 1);
  auto read = results::ReadDirectory(f.Results(id));
  REQUIRE(read.ok());
  REQUIRE(read->repeats.size() == 1);
  const results::RepeatFile& repeat = read->repeats[0];
  for (const std::string& note : repeat.figures.notes) UNSCOPED_INFO(note);
  CHECK(repeat.figures.valid);
  CHECK_THAT(repeat.figures.notes,
             Catch::VectorContains(std::string("samples of n1: gap: the agent was started again")));
  REQUIRE(repeat.figures.sources.engines.size() == 2);
  for (const auto& engine : repeat.figures.sources.engines) {
    INFO(engine.process << ": " << (engine.sources.has_value() ? "" : engine.sources.reason()));
    REQUIRE(engine.sources.has_value());
    CHECK((*engine.sources).prompt > 0);
    CHECK((*engine.sources).not_attributed == 0);
  }
  CHECK(repeat.figures.sources.complete);
  CHECK(repeat.figures.reused.value_or(-1) == Approx(0.4));
  const std::string directory =
      f.Results(id) + "/" +
      results::RepeatDir(repeat.facts.point.stack, repeat.facts.point.workload, repeat.facts.point.level, 1);
  auto log = results::ReadSamples(directory + "/samples/n1.jsonl.zst");
  REQUIRE(log.ok());
  REQUIRE(log->gaps.size() == 1);
  CHECK(log->gaps[0].reason == "the agent was started again");
  CHECK(log->resets.empty());
  REQUIRE(log->series.size() == 5);  // four of the engine and one of the host, each defined once
  for (const results::SampleSeries& series : log->series) {
    if (series.source == "node") continue;
    INFO(series.name);
    const auto& values = log->values.at(series.id);
    REQUIRE(values.size() > 2);
    const std::map<std::string, double> steps = {
        {"local_compute", 6}, {"local_cache_hit", 4}, {"external_kv_transfer", 0}};
    const double step = series.labels.empty() ? 10 : steps.at(series.labels.at("source"));
    for (size_t i = 1; i < values.size(); ++i) CHECK(values[i].value == Approx(values[i - 1].value + step));
  }
}

TEST_CASE("an engine that dies under load makes its repeat invalid, and the job goes on") {
  ControllerFixture f;
  f.pool.hold_load = true;
  const std::string id = f.Submit(f.Request(2));
  ControllerFixture::Until([&] {
    auto running = f.pool.at("n0").Processes();
    return std::any_of(running.begin(), running.end(),
                       [](const std::string& p) { return p.find(".load-") != std::string::npos; });
  });
  f.pool.hold_load = false;
  f.pool.at("n1").Die("base.engine-n1", 139);
  v1::Job job = f.Finished(id);
  CHECK(StateName(job.state()) == "SUCCEEDED");  // the second repeat is valid
  auto repeats = *f.store->Repeats(id);
  REQUIRE(repeats.size() == 2);
  CHECK(std::count_if(repeats.begin(), repeats.end(), [](const auto& r) { return r.valid; }) == 1);
  REQUIRE(job.reasons_size() >= 1);
  CHECK(job.reasons(0).code() == "process_died");
  CHECK(job.reasons(0).message().find("last words of base.engine-n1") != std::string::npos);
}

TEST_CASE("a guard that dies without a word: its processes count as gone, the job goes on with a new grant") {
  const std::string call = GENERATE("Probe", "StreamSamples");
  ControllerFixture f;
  f.pool.hold_load = call == "StreamSamples";
  auto gate = std::make_shared<Gate>(call, "n1");
  f.pool.SetHook(
      [gate](const std::string& m, const std::string& c, std::stop_token s) { return (*gate)(m, c, s); });
  const std::string id = f.Submit(f.Request(2));
  gate->AwaitReached();
  f.pool.at("n1").KillGuard();
  gate->Open();
  ControllerFixture::Until(
      [&] { return f.Job(id).position().cycle() > 1 || controller::IsTerminal(f.Job(id).state()); });
  f.pool.hold_load = false;
  v1::Job job = f.Finished(id);
  INFO(job.ShortDebugString());
  CHECK(StateName(job.state()) == "SUCCEEDED");
  CHECK(job.teardown() == v1::TEARDOWN_VERDICT_CLEAN);
  REQUIRE(job.reasons_size() >= 1);
  CHECK(job.reasons(0).code() == "process_died");
  CHECK(job.reasons(0).message().find("guard has ended") != std::string::npos);
  CHECK(f.pool.at("n1").epoch() > f.pool.at("n0").epoch());
}

TEST_CASE(
    "a controller that comes back holds its machines with a higher epoch: the one before is fenced off") {
  ControllerFixture f;
  f.pool.hold_load = true;
  const std::string id = f.Submit(f.Request());
  ControllerFixture::Until([&] { return f.Job(id).state() == v1::JOB_STATE_BENCHMARKING; });
  v1::StartProcessRequest late;
  late.mutable_lease()->set_job_id(id);
  late.mutable_lease()->set_epoch(f.pool.at("n0").epoch());
  late.mutable_spec()->set_id("late");
  f.Restart();
  f.pool.hold_load = false;
  CHECK(StateName(f.Finished(id).state()) == "SUCCEEDED");
  CHECK(f.pool.at("n0").epoch() > late.lease().epoch());
  CHECK_FALSE(f.pool.at("n0").StartProcess(late, {}).ok());
}

TEST_CASE("a machine that is lost ends the job as INVALID, the others are torn down, it is quarantined",
          "[I1]") {
  ControllerFixture f;
  f.pool.hold_load = true;
  const std::string id = f.Submit(f.Request());
  ControllerFixture::Until([&] {
    auto running = f.pool.at("n0").Processes();
    return std::any_of(running.begin(), running.end(),
                       [](const std::string& p) { return p.find(".load-") != std::string::npos; });
  });
  f.silent.store("n1");
  f.pool.SetHook([](const std::string& machine, const std::string&, std::stop_token) -> Status {
    if (machine == "n1") return Unavailable("n1", "no route to host");
    return absl::OkStatus();
  });
  v1::Job job = f.Finished(id);
  CHECK(StateName(job.state()) == "INVALID");
  CHECK(job.teardown() == v1::TEARDOWN_VERDICT_UNKNOWN);
  CHECK(f.pool.at("n0").Processes().empty());
  CHECK(job.reasons(0).code() == "machine_lost");
  CHECK(f.registry->Get("n1")->state() == v1::MACHINE_STATE_QUARANTINED);
  CHECK(f.registry->Get("n0")->state() == v1::MACHINE_STATE_READY);
}

TEST_CASE("what a ledger does not prove gone is DIRTY, named, and the machine is quarantined") {
  ControllerFixture f;
  f.pool.leave_leftovers = true;
  v1::Job job = f.Finished(f.Submit(f.Request()));
  CHECK(StateName(job.state()) == "SUCCEEDED");
  CHECK(job.teardown() == v1::TEARDOWN_VERDICT_DIRTY);
  std::string reasons;  // in the order in which the machines answered
  for (const v1::Reason& reason : job.reasons()) reasons += reason.message() + "\n";
  CHECK(reasons.find("process base.engine-n0") != std::string::npos);
  CHECK(f.registry->Get("n0")->state() == v1::MACHINE_STATE_QUARANTINED);
}

TEST_CASE("a late call of an earlier grant changes nothing") {
  ControllerFixture f;
  f.Finished(f.Submit(f.Request()));
  f.Finished(f.Submit(f.Request()));
  REQUIRE(f.pool.at("n0").epoch() == 2);
  v1::StartProcessRequest late;
  late.mutable_lease()->set_job_id("old");
  late.mutable_lease()->set_epoch(1);
  late.mutable_spec()->set_id("x");
  CHECK_FALSE(f.pool.at("n0").StartProcess(late, {}).ok());
}

TEST_CASE("submitting: bad input, plans that cannot work and repeated requests", "[C5][L2]") {
  ControllerFixture f;
  v1::SubmitJobRequest request = f.Request();
  request.set_request_id("r1");
  const std::string id = f.Submit(request);
  CHECK(f.Submit(request) == id);
  request.set_name("other");
  CHECK(f.jobs->Submit(request, "ada").status().code() == absl::StatusCode::kAlreadyExists);
  v1::SubmitJobRequest missing = f.Request();
  missing.mutable_inputs(0)->set_sha256(std::string(64, 'a'));
  CHECK(std::string(f.jobs->Submit(missing, "ada").status().message()).find("was not uploaded") !=
        std::string::npos);
  auto unknown = f.jobs->Submit(f.Request(1, "", {"n0", "n7"}), "ada");
  CHECK(std::string(unknown.status().message()).find("n7") != std::string::npos);
  v1::ValidateJobResponse plan = f.jobs->Validate(f.Request());
  CHECK(plan.accepted());
  CHECK(plan.estimated_ns() > 0);
  CHECK(plan.explanation().find("base.engine-n0") != std::string::npos);
  f.Finished(id);
  f.Until([&] { return f.jobs->Delete(id).ok(); });  // refused while its last files are written
  CHECK_FALSE(FileExists(f.Results(id)));
}

}  // namespace
}  // namespace poolmark::test
