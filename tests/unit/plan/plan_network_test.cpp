// Links that KV takes between machines, and RDMA.
#include <algorithm>
#include <catch2/catch.hpp>
#include <set>

#include "tests/unit/plan/planning.h"

using namespace poolmark;
using namespace poolmark::controller;
using namespace poolmark::test;

TEST_CASE("KV that is to move between machines needs two of them", "[C5][C19][C20]") {
  for (const char* stack : {"sim-shared", "sim-split", "sim-split-offload"}) {
    Case c;
    c.stacks = std::string("[{use: ") + stack + ", as: s}]";
    c.pool = "version: 1\nhead: n0\nmachines: [{name: n0}, {name: n1, gpus: 0}]\n";
    const std::string text = RefusalsOf(c);
    INFO(text);
    CHECK(text.find("all its engines would run on n0: give the pool a second machine") != std::string::npos);
  }
  for (const char* stack : {"sim-local", "sim-offload"}) {
    Case c;
    c.stacks = std::string("[{use: ") + stack + ", as: s}]";
    c.pool = "version: 1\nhead: n0\nmachines: [{name: n0}]\n";
    Errors refusals;
    CHECK(PlanOf(c, &refusals).ok());
  }
}

TEST_CASE("KV links follow the strategy and are measured once", "[C13]") {
  Case c;
  c.stacks = "[{use: sim-split, as: s}]";
  Errors refusals;
  auto plan = PlanOf(c, &refusals);
  REQUIRE(plan.ok());
  CHECK(plan->line_pairs == std::vector<KvLink>{{"n0", "n1", "tcp"}});
  // Ports for several iperf3 servers, on both machines found free by preflight.
  CHECK(std::set<uint32_t>(plan->line_ports.begin(), plan->line_ports.end()).size() == 8);
  for (const char* machine : {"n0", "n1"}) {
    const auto& checked = plan->checks.at(machine).ports();
    for (uint32_t port : plan->line_ports) CHECK(std::count(checked.begin(), checked.end(), port) == 1);
  }
  // The tries for the number of servers take their time.
  const Nanoseconds with_tries = plan->estimate;
  c.extra = "preflight: {line_rate: {runs: 1, seconds: 10}}\n";
  plan = PlanOf(c, &refusals);
  REQUIRE(plan.ok());
  CHECK(with_tries - plan->estimate == std::chrono::seconds(2 * 11 + 4 * 4));
  c.extra.clear();
  c.stacks = "[{use: sim-local, as: s}]";
  plan = PlanOf(c, &refusals);
  REQUIRE(plan.ok());
  CHECK(plan->line_pairs.empty());
}

TEST_CASE("an RDMA stack needs an active port on each machine, of those that the pool names or of any",
          "[C8]") {
  Case c;
  c.stack = EngineStack("kv: {path: rdma}\n");
  c.machines = {Machine("n0", "H100", 8), Machine("n1", "H100", 8)};
  for (MachineFacts& machine : c.machines) {
    for (const char* device : {"mlx5_0", "mlx5_1"}) {
      v1::RdmaPort* port = machine.facts.add_rdma_ports();
      port->set_device(device);
      port->set_port(1);
      port->set_state("ACTIVE");
    }
  }
  const auto planned = [&c] {
    Errors refusals;
    auto plan = PlanOf(c, &refusals);
    for (const Error& error : refusals) UNSCOPED_INFO(ToStatus(error).message());
    return plan.ok();
  };
  CHECK(planned());
  c.machines[1].facts.mutable_rdma_ports(0)->set_state("DOWN");
  CHECK(planned());
  c.pool =
      "version: 1\nhead: n0\nmachines: [{name: n0, net: {rdma: ['mlx5_0:1']}}, {name: n1, net: {rdma: "
      "[mlx5_0]}}]\n";
  CHECK_THAT(RefusalsOf(c), Catch::Contains("machine n1 has no active RDMA port: mlx5_0:1 is DOWN") &&
                                !Catch::Contains("machine n0"));
  c.pool = "version: 1\nhead: n0\nmachines: [{name: n0, net: {rdma: ['mlx5_0:2']}}, {name: n1}]\n";
  CHECK_THAT(RefusalsOf(c), Catch::Contains("none of the RDMA devices that the pool names"));
  c.machines[1].facts.mutable_rdma_ports(1)->set_state("INIT");
  c.pool = "version: 1\nhead: n0\nmachines: [{name: n0}, {name: n1}]\n";
  CHECK_THAT(RefusalsOf(c),
             Catch::Contains("machine n1 has no active RDMA port: mlx5_0:1 is DOWN, mlx5_1:1 is INIT"));
  c.pool = "version: 1\nmachines: 2\n";
  CHECK_THAT(RefusalsOf(c), Catch::Contains("2 with H100, of which 1 lack an active RDMA port"));
  // A machine that takes no part in moving KV needs none.
  c.pool = "version: 1\nhead: n0\nmachines: [{name: n0}, {name: n1, gpus: 0}]\n";
  CHECK(planned());
}

