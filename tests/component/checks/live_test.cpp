// Checks and line rate against this very machine: real sockets, real processes, real iperf3.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <iostream>

#include "agent/checks/checks.h"
#include "agent/checks/line_rate.h"
#include "tests/support/temp_dir.h"
#include "tests/support/waiting.h"

using namespace poolmark;
using namespace poolmark::agent;

namespace {

using poolmark::test::FreePort;

// A listener on a port that the system chose.
struct Listener {
  int fd;
  uint16_t port = 0;
  explicit Listener(const char* address) : fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in where{};
    where.sin_family = AF_INET;
    ::inet_pton(AF_INET, address, &where.sin_addr);
    REQUIRE(::bind(fd, reinterpret_cast<sockaddr*>(&where), sizeof where) == 0);
    REQUIRE(::listen(fd, 1) == 0);
    socklen_t size = sizeof where;
    ::getsockname(fd, reinterpret_cast<sockaddr*>(&where), &size);
    port = ntohs(where.sin_port);
  }
  ~Listener() { ::close(fd); }
};

v1::CheckResult Run(const std::string& id, const v1::CheckPlan& plan, const CheckContext& context) {
  v1::CheckResult out;
  RunChecks(plan, {id}, context, [&](v1::CheckResult result) { out = std::move(result); });
  return out;
}

}  // namespace

TEST_CASE("a port that this process holds is named with its pid", "[C3][live]") {
  const auto spawner = MakeSpawner();
  CheckContext context;
  context.facts.spawner = spawner.get();
  v1::CheckPlan plan;
  plan.add_net_addresses("127.0.0.1");
  const Listener listener("127.0.0.1");
  plan.add_ports(listener.port);
  const auto taken = Run("ports_free", plan, context);
  CHECK(taken.outcome() == v1::OUTCOME_FAIL);
  CHECK(taken.observed().find("pid " + std::to_string(::getpid())) != std::string::npos);
  plan.clear_ports();
  plan.add_ports(FreePort());
  CHECK(Run("ports_free", plan, context).outcome() == v1::OUTCOME_PASS);
}

TEST_CASE("this process's own sockets are seen by owner, whatever the plan says", "[C11][live]") {
  const auto spawner = MakeSpawner();
  CheckContext context;
  context.facts.spawner = spawner.get();
  context.job_pids = [] { return std::set<int>{::getpid()}; };
  v1::CheckPlan plan;
  plan.set_loopback_only(true);
  const Listener inside("127.0.0.1");
  const auto result = Run("public_ports", plan, context);
  CHECK(result.outcome() == v1::OUTCOME_PASS);
  const std::string text =
      "tcp 127.0.0.1:" + std::to_string(inside.port) + ", pid " + std::to_string(::getpid());
  CHECK(result.evidence().find(text) != std::string::npos);
}

TEST_CASE("a secret on the command line of a real process is found and not repeated", "[C12][live]") {
  const auto spawner = MakeSpawner();
  CheckContext context;
  context.facts.spawner = spawner.get();
  context.all_secret_values = [] { return std::vector<std::string>{"pm-canary-7361"}; };
  const auto child = spawner->Start({{"sh", "-c", "echo; sleep 100", "sh", "--x=pm-canary-7361"}, {}});
  REQUIRE(child.ok());
  while ((*child)->Poll().out.empty())
    (*child)->Wait(std::chrono::milliseconds(5));  // its own command line by now
  const auto result = Run("secrets_in_ps", {}, context);
  CHECK(result.outcome() == v1::OUTCOME_FAIL);
  CHECK(result.observed().find("pid " + std::to_string((*child)->pid())) != std::string::npos);
  CHECK(result.ShortDebugString().find("canary-7361") == std::string::npos);
}

