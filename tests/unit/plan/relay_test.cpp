// `relay: store` as the plan lays it out, and its keys.
#include "controller/stacks/relay.h"

#include <catch2/catch.hpp>
#include <set>

#include "common/base/clock.h"
#include "common/base/files.h"
#include "common/relay/keys.h"
#include "common/spec/read.h"
#include "tests/support/shared_data.h"

using namespace poolmark;
using namespace poolmark::controller;

namespace {

struct Planned {
  Errors refusals;
  Result<Plan> plan = NotFound("", "");
};

Planned PlanShared(const std::string& pool, const std::string& stack_more, int machines = 3) {
  Planned planned;
  auto files = [&](const std::string& name) -> Result<std::string> {
    if (name == "pool.yaml") return pool;
    POOLMARK_ASSIGN_OR_RETURN(std::string text, ReadFile(test::Source("deploy/stacks/sim-shared.yaml")));
    return text + stack_more;
  };
  auto job = spec::ReadJob(
      "version: 1\npool: pool.yaml\nstacks: [{use: stack.yaml, as: s}]\n"
      "workloads: {w: {shape: synthetic, input: 20, output: 8, concurrency: [2]}}\nrepeats: 1\n",
      "job.yaml", files, {}, &planned.refusals);
  if (!job.ok()) return planned;
  PlanInput input;
  input.job_id = "j1";
  input.job = &*job;
  for (int i = 0; i < machines; ++i) {
    MachineFacts& machine = input.machines.emplace_back();
    machine.name = "n" + std::to_string(i);
    machine.address = "10.0.0." + std::to_string(1 + i);
    machine.facts.set_work_dir("/work");
    machine.facts.set_memory_available_bytes(64ull << 30);
    machine.facts.set_work_dir_free_bytes(100ull << 30);
  }
  planned.plan = MakePlan(input, &planned.refusals);
  return planned;
}

const PlannedProcess& ProcessOf(const Plan& plan, const std::string& id) {
  for (const PlannedProcess& process : plan.stacks[0].processes) {
    if (process.spec.id() == id) return process;
  }
  FAIL("no process " << id);
  return plan.stacks[0].processes[0];
}

bool Says(const PlannedProcess& process, const std::string& word) {
  for (const std::string& said : process.spec.argv()) {
    if (said == word) return true;
  }
  return false;
}

const char* kPool = "version: 1\nhead: n0\nmachines: [{name: n0, public: true}, {name: n1}, {name: n2}]\n";

}  // namespace

TEST_CASE("a relayed store listens on loopback, and each machine reaches it by its own end", "[J2]") {
  Planned planned = PlanShared(kPool, "relay: store\n");
  for (const Error& error : planned.refusals) UNSCOPED_INFO(ToStatus(error).message());
  REQUIRE(planned.plan.ok());
  const Plan& plan = *planned.plan;
  const PlannedProcess& store = ProcessOf(plan, "s.store-n0");
  const std::string store_port = std::to_string(store.spec.ports(0));
  CHECK(Says(store, "127.0.0.1"));
  CHECK_FALSE(Says(store, "10.0.0.1"));
  CHECK(store.metrics_url == "redis://127.0.0.1:" + store_port);
  const PlannedProcess& server = ProcessOf(plan, "s.relay-store-main-server-n0");
  CHECK(Says(server, "10.0.0.1:" + std::to_string(server.spec.ports(0))));
  CHECK(Says(server, "127.0.0.1:" + store_port));
  CHECK(server.spec.ready().tcp_address() == "10.0.0.1:" + std::to_string(server.spec.ports(0)));
  CHECK(Says(ProcessOf(plan, "s.engine-n0"), "redis://127.0.0.1:" + store_port));
  for (const char* machine : {"n1", "n2"}) {
    const PlannedProcess& client = ProcessOf(plan, std::string("s.relay-store-main-client-") + machine);
    CHECK(client.machine == machine);
    CHECK(Says(client, "10.0.0.1:" + std::to_string(server.spec.ports(0))));
    CHECK(Says(client, "127.0.0.1:" + std::to_string(client.spec.ports(0))));
    CHECK(Says(ProcessOf(plan, std::string("s.engine-") + machine),
               "redis://127.0.0.1:" + std::to_string(client.spec.ports(0))));
    CHECK(plan.checks.at(machine).relay_ports_size() == 0);
  }
  // Only the server's end may be reached from outside.
  REQUIRE(plan.checks.at("n0").relay_ports_size() == 1);
  CHECK(plan.checks.at("n0").relay_ports(0) == server.spec.ports(0));
  // Relays start with the store, before whoever uses it.
  CHECK(plan.stacks[0].processes.front().role == spec::Role::kRelay);
  CHECK(plan.stacks[0].processes.back().role == spec::Role::kRouter);
}

TEST_CASE("a store where the internet reaches it needs a relay", "[J2][C5]") {
  Planned planned = PlanShared(kPool, "");
  REQUIRE_FALSE(planned.plan.ok());
  REQUIRE(planned.refusals.size() == 1);
  CHECK(std::string(ToStatus(planned.refusals[0]).message()).find("relay: store") != std::string::npos);
  CHECK(PlanShared("version: 1\nhead: n0\nmachines: [{name: n0}, {name: n1}, {name: n2}]\n", "").plan.ok());
}

TEST_CASE("every end knows the keys of its other end and no more", "[J2]") {
  Planned planned = PlanShared(kPool, "relay: store\n");
  REQUIRE(planned.plan.ok());
  auto files = MakeRelayFiles(planned.plan->stacks[0], RealClock().Wall());
  REQUIRE(files.ok());
  CHECK(files->size() == 3);
  std::map<std::string, std::string> pins, accepts;
  std::set<std::string> keys;
  for (const auto& [id, list] : *files) {
    for (const v1::InputFile& file : list) {
      CHECK(Says(ProcessOf(*planned.plan, id), "/work/j1/" + file.path()));
      if (file.path().ends_with(".crt")) pins[id] = relay::PinOf(file.content()).value();
      if (file.path().ends_with(".accept")) accepts[id] = file.content();
      if (file.path().ends_with(".key")) keys.insert(file.content());
    }
  }
  CHECK(keys.size() == 3);
  const std::string server = "s.relay-store-main-server-n0", client = "s.relay-store-main-client-n";
  CHECK(accepts[client + "1"] == pins[server] + "\n");
  CHECK(accepts[client + "2"] == pins[server] + "\n");
  CHECK(accepts[server] == pins[client + "1"] + "\n" + pins[client + "2"] + "\n");
  auto again = MakeRelayFiles(planned.plan->stacks[0], RealClock().Wall());
  REQUIRE(again.ok());
  CHECK((*again)[server][0].content() != (*files)[server][0].content());
}
