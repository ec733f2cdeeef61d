// Stacks that can be planned, and what makes two of them the same configuration.
#include <algorithm>
#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>
#include <set>

#include "common/base/json.h"
#include "tests/unit/plan/planning.h"

using namespace poolmark;
using namespace poolmark::controller;
using namespace poolmark::test;

TEST_CASE("every shipped stack on simulated engines can be planned", "[A1][A2][A3][A4][A5][A6][C1][C3]") {
  for (const char* name :
       {"sim-local", "sim-offload", "sim-shared", "sim-shared-dir", "sim-split", "sim-split-offload"}) {
    CAPTURE(name);
    Case c;
    c.stacks = std::string("[{use: ") + name + ", as: s}]";
    if (std::string(name) == "sim-shared-dir") {
      c.stacks = "[{use: sim-shared-dir, as: s, set: {directory: /srv/kv}}]";
      for (MachineFacts& machine : c.machines) Offer(&machine, "/srv", 1ull << 40);
    }
    Errors refusals;
    auto plan = PlanOf(c, &refusals);
    for (const Error& error : refusals) UNSCOPED_INFO(ToStatus(error).message());
    REQUIRE(plan.ok());
    std::set<uint32_t> ports;
    for (const PlannedProcess& process : plan->stacks[0].processes) {
      for (uint32_t port : process.spec.ports()) CHECK(ports.insert(port).second);
      for (const std::string& word : process.spec.argv()) CHECK(word.find("${") == std::string::npos);
    }
    CHECK_FALSE(plan->stacks[0].entry_url.empty());
    auto json = PlanJson(*plan);
    REQUIRE(json.ok());
    CHECK(ParseJson(*json).ok());
    CHECK(ExplainPlan(*plan).find("estimated time") != std::string::npos);
  }
}

TEST_CASE("every shipped stack can be planned on machines that have what it needs", "[A7][C16]") {
  auto names = ListDir(test::Source("deploy/stacks"));
  REQUIRE(names.ok());
  REQUIRE(names->size() >= 10);
  for (const std::string& file : *names) {
    std::string name = file.substr(0, file.find(".yaml"));
    CAPTURE(name);
    Case c;
    auto text = ReadFile(test::Source("deploy/stacks/" + file));
    REQUIRE(text.ok());
    std::string set = text->find("model: null") != std::string::npos ? ", set: {model: /models/m}" : "";
    if (name == "sim-shared-dir") set = ", set: {directory: /srv/kv}";
    c.stacks = "[{use: " + name + ", as: s" + set + "}]";
    c.machines = {Machine("n0", "H100", 16), Machine("n1", "H100", 16)};
    for (MachineFacts& machine : c.machines) {
      v1::RdmaPort* port = machine.facts.add_rdma_ports();
      port->set_device("mlx5_0");
      port->set_state("ACTIVE");
      machine.facts.set_memory_lockable_bytes(512ull << 30);
      machine.facts.set_memory_available_bytes(1ull << 40);
      machine.facts.set_work_dir_free_bytes(4ull << 40);
      Offer(&machine, "/srv", 1ull << 40);
    }
    Errors refusals;
    auto plan = PlanOf(c, &refusals);
    for (const Error& error : refusals) UNSCOPED_INFO(ToStatus(error).message());
    CHECK(plan.ok());
  }
}

