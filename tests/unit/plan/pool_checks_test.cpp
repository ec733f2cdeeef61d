// What preflight judges of the whole pool: each check fails once, with what was expected, seen, read and to
// be done.
#include "controller/steps/pool_checks.h"

#include <catch2/catch.hpp>

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

void Complete(const v1::CheckResult& result) {
  INFO(result.ShortDebugString());
  CHECK_FALSE(result.expected().empty());
  CHECK_FALSE(result.observed().empty());
  CHECK_FALSE(result.evidence().empty());
  CHECK((!Stops(result) || !result.hint().empty()));
}

}  // namespace

TEST_CASE("a pool whose machines agree passes, with what was read", "[C6][C7][C9]") {
  for (const v1::CheckResult& result : CheckPool(Pool())) {
    Complete(result);
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
  Complete(result);
  CHECK(result.outcome() == v1::OUTCOME_FAIL);
  CHECK(Has(result.observed(), "101.00 ms, between n1 and n0"));
  pool.at("n1").clock.reset();
  result = CheckClocks(pool);
  Complete(result);
  CHECK(result.outcome() == v1::OUTCOME_NOT_MEASURED);
  CHECK(Stops(result));
  CHECK(Has(result.observed(), "n1"));
}

TEST_CASE("two GPU models stop a job; a machine without engines does not count", "[C7][J4]") {
  auto pool = Pool();
  pool["n2"] = Machine("10.0.0.3", "H200", 9000, milliseconds(0));
  v1::CheckResult result = CheckGpuFamily(pool);
  Complete(result);
  CHECK(result.outcome() == v1::OUTCOME_FAIL);
  CHECK(Has(result.observed(), "nvidia H100 on n0, n1; nvidia H200 on n2"));
  CHECK(Has(result.evidence(), "n2: 2 GPUs by nvidia-smi 550.54"));
  pool.at("n2").has_engines = false;
  CHECK(CheckGpuFamily(pool).outcome() == v1::OUTCOME_PASS);
  CHECK(CheckGpuFamily({{"n0", Machine("10.0.0.1", "", 1500, milliseconds(0))}}).outcome() ==
        v1::OUTCOME_SKIPPED);
}

TEST_CASE("two MTUs stop a job, and so does an address that no device carries", "[C9]") {
  auto pool = Pool();
  pool["n2"] = Machine("10.0.0.3", "H100", 1500, milliseconds(0));
  v1::CheckResult result = CheckMtu(pool);
  Complete(result);
  CHECK(result.outcome() == v1::OUTCOME_FAIL);
  CHECK(Has(result.observed(), "1500 on n2 eth0; 9000 on n0 eth0, n1 eth0"));
  pool.erase("n2");
  pool.at("n1").address = "10.0.0.99";
  result = CheckMtu(pool);
  Complete(result);
  CHECK(result.outcome() == v1::OUTCOME_NOT_MEASURED);
  CHECK(Has(result.observed(), "n1 (10.0.0.99)"));
  // RDMA devices that the pool uses count with their network devices.
  pool = Pool();
  v1::Nic* nic = pool.at("n1").facts.add_nics();
  nic->set_name("ib0");
  nic->set_mtu(4092);
  v1::RdmaPort* port = pool.at("n1").facts.add_rdma_ports();
  port->set_device("mlx5_0");
  port->set_netdev("ib0");
  CHECK(CheckMtu(pool).outcome() == v1::OUTCOME_PASS);
  pool.at("n1").rdma_devices = {"mlx5_0"};
  CHECK(CheckMtu(pool).outcome() == v1::OUTCOME_FAIL);
}
