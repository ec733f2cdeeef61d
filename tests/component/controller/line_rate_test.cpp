// The line rate of a pair, over agents whose link and cards are known.
#include "controller/steps/line_rate.h"

#include "tests/component/controller/fixture.h"

using namespace poolmark;
using namespace poolmark::controller;
using namespace poolmark::test;

namespace {

struct Line {
  explicit Line(const std::string& path) {
    job.line_rate_runs = 2;
    job.line_rate_seconds = 5;
    for (const char* machine : {"n0", "n1"}) {
      job.pool.machines.emplace_back().name = machine;
      for (const char* device : {"mlx5_0", "mlx5_1"}) {
        v1::RdmaPort* port = run.facts[machine].add_rdma_ports();
        port->set_device(device);
        port->set_port(1);
        port->set_state("ACTIVE");
      }
    }
    plan.addresses = {{"n0", "10.0.0.1"}, {"n1", "10.0.0.2"}};
    plan.line_pairs = {{"n0", "n1", path}};
    for (uint32_t port = 1; port <= 8; ++port) plan.line_ports.push_back(20'000 + port);
    run.job_id = "j1";
    run.job = &job;
    run.plan = &plan;
    run.registry = fixture.registry.get();
    run.clock = &RealClock();
    run.event = [](v1::JobEvent) {};
  }
  LineRate Measure() {
    checks.clear();
    auto rates = MeasureLineRates(&run, &checks);
    REQUIRE(rates.size() == 1);
    CHECK(rates[0].failure == "");
    // No server outlives its run.
    for (const auto& [machine, ports] : fixture.pool.line_servers) CHECK(ports.empty());
    return rates[0];
  }
  ControllerFixture fixture;
  spec::JobSpec job;
  Plan plan;
  JobRun run;
  std::vector<v1::CheckResult> checks;
};

}  // namespace

TEST_CASE("as many iperf3 servers as still help carry the line rate, found once for all runs", "[C13]") {
  Line line("tcp");
  line.fixture.pool.server_bits = 10e9;
  line.fixture.pool.line_bits = 35e9;
  const LineRate rate = line.Measure();
  // One gets 10 Gbit/s, two 20, four 35; eight no more.
  CHECK(rate.servers == 4);
  CHECK(rate.streams == 16);
  CHECK(*rate.bits_per_second == Approx(35e9));
  CHECK(rate.runs == std::vector<double>{35e9, 35e9});
  CHECK(rate.tcp_ratios == std::map<std::string, double>{{"net:eth0", 1.0}});
  CHECK(line.run.line_rate_bits.at({"n0", "n1"}) == Approx(35e9));
  const std::string evidence = line.checks.at(0).evidence();
  INFO(evidence);
  CHECK(evidence.find("35 Gbit/s, 35 Gbit/s with 16 streams to 4 servers") != std::string::npos);
  // Tries of 3 s with 1, 2, 4 and 8 servers and with more streams, then two whole runs of four each.
  const auto& clients = line.fixture.pool.line_clients;
  CHECK(clients.size() == 1 + 2 + 4 + 8 + 4 + 2 * 4);
  for (size_t i = 0; i < clients.size(); ++i) CHECK(clients[i].seconds == (i < clients.size() - 8 ? 3 : 5));
  std::set<uint32_t> ports;
  for (size_t i = clients.size() - 4; i < clients.size(); ++i) ports.insert(clients[i].port);
  CHECK(ports.size() == 4);
}

TEST_CASE("a line that one server fills is measured with one, and a single run looks for no more", "[C13]") {
  Line line("tcp");
  line.fixture.pool.server_bits = 100e9;
  line.fixture.pool.line_bits = 25e9;
  CHECK(line.Measure().servers == 1);
  line.fixture.pool.server_bits = 10e9;
  line.job.line_rate_runs = 1;
  line.fixture.pool.line_clients.clear();
  const LineRate quick = line.Measure();
  CHECK(*quick.bits_per_second == Approx(10e9));
  CHECK(line.fixture.pool.line_clients.size() == 1);
  CHECK(line.checks.at(0).evidence().find("one run: not looked whether more would help") !=
        std::string::npos);
}

TEST_CASE("every RDMA card of a pair counts, in the line rate and in the path's bytes", "[C14][I4][J1]") {
  Line line("rdma");
  line.job.pool.machines[0].rdma_devices = {"mlx5_0:1", "mlx5_1"};  // the others' are those that are active
  const LineRate rate = line.Measure();
  CHECK(rate.rdma_cards == 2);
  CHECK(line.run.line_rate_bits.at({"n0", "n1"}) == Approx(2e9));
  // The agent counts by device, whichever port was named.
  const results::PathBytes bytes = ReadThrough(
      line.run.calibrations.at("n0"), {{"rdma:mlx5_0", 3e9}, {"rdma:mlx5_1", 5e9}, {"net:eth0", 1e6}});
  CHECK(*bytes.rdma == Approx(8e9));
  CHECK(*bytes.tcp == Approx(1e6));
}