TEST_CASE("the attached stack of the documentation can be planned as it stands there", "[C5][I6]") {
  const std::string page = *ReadFile(test::Source("docs/stacks.md"));
  const size_t begin = page.find("```yaml\n", page.find("## Attached stacks")) + 8;
  Case c;
  c.stack = page.substr(begin, page.find("```", begin) - begin);
  c.pool = "version: 1\nhead: n0\nmachines: [{name: n0, gpus: 0}, {name: n1}, {name: n2}]\n";
  c.machines = {Machine("n0"), Machine("n1", "H100", 8), Machine("n2", "H100", 8)};
  c.stacks = "[{use: stack.yaml, as: s, set: {model: m}}]";
  Errors refusals;
  auto plan = PlanOf(c, &refusals);
  for (const Error& error : refusals) UNSCOPED_INFO(ToStatus(error).message());
  REQUIRE(plan.ok());
  const StackPlan& stack = plan->stacks[0];
  REQUIRE(stack.processes.size() == 3);
  CHECK(stack.gpus == 16);
  CHECK(stack.entry_url == "http://10.0.0.1:9000");
  CHECK(stack.processes[1].metrics_url == "http://10.0.0.3:8000/metrics");
  CHECK(stack.processes[1].canary);
  REQUIRE(stack.processes[1].resets.size() == 1);
  CHECK(stack.processes[1].resets[0].url() == "http://10.0.0.3:8000/reset_prefix_cache");
}

TEST_CASE("a shipped stack takes as many GPUs as it is set to, and tells its engine the number", "[C2][A7]") {
  for (const char* stack : {"vllm-local", "sglang-hicache-offload"}) {
    for (const char* count : {"8", "2"}) {
      Case c;
      c.stacks = std::string("[{use: ") + stack + ", as: s, set: {model: /m, gpus: \"" + count + "\"}}]";
      c.machines = {Machine("n0", "H100", std::stoi(count)), Machine("n1", "H100", std::stoi(count))};
      Errors refusals;
      auto plan = PlanOf(c, &refusals);
      for (const Error& error : refusals) UNSCOPED_INFO(ToStatus(error).message());
      REQUIRE(plan.ok());
      for (const PlannedProcess& process : plan->stacks[0].processes) {
        if (process.role != spec::Role::kEngine) continue;
        CHECK(process.spec.gpus_size() == std::stoi(count));
        const auto& argv = process.spec.argv();
        auto flag = std::find_if(argv.begin(), argv.end(), [](const std::string& word) {
          return word == "--tensor-parallel-size" || word == "--tp-size";
        });
        REQUIRE(flag != argv.end());
        CHECK(*(flag + 1) == count);
      }
    }
    Case c;
    c.stacks = std::string("[{use: ") + stack + ", as: s, set: {model: /m, gpus: many}}]";
    c.machines = {Machine("n0", "H100", 8), Machine("n1", "H100", 8)};
    CHECK(RefusalsOf(c).find("parameter gpus is 'many', a whole number from 0 to 1024 is needed") !=
          std::string::npos);
  }
}

TEST_CASE("another KV format, tier or parameter is another configuration", "[A8]") {
  const auto digest = [](const std::string& more) {
    Case c;
    c.stack = EngineStack(more);
    c.machines = {Machine("n0", "H100", 8), Machine("n1", "H100", 8)};
    Errors refusals;
    auto plan = PlanOf(c, &refusals);
    for (const Error& error : refusals) UNSCOPED_INFO(ToStatus(error).message());
    REQUIRE(plan.ok());
    return plan->stacks[0].digest;
  };
  const std::string first = digest("kv: {dtype: bf16}");
  CHECK(first == digest("kv: {dtype: bf16}"));
  CHECK(first != digest("kv: {dtype: fp8}"));
  CHECK(first != digest("kv: {dtype: bf16, block_tokens: 32}"));
  CHECK(first != digest("kv: {dtype: bf16}\ntiers: [{source: host, size: 1GiB, owner: engine}]"));
}

TEST_CASE("parties of one store that write another format are refused", "[I5][C5]") {
  Case c;
  c.stack =
      "version: 1\nstrategy: shared\nengine: vllm\nkv: {block_tokens: 16, hash_seed: 0}\nprocesses:\n"
      "  - {name: store, role: store, on: head, exec: valkey-server, ports: [main]}\n"
      "  - {name: engine, role: engine, exec: vllm, ports: [http], kv: {hash_seed: 7}}\nentry: engine.http\n";
  CHECK(RefusalsOf(c).find("writes KV with hash_seed 7, the others with 0") != std::string::npos);
}
