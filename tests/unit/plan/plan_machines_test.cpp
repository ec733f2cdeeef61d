// Which machines a plan takes, and what it takes of them: GPUs, ports, addresses.
#include <catch2/catch.hpp>
#include <set>

#include "controller/steps/pick_machines.h"
#include "tests/unit/plan/planning.h"

using namespace poolmark;
using namespace poolmark::controller;
using namespace poolmark::test;

TEST_CASE("GPUs are handed out per engine and not beyond what a machine has", "[C2][C5]") {
  Case c;
  c.stack = EngineStack("");
  c.machines = {Machine("n0", "H100", 8), Machine("n1", "H100", 8)};
  Errors refusals;
  auto plan = PlanOf(c, &refusals);
  REQUIRE(plan.ok());
  CHECK(plan->stacks[0].gpus == 8);
  CHECK(plan->stacks[0].processes[0].spec.env().at("CUDA_VISIBLE_DEVICES") == "0,1,2,3");
  c.machines[1] = Machine("n1", "H200", 8);
  CHECK(RefusalsOf(c).find(
            "machine n0 has nvidia H100, machine n1 has nvidia H200: a pool uses one GPU family") !=
        std::string::npos);
  c.machines[1] = Machine("n1", "H100", 2);
  CHECK(RefusalsOf(c).find("engine asks for 4 GPUs, machine n1 has 2") != std::string::npos);
}

TEST_CASE("an engine is told its GPUs as it counts them: a container's own from 0", "[C2]") {
  Case c;
  const auto second = [&](const std::string& program, const std::string& vendor) {
    c.stack = "version: 1\nstrategy: local\nengine: vllm\nprocesses: [{name: engine, role: engine, " +
              program +
              ", argv: [--on, \"${gpu_indexes}\"], ports: [http], gpus: 2, count: 4}]\nentry: engine.http\n";
    c.machines = {Machine("n0", "GPU", 4, vendor), Machine("n1", "GPU", 4, vendor)};
    Errors refusals;
    auto plan = PlanOf(c, &refusals);
    for (const Error& refusal : refusals) UNSCOPED_INFO(refusal.message);
    REQUIRE(plan.ok());
    v1::ProcessSpec spec;
    for (const auto& process : plan->stacks[0].processes) {
      if (process.machine == "n1" && process.spec.gpus_size() == 2 && process.spec.gpus(0) == 2)
        spec = process.spec;
    }
    REQUIRE(spec.argv_size() == 2);
    CHECK(spec.gpus(1) == 3);
    CHECK(spec.argv(1) == spec.env().at(vendor == "amd" ? "HIP_VISIBLE_DEVICES" : "CUDA_VISIBLE_DEVICES"));
    return spec.argv(1);
  };
  const std::string image = "image: \"vllm@sha256:" + std::string(64, 'a') + "\", backend: docker";
  CHECK(second("exec: vllm", "nvidia") == "2,3");
  CHECK(second(image, "nvidia") == "0,1");
  CHECK(second(image, "amd") == "2,3");
}

TEST_CASE("ports never clash with what a machine already uses", "[C3]") {
  Case c;
  c.stack =
      "version: 1\nstrategy: local\nengine: sim\nprocesses: [{name: engine, role: engine, exec: x, ports: "
      "[a, b, c]}]\nentry: engine.a\n";
  Errors refusals;
  auto first = PlanOf(c, &refusals);
  REQUIRE(first.ok());
  std::set<uint32_t> taken;
  for (const auto& process : first->stacks[0].processes)
    taken.insert(process.spec.ports().begin(), process.spec.ports().end());
  CHECK(taken.size() == 6);
  for (uint32_t port : taken) c.machines[1].facts.add_used_ports(port);
  auto second = PlanOf(c, &refusals);
  REQUIRE(second.ok());
  for (const auto& process : second->stacks[0].processes) {
    for (uint32_t port : process.spec.ports()) CHECK(taken.count(port) == 0);
  }
}

TEST_CASE("an attached engine that no agent of the pool can ask is refused, not found after the launch",
          "[C5]") {
  const auto stack = [](const std::string& at) {
    return "version: 1\nstrategy: local\nengine: vllm\nlaunch: attach\nreset: allow\nprocesses:\n  - {name: "
           "engine, role: engine, ports: [http], metrics: {port: http, dialect: vllm}, reset: {http: POST "
           "/r}, empty: canary, at: [{" +
           at + "}]}\nentry: engine.http\n";
  };
  Case c;
  for (MachineFacts& machine : c.machines) {
    v1::Nic* nic = machine.facts.add_nics();
    nic->set_name("eth0");
    nic->add_addresses(machine.address);
    nic->add_addresses("fd00::" + machine.name.substr(1));
  }
  // A pod's address, another machine's, and the head's when no machine is named.
  c.stack = stack("machine: n1, url: \"http://10.77.1.2:18000\"");
  CHECK_THAT(RefusalsOf(c),
             Catch::Contains("10.77.1.2 is no address of machine n1, whose agent would ask it"));
  c.stack = stack("machine: n1, url: \"http://10.0.0.2:1\", metrics: \"http://10.0.0.1:2/metrics\"");
  CHECK_THAT(RefusalsOf(c), Catch::Contains("10.0.0.1 is no address of machine n1"));
  c.stack = stack("url: \"http://10.0.0.2:1\"");
  CHECK_THAT(RefusalsOf(c), Catch::Contains("10.0.0.2 is no address of machine n0"));
  for (const char* good :
       {"machine: n1, url: \"http://10.0.0.2:1\"", "machine: n1, url: \"http://[fd00::1]:1/v1\"",
        "machine: n1, url: \"http://127.0.0.1:1\"", "url: \"http://10.0.0.1:1\""}) {
    c.stack = stack(good);
    Errors refusals;
    const bool planned = PlanOf(c, &refusals).ok();
    for (const Error& error : refusals) UNSCOPED_INFO(ToStatus(error).message());
    CHECK(planned);
  }
}