TEST_CASE("the checks that need no pool pass or explain themselves on this machine", "[C6][live]") {
  const auto spawner = MakeSpawner();
  test::TempDir dir;
  CheckContext context;
  context.facts.spawner = spawner.get();
  context.facts.work_dir = dir.path();
  for (const char* id : {"clock", "memlock", "leftovers", "disk_space"}) {
    v1::CheckPlan plan;
    plan.set_host_tier_bytes(1);
    const auto result = Run(id, plan, context);
    INFO(result.ShortDebugString());
    CHECK(result.outcome() != v1::OUTCOME_UNSPECIFIED);
    CHECK_FALSE(result.observed().empty());
  }
}

TEST_CASE("iperf3 between two ends on this machine gives a line rate, and leaves no process", "[C13][live]") {
  const auto spawner = MakeSpawner();
  LineRate line(spawner.get());
  v1::MeasureLineRequest request;
  request.set_kind(v1::LINE_KIND_IPERF3);
  request.set_address("127.0.0.1");
  request.set_port(FreePort());
  request.set_seconds(1);
  request.set_streams(2);
  if (!FindExecutable("iperf3")) {
    const auto missing = line.Measure(request);
    CHECK(missing.failure().find("iperf3 is not installed") != std::string::npos);
    std::cout << "skipped: no iperf3\n";
    return;
  }
  // nobody listens: iperf3 exits with 0 and an error inside
  const auto refused = line.Measure(request);
  CHECK(refused.failure().find("Connection refused") != std::string::npos);
  CHECK_FALSE(refused.has_bits_per_second());

  v1::MeasureLineRequest server = request;
  server.set_server(true);
  const auto started = line.Measure(server);
  REQUIRE(started.failure().empty());
  CHECK(line.Measure(server).failure().empty());  // again: it is there
  const auto measured = line.Measure(request);
  INFO(measured.failure());
  REQUIRE(measured.has_bits_per_second());
  CHECK(measured.bits_per_second() > 1e8);
  // What calibrates the path: the loopback interface counted about what the tool sent.
  const auto counted = measured.sent_by_device().find("net:lo");
  REQUIRE(counted != measured.sent_by_device().end());
  CHECK(counted->second >= 0.95 * measured.payload_bytes());
  CHECK(measured.tool().name() == "iperf3");
  CHECK_FALSE(measured.tool().version().empty());
  CHECK(measured.tool().sha256().size() == 64);
  server.set_stop_server(true);
  CHECK(line.Measure(server).failure().empty());
  CHECK(line.StopAll() == 0);
  CHECK(line.Measure(request).failure().find("Connection refused") != std::string::npos);
}

TEST_CASE("a line server whose port is taken fails with the reason", "[C13][live]") {
  const auto spawner = MakeSpawner();
  LineRate line(spawner.get());
  const Listener listener("127.0.0.1");
  v1::MeasureLineRequest request;
  request.set_kind(v1::LINE_KIND_IPERF3);
  request.set_server(true);
  request.set_port(listener.port);
  const auto response = line.Measure(request);
  if (FindExecutable("iperf3")) CHECK(response.failure().find("already held") != std::string::npos);
  request.set_port(0);
  CHECK(line.Measure(request).failure().find("no port") != std::string::npos);
  request.set_kind(v1::LINE_KIND_UNSPECIFIED);
  CHECK_FALSE(line.Measure(request).failure().empty());
}

TEST_CASE("RDMA tools that are missing or find no device refuse clearly", "[C14][live]") {
  const auto spawner = MakeSpawner();
  LineRate line(spawner.get());
  for (const v1::LineKind kind : {v1::LINE_KIND_IB_WRITE_BW, v1::LINE_KIND_IB_WRITE_LAT}) {
    v1::MeasureLineRequest request;
    request.set_kind(kind);
    request.set_address("127.0.0.1");
    request.set_port(FreePort());
    request.set_seconds(1);
    request.set_rdma_device("mlx5_poolmark_none");
    const auto response = line.Measure(request);
    CHECK_FALSE(response.failure().empty());
    CHECK_FALSE(response.has_bits_per_second());
    CHECK_FALSE(response.has_latency_p50_us());
    request.set_server(true);
    CHECK_FALSE(line.Measure(request).failure().empty());
  }
}
