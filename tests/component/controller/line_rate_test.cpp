// The line rate of a pair with several RDMA cards, over agents whose cards are known.
#include "controller/steps/line_rate.h"

#include "tests/component/controller/fixture.h"

using namespace poolmark;
using namespace poolmark::controller;
using namespace poolmark::test;

TEST_CASE("every RDMA card of a pair counts, in the line rate and in the path's bytes", "[I4][J1]") {
  ControllerFixture fixture;
  spec::JobSpec job;
  job.line_rate_runs = 1;
  for (const char* machine : {"n0", "n1"}) {
    spec::MachineSpec& spec = job.pool.machines.emplace_back();
    spec.name = machine;
    spec.rdma_devices = {"mlx5_0", "mlx5_1"};
  }
  Plan plan;
  plan.addresses = {{"n0", "10.0.0.1"}, {"n1", "10.0.0.2"}};
  plan.line_pairs = {{"n0", "n1", "rdma"}};
  plan.line_ports = {{"n0", 20'001}, {"n1", 20'002}};
  JobRun run;
  run.job_id = "j1";
  run.job = &job;
  run.plan = &plan;
  run.registry = fixture.registry.get();
  run.clock = &RealClock();
  run.event = [](v1::JobEvent) {};
  std::vector<v1::CheckResult> checks;
  const auto rates = MeasureLineRates(&run, &checks);
  REQUIRE(rates.size() == 1);
  CHECK(rates[0].failure == "");
  CHECK(rates[0].rdma_cards == 2);
  CHECK(run.line_rate_bits.at({"n0", "n1"}) == Approx(2e9));
  const PathBytes bytes =
      ReadThrough(run.calibrations.at("n0"), {{"rdma:mlx5_0", 3e9}, {"rdma:mlx5_1", 5e9}, {"net:eth0", 1e6}});
  CHECK(*bytes.rdma == Approx(8e9));
  CHECK(*bytes.tcp == Approx(1e6));
}