TEST_CASE("a machine that takes no engines does not decide the vendor") {
  Case c;
  c.stack = EngineStack("vendor: [nvidia]\n");
  c.pool = "version: 1\nhead: n0\nmachines: [{name: n0, gpus: 0}, {name: n1}]\n";
  c.machines = {Machine("n0", "MI300X", 1, "amd"), Machine("n1", "H100", 8)};
  Errors refusals;
  auto plan = PlanOf(c, &refusals);
  for (const Error& error : refusals) UNSCOPED_INFO(ToStatus(error).message());
  CHECK(plan.ok());
}

TEST_CASE("the plan picks machines of one family when the pool gives a number", "[C1]") {
  Case c;
  c.stack = EngineStack("");
  c.pool = "version: 1\nmachines: 2\n";
  c.machines = {Machine("n0", "A100", 8), Machine("n1", "H100", 8), Machine("n2", "H100", 8)};
  Errors refusals;
  auto plan = PlanOf(c, &refusals);
  REQUIRE(plan.ok());
  CHECK(plan->machines == std::vector<std::string>{"n1", "n2"});
  c.pool = "version: 1\nmachines: 3\n";
  CHECK_THAT(
      RefusalsOf(c),
      Catch::Contains("asks for 3 machines of one GPU family, 2 are available: 1 with A100; 2 with H100"));
}

TEST_CASE("the plan picks machines that can carry the job, free ones first, with the head that is named",
          "[C1]") {
  Case c;
  c.stack = EngineStack("");  // four GPUs for each engine
  c.pool = "version: 1\nmachines: 2\n";
  std::set<std::string> held;
  const auto picked = [&] {
    Errors refusals;
    auto job = JobOf(c, &refusals);
    REQUIRE(job.ok());
    auto names = PickMachines(*job, c.machines, held);
    INFO(names.status());
    REQUIRE(names.ok());
    return *names;
  };
  using Names = std::vector<std::string>;
  // Three machines without GPUs are the larger group, and carry nothing.
  c.machines = {Machine("c0", "", 0), Machine("c1", "", 0), Machine("c2", "", 0), Machine("g0", "H100", 8),
                Machine("g1", "H100", 8)};
  CHECK(picked() == Names{"g0", "g1"});
  c.machines[4] = Machine("g1", "H100", 2);
  CHECK_THAT(RefusalsOf(c),
             Catch::Contains("1 are available") && Catch::Contains("2 with H100, of which 1 lack 4 GPUs"));
  // What others hold, or wait for, comes last; where there is nothing else the job waits for it.
  c.machines = {Machine("g0", "H100", 8), Machine("g1", "H100", 8), Machine("g2", "H100", 8)};
  held = {"g0"};
  CHECK(picked() == Names{"g1", "g2"});
  held = {"g0", "g1"};
  CHECK(picked() == Names{"g2", "g0"});
  c.pool = "version: 1\nhead: g1\nmachines: 2\n";
  CHECK(picked() == Names{"g1", "g2"});
  c.pool = "version: 1\nhead: nobody\nmachines: 2\n";
  CHECK_THAT(RefusalsOf(c), Catch::Contains("one of them the head nobody"));
}

TEST_CASE("the plan's text names the image of what runs in a container", "[C2]") {
  Case c;
  const std::string image = "vllm@sha256:" + std::string(64, 'a');
  c.stack = "version: 1\nstrategy: local\nengine: vllm\nprocesses: [{name: engine, role: engine, image: \"" +
            image + "\", backend: docker, argv: [x], ports: [http], gpus: 1}]\nentry: engine.http\n";
  c.machines = {Machine("n0", "GPU", 4), Machine("n1", "GPU", 4)};
  Errors refusals;
  auto plan = PlanOf(c, &refusals);
  for (const Error& refusal : refusals) UNSCOPED_INFO(refusal.message);
  REQUIRE(plan.ok());
  CHECK(ExplainPlan(*plan).find("  " + image + "  ports ") != std::string::npos);
}
