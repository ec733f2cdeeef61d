// Preflight over agents that behave: which checks it asks for beside those of every machine.
#include "controller/steps/preflight.h"

#include "tests/component/controller/fixture.h"

using namespace poolmark;
using namespace poolmark::controller;
using namespace poolmark::test;

TEST_CASE(
    "preflight asks for the MTU of each RDMA card by its own address, and the job stops at one that fails",
    "[C9][C28]") {
  ControllerFixture fixture;
  spec::JobSpec job;
  Plan plan;
  plan.head = "n0";
  plan.machines = {"n0", "n1"};
  for (const char* machine : {"n0", "n1"}) {
    job.pool.machines.emplace_back().name = machine;
    plan.addresses[machine] = "127.0.0.1";
    plan.checks[machine];
  }
  for (const char* card : {"192.168.0.", "192.168.1."}) {
    v1::CheckPlan& check = plan.rdma_checks["n0"].emplace_back();
    check.add_net_addresses(std::string(card) + "1");
    check.add_peers(std::string(card) + "2");
  }
  plan.rdma_checks["n1"];  // InfiniBand without IP
  JobRun run;
  run.job_id = "j1";
  run.job = &job;
  run.plan = &plan;
  run.registry = fixture.registry.get();
  run.clock = &RealClock();
  run.results_dir = fixture.dir / "results";
  REQUIRE(MakeDirs(run.results_dir, 0750).ok());
  std::mutex mutex;  // told
  std::map<std::string, std::string> told;
  run.event = [&](v1::JobEvent event) {
    std::lock_guard lock(mutex);
    if (event.check().id() == "mtu_rdma")
      told[event.machine() + ": " + event.check().observed()] = v1::Outcome_Name(event.check().outcome());
  };
  const StepOutcome passed = Preflight(&run);
  for (const v1::Reason& reason : passed.reasons) UNSCOPED_INFO(reason.message());
  CHECK(passed.passed());
  CHECK(told == std::map<std::string, std::string>{
                    {"n0: device of 192.168.0.1, carried to 192.168.0.2", "OUTCOME_PASS"},
                    {"n0: device of 192.168.1.1, carried to 192.168.1.2", "OUTCOME_PASS"},
                    {"n1: the network devices of its RDMA cards have no address that could be pinged",
                     "OUTCOME_SKIPPED"}});
  fixture.pool.failing_checks = {"mtu 192.168.1.1"};
  const StepOutcome failed = Preflight(&run);
  CHECK_FALSE(failed.passed());
  REQUIRE(failed.reasons.size() == 1);
  CHECK(failed.reasons[0].check() == "mtu_rdma");
  CHECK(failed.reasons[0].machine() == "n0");
  CHECK_THAT(failed.reasons[0].message(), Catch::Contains("not carried to 192.168.1.2"));
}