TEST_CASE("every RDMA card is a network of its own, tried end to end by its own address", "[C9]") {
  Case c;
  c.stack = EngineStack("kv: {path: rdma}\n");
  c.machines = {Machine("n0", "H100", 8), Machine("n1", "H100", 8), Machine("n2", "H100", 8)};
  for (size_t m = 0; m < 3; ++m) {
    for (int card = 0; card < 2; ++card) {
      v1::RdmaPort* port = c.machines[m].facts.add_rdma_ports();
      port->set_device("mlx5_" + std::to_string(card));
      port->set_port(1);
      port->set_state("ACTIVE");
      port->set_netdev("ens" + std::to_string(card));
      v1::Nic* nic = c.machines[m].facts.add_nics();
      nic->set_name(port->netdev());
      nic->add_addresses("192.168." + std::to_string(card) + "." + std::to_string(m + 1));
    }
  }
  using Names = std::vector<std::string>;
  const auto names = [](const auto& field) { return Names(field.begin(), field.end()); };
  Errors refusals;
  c.pool =
      "version: 1\nhead: n0\nmachines: [{name: n0}, {name: n1, net: {rdma: ['mlx5_1:1', mlx5_0]}}, {name: "
      "n2, gpus: 0}]\n";
  auto plan = PlanOf(c, &refusals);
  for (const Error& error : refusals) UNSCOPED_INFO(ToStatus(error).message());
  REQUIRE(plan.ok());
  // In the order in which the pool file names them: the first of the one against the first of the other.
  const auto& cards = plan->rdma_checks.at("n1");
  REQUIRE(cards.size() == 2);
  CHECK(names(cards[0].net_addresses()) == Names{"192.168.1.2"});
  CHECK(names(cards[0].peers()) == Names{"192.168.0.1"});
  CHECK(names(cards[1].net_addresses()) == Names{"192.168.0.2"});
  CHECK(names(cards[1].peers()) == Names{"192.168.1.1"});
  CHECK(names(plan->checks.at("n1").rdma_devices()) == Names{"mlx5_1:1", "mlx5_0"});
  // Nothing is named: those that were active when the job was planned must be active at preflight.
  CHECK(names(plan->checks.at("n0").rdma_devices()) == Names{"mlx5_0", "mlx5_1"});
  CHECK_FALSE(plan->rdma_checks.contains("n2"));  // it has no part in moving KV
  CHECK(plan->checks.at("n2").rdma_devices().empty());
  c.machines[1].facts.mutable_nics(1)->clear_addresses();
  plan = PlanOf(c, &refusals);
  REQUIRE(plan.ok());
  CHECK(plan->rdma_checks.at("n1").size() == 1);
  c.stack = EngineStack("");
  plan = PlanOf(c, &refusals);
  REQUIRE(plan.ok());
  CHECK(plan->rdma_checks.empty());
}
