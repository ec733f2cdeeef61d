// Who may have which secret of a machine, as the plan sees it.
#include <catch2/catch.hpp>

#include "tests/unit/plan/planning.h"

using namespace poolmark;
using namespace poolmark::controller;
using namespace poolmark::test;

TEST_CASE("secrets and BMC logins that a machine does not give are refused with the plan, machine by machine",
          "[C12][I12]") {
  Case c;
  c.stack =
      "version: 1\nstrategy: local\nengine: vllm\nprocesses: [{name: engine, role: engine, on: each, exec: "
      "vllm, "
      "argv: [serve], ports: [http], secrets: {HF_TOKEN: hf, OTHER: key}}]\nentry: engine.http\n";
  c.pool =
      "version: 1\nmachines:\n"
      "  - {name: n0, bmc: {kind: redfish, address: 10.9.0.1, login: bmc}}\n"
      "  - {name: n1, bmc: {kind: ipmitool, address: 10.9.0.2, login: bmc}}\n";
  const std::string all = RefusalsOf(c);
  for (const char* part :
       {"pool, machine n0: secret 'key' is not given to vllm: write in the machine's allow.yaml: secrets: "
        "{key: "
        "[vllm]}",
        "pool, machine n1: secret 'key' is not given to vllm",
        "pool, machine n0: BMC login 'bmc' may not be sent to 10.9.0.1 by redfish: write in the machine's "
        "allow.yaml: bmc: [{address: 10.9.0.1, kind: redfish, login: bmc}]",
        "pool, machine n1: BMC login 'bmc' may not be sent to 10.9.0.2 by ipmitool"}) {
    INFO(part << " in " << all);
    CHECK(all.find(part) != std::string::npos);
  }
  CHECK(all.find("'hf'") == std::string::npos);
  for (size_t i = 0; i < 2; ++i) {
    v1::SecretUse* use = c.machines[i].facts.add_secrets();
    use->set_secret("key");
    use->add_programs("vllm");
    v1::BmcLogin* bmc = c.machines[i].facts.add_bmc_logins();
    bmc->set_kind(i == 0 ? "redfish" : "ipmitool");
    bmc->set_address(i == 0 ? "10.9.0.1" : "10.9.0.3");  // of n1 another one
    bmc->set_login("bmc");
  }
  const std::string one = RefusalsOf(c);
  INFO(one);
  CHECK(one.find("pool, machine n1: BMC login 'bmc' may not be sent to 10.9.0.2") == 0);
  CHECK(one.find("n0") == std::string::npos);
  c.machines[1].facts.mutable_bmc_logins(0)->set_address("10.9.0.2");
  Errors refusals;
  const auto plan = PlanOf(c, &refusals);
  REQUIRE(plan.ok());
  const v1::CheckPlan& check = plan->checks.at("n1");
  REQUIRE(check.secrets_size() == 2);
  CHECK(check.secrets(0).ShortDebugString() == "secret: \"hf\" programs: \"vllm\"");
  REQUIRE(check.bmc_logins_size() == 1);
  CHECK(check.bmc_logins(0).address() == "10.9.0.2");
}
