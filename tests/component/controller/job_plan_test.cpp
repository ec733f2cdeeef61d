// What jobs are planned from, and what is refused at submit.
#include "common/results/directory.h"
#include "controller/runner/planning.h"
#include "tests/component/controller/fixture.h"

namespace poolmark::test {
namespace {

using controller::StateName;

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

TEST_CASE("a token scale is part of the scenario's name and of the job's file, also one written as a number",
          "[M21]") {
  ControllerFixture f;
  const std::string id = f.Submit(f.Request(1, "", {}, "token_scale: 0.5, "));
  const v1::Job job = f.Finished(id);
  CHECK(StateName(job.state()) == "SUCCEEDED");
  CHECK(job.position().workload() == "chat@1/2");
  auto read = results::ReadDirectory(f.Results(id));
  REQUIRE(read.ok());
  REQUIRE(read->job.workloads.size() == 1);
  CHECK(read->job.workloads[0].token_scale == "1/2");
  CHECK(read->job.workloads[0].name == "chat");
  REQUIRE(read->repeats.size() == 1);
  CHECK(read->repeats[0].facts.point.workload == "chat");
  REQUIRE(read->planned);
  CHECK(read->planned->loads.at(0).text == "2 users, token scale 1/2");
  CHECK(ReadFile(f.Results(id) + "/events.jsonl")->find("base, chat@1/2 c2, repeat 1") != std::string::npos);
}

TEST_CASE("a job that waits is judged by the presets that it was submitted with") {
  TempDir presets;
  const auto write = [&](const std::string& ttft) {
    REQUIRE(AtomicWriteFile(presets / "own.yaml",
                            "- {name: own, ttft: " + ttft + ", tpot: 1h, share: 0.9, source: this test}\n")
                .ok());
  };
  write("1h30m0.25s");
  ControllerFixture f;
  f.slo_dir = presets.path();
  f.Restart();
  f.Until([&] { return f.registry->Get("n1")->state() == v1::MACHINE_STATE_READY; });
  auto gate = std::make_shared<Gate>("RunChecks");
  f.pool.SetHook([gate](const std::string& machine, const std::string& call, std::stop_token stop) {
    return (*gate)(machine, call, stop);
  });
  const std::string first = f.Submit(f.Request());
  gate->AwaitReached();
  const std::string id = f.Submit(f.Request(1, "slo: [own]\n"));
  write("1ms");
  gate->Open();
  CHECK(StateName(f.Finished(first).state()) == "SUCCEEDED");
  CHECK(StateName(f.Finished(id).state()) == "SUCCEEDED");
  auto read = results::ReadDirectory(f.Results(id));
  REQUIRE(read.ok());
  REQUIRE(read->repeats.size() == 1);
  REQUIRE(read->repeats[0].figures.requests.goodput.size() == 1);
  CHECK(read->repeats[0].figures.requests.goodput[0].share == 1);
  const auto kept = ReadFile(f.Results(id) + "/inputs/slo-presets.yaml");
  REQUIRE(kept.ok());
  CHECK(kept->find("1h30m0.25s") != std::string::npos);
  // What is submitted now is judged by what the catalogue says now; a run of the old inputs is not.
  const auto now = f.Finished(f.Submit(f.Request(1, "slo: [own]\n")));
  auto anew = f.store->Get(id)->request;
  anew.clear_request_id();
  const auto again = f.Finished(f.Submit(anew));
  CHECK(results::ReadDirectory(f.Results(now.id()))->repeats.at(0).figures.requests.goodput.at(0).share == 0);
  CHECK(results::ReadDirectory(f.Results(again.id()))->repeats.at(0).figures.requests.goodput.at(0).share ==
        1);
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
