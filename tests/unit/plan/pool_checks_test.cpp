// What preflight judges of the whole pool: each check fails once, with what was expected, seen, read and to
// be done.
#include "controller/steps/pool_checks.h"

#include <catch2/catch.hpp>

#include "controller/stacks/rdma.h"

using namespace poolmark;
using namespace poolmark::controller;
using std::chrono::microseconds;
using std::chrono::milliseconds;

namespace {

MachineView Machine(const std::string& address, const std::string& model, uint32_t mtu, Nanoseconds offset) {
  MachineView machine;
  machine.address = address;
  machine.clock = ClockReading{offset, microseconds(50)};
  machine.facts.set_gpu_tool("nvidia-smi 550.54");
  for (int i = 0; i < (model.empty() ? 0 : 2); ++i) {
    v1::Gpu* gpu = machine.facts.add_gpus();
    gpu->set_index(static_cast<uint32_t>(i));
    gpu->set_vendor("nvidia");
    gpu->set_model(model);
  }
  v1::Nic* nic = machine.facts.add_nics();
  nic->set_name("eth0");
  nic->set_address(address);
  nic->add_addresses(address);
  nic->set_mtu(mtu);
  return machine;
}

std::map<std::string, MachineView> Pool() {
  return {{"n0", Machine("10.0.0.1", "H100", 9000, milliseconds(1))},
          {"n1", Machine("10.0.0.2", "H100", 9000, milliseconds(-2))}};
}

bool Has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

void CheckComplete(const v1::CheckResult& result) {
  INFO(result.ShortDebugString());
  CHECK_FALSE(result.expected().empty());
  CHECK_FALSE(result.observed().empty());
  CHECK_FALSE(result.evidence().empty());
  CHECK((!Stops(result) || !result.hint().empty()));
}

}  // namespace

TEST_CASE("a pool whose machines agree passes, with what was read", "[C6][C7][C9]") {
  for (const v1::CheckResult& result : CheckPool(Pool())) {
    CheckComplete(result);
    CHECK(result.outcome() == v1::OUTCOME_PASS);
  }
}

TEST_CASE("clocks more than 100 ms apart stop a job, above 10 ms is a note, unknown is not agreed", "[C6]") {
  auto pool = Pool();
  pool.at("n1").clock->offset = milliseconds(-9);
  CHECK(CheckClocks(pool).outcome() == v1::OUTCOME_PASS);
  pool.at("n1").clock->offset = milliseconds(-11);
  v1::CheckResult result = CheckClocks(pool);
  CHECK(result.outcome() == v1::OUTCOME_NOTE);
  CHECK_FALSE(Stops(result));
  pool.at("n1").clock->offset = milliseconds(-100);
  result = CheckClocks(pool);
  CheckComplete(result);
  CHECK(result.outcome() == v1::OUTCOME_FAIL);
  CHECK(Has(result.observed(), "101.00 ms, between n1 and n0"));
  pool.at("n1").clock.reset();
  result = CheckClocks(pool);
  CheckComplete(result);
  CHECK(result.outcome() == v1::OUTCOME_NOT_MEASURED);
  CHECK(Stops(result));
  CHECK(Has(result.observed(), "n1"));
}

TEST_CASE("two GPU models stop a job; a machine without engines does not count", "[C7][J4]") {
  auto pool = Pool();
  pool["n2"] = Machine("10.0.0.3", "H200", 9000, milliseconds(0));
  v1::CheckResult result = CheckGpuFamily(pool);
  CheckComplete(result);
  CHECK(result.outcome() == v1::OUTCOME_FAIL);
  CHECK(Has(result.observed(), "nvidia H100 on n0, n1; nvidia H200 on n2"));
  CHECK(Has(result.evidence(), "n2: 2 GPUs by nvidia-smi 550.54"));
  pool.at("n2").has_engines = false;
  CHECK(CheckGpuFamily(pool).outcome() == v1::OUTCOME_PASS);
  CHECK(CheckGpuFamily({{"n0", Machine("10.0.0.1", "", 1500, milliseconds(0))}}).outcome() ==
        v1::OUTCOME_SKIPPED);
}

TEST_CASE("a GPU of the plan that its machine does not list any more stops a job", "[C7]") {
  auto pool = Pool();
  for (auto& [name, machine] : pool) machine.planned_gpus = {0, 1};
  CHECK(CheckGpuFamily(pool).outcome() == v1::OUTCOME_PASS);
  pool.at("n1").facts.mutable_gpus()->DeleteSubrange(0, 1);
  v1::CheckResult result = CheckGpuFamily(pool);
  CheckComplete(result);
  CHECK(result.outcome() == v1::OUTCOME_FAIL);
  CHECK(Has(result.observed(), "not listed any more: GPU 0 of n1 (it lists 1)"));
  for (auto& [name, machine] : pool) machine.facts.clear_gpus();  // no tool answers on any machine
  result = CheckGpuFamily(pool);
  CheckComplete(result);
  CHECK(result.outcome() == v1::OUTCOME_FAIL);
  CHECK(Has(result.observed(), "GPU 0, 1 of n0 (it lists 0); GPU 0, 1 of n1 (it lists 0); 0 GPUs"));
}

TEST_CASE("two MTUs stop a job, and so does an address that no device carries", "[C9]") {
  auto pool = Pool();
  pool["n2"] = Machine("10.0.0.3", "H100", 1500, milliseconds(0));
  v1::CheckResult result = CheckMtu(pool);
  CheckComplete(result);
  CHECK(result.outcome() == v1::OUTCOME_FAIL);
  CHECK(Has(result.observed(), "1500 on n2 eth0; 9000 on n0 eth0, n1 eth0"));
  pool.erase("n2");
  pool.at("n1").address = "10.0.0.99";
  result = CheckMtu(pool);
  CheckComplete(result);
  CHECK(result.outcome() == v1::OUTCOME_NOT_MEASURED);
  CHECK(Has(result.observed(), "n1 (10.0.0.99)"));
}

void AddCard(MachineView* machine, const std::string& device, uint32_t number, const std::string& netdev,
             uint32_t mtu, const std::string& state = "ACTIVE") {
  v1::Nic* nic = machine->facts.add_nics();
  nic->set_name(netdev);
  nic->set_mtu(mtu);
  v1::RdmaPort* port = machine->facts.add_rdma_ports();
  port->set_device(device);
  port->set_port(number);
  port->set_state(state);
  port->set_netdev(netdev);
  port->set_link_layer("Ethernet");
}

TEST_CASE("the RDMA network may have an MTU of its own, the same on all its cards", "[C9]") {
  auto pool = Pool();
  for (const char* name : {"n0", "n1"}) AddCard(&pool.at(name), "mlx5_0", 1, "ens1", 4200);
  CHECK(CheckMtu(pool).observed() == "9000 on n0 eth0, n1 eth0");  // no stack moves KV over RDMA
  pool.at("n0").rdma_devices = {"mlx5_0"};
  pool.at("n1").rdma_devices = {"mlx5_0:1"};
  v1::CheckResult result = CheckMtu(pool);
  CheckComplete(result);
  CHECK(result.outcome() == v1::OUTCOME_PASS);
  CHECK(result.observed() == "9000 on n0 eth0, n1 eth0; RDMA: 4200 on n0 mlx5_0 (ens1), n1 mlx5_0 (ens1)");
  // The second card of one machine differs. A port of it that is down takes no part.
  AddCard(&pool.at("n1"), "mlx5_1", 1, "ens2", 1500);
  AddCard(&pool.at("n1"), "mlx5_1", 2, "ens3", 9000, "DOWN");
  pool.at("n1").rdma_devices.push_back("mlx5_1");
  result = CheckMtu(pool);
  CheckComplete(result);
  CHECK(result.outcome() == v1::OUTCOME_FAIL);
  CHECK(Has(result.observed(), "RDMA: 1500 on n1 mlx5_1 (ens2); 4200 on n0"));
  CHECK_FALSE(Has(result.observed(), "ens3"));
  CHECK(Has(result.hint(), "all RDMA cards"));
}

TEST_CASE("an InfiniBand port's MTU is its own, and one that nobody tells is a note", "[C9]") {
  auto pool = Pool();
  for (const char* name : {"n0", "n1"}) {
    AddCard(&pool.at(name), "mlx5_0", 1, "ib0", name[1] == '0' ? 2044 : 4092);
    v1::RdmaPort* port = pool.at(name).facts.mutable_rdma_ports(0);
    port->set_link_layer("InfiniBand");
    port->set_active_mtu(4096);
    pool.at(name).rdma_devices = {"mlx5_0"};
  }
  CHECK(CheckMtu(pool).outcome() == v1::OUTCOME_PASS);  // whatever IP over InfiniBand has
  pool.at("n1").facts.mutable_rdma_ports(0)->set_active_mtu(2048);
  CHECK(CheckMtu(pool).outcome() == v1::OUTCOME_FAIL);
  pool.at("n1").facts.mutable_rdma_ports(0)->clear_active_mtu();
  const v1::CheckResult result = CheckMtu(pool);
  CheckComplete(result);
  CHECK(result.outcome() == v1::OUTCOME_NOTE);
  CHECK(Has(result.observed(), "RDMA, not known: n1 mlx5_0 (ib0)"));
  CHECK(Has(result.hint(), "ibv_devinfo"));
}

TEST_CASE("the pool's RDMA ports: those its file names, else all that are active", "[C8]") {
  MachineView machine;
  AddCard(&machine, "mlx5_0", 1, "ens1", 9000);
  AddCard(&machine, "mlx5_1", 1, "ens2", 9000, "DOWN");
  AddCard(&machine, "mlx5_1", 2, "ens3", 9000);
  machine.facts.mutable_nics(0)->add_addresses("10.1.0.1");
  machine.facts.mutable_nics(1)->add_addresses("10.1.0.2");
  machine.facts.mutable_nics(2)->add_addresses("fe80::1");
  using Names = std::vector<std::string>;
  const v1::Facts& facts = machine.facts;
  CHECK(PoolDevices({}, facts) == Names{"mlx5_0", "mlx5_1:2"});
  CHECK(PoolDevices({"mlx5_1"}, facts) == Names{"mlx5_1:2"});  // the tools would take its port 1
  CHECK(PoolDevices({"mlx5_1:1", "mlx5_9"}, facts) == Names{"mlx5_1:1", "mlx5_9"});
  REQUIRE(PoolPorts({"mlx5_1:1", "mlx5_0"}, facts).size() == 2);
  CHECK(RdmaAddressOf(PoolPorts({"mlx5_1:1"}, facts).at(0), facts) == "10.1.0.2");
  CHECK(RdmaAddressOf(PoolPorts({"mlx5_1"}, facts).at(0), facts) == "");  // a link-local one reaches nobody
}
