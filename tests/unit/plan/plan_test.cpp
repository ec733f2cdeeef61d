// The plan as a whole: what is refused at once, order, estimate, notes.
#include "controller/steps/plan.h"

#include <algorithm>
#include <catch2/catch.hpp>

#include "common/tokenizer/local.h"
#include "tests/unit/plan/planning.h"

using namespace poolmark;
using namespace poolmark::controller;
using namespace poolmark::test;

TEST_CASE("a plan that cannot work is refused with every reason at once", "[C5][A9][J4]") {
  Case c;
  c.stack = EngineStack(
      "kv: {path: rdma}\ntiers: [{source: host, size: 64GiB, owner: engine}, {source: storage, size: 1TiB, "
      "owner: engine}]");
  c.machines = {Machine("n0", "H100", 8), Machine("n1", "MI300X", 8, "amd")};
  std::string text = RefusalsOf(c);
  INFO(text);
  for (const char* expected :
       {"a pool uses one GPU family", "moves KV over RDMA, machine n0 has no RDMA port",
        "tier host of 'engine' needs 64GiB on machine n0, which can lock 32GiB",
        "tier storage of 'engine' needs 1TiB on machine n1, which has 100GiB free on disk at "
        "/var/lib/poolmark/agent/jobs"}) {
    CAPTURE(expected);
    CHECK(text.find(expected) != std::string::npos);
  }
  c.pool = "version: 1\nmachines: [{name: n0}, {name: n9}]\n";
  CHECK(RefusalsOf(c).find("machine n9: is not known to the controller: registered: n0, n1") !=
        std::string::npos);

  Case trt;
  trt.stack =
      "version: 1\nstrategy: local\nengine: trtllm\nprocesses: [{name: engine, role: engine, exec: "
      "trtllm-serve, ports: [http], gpus: 1}]\nentry: engine.http\n";
  trt.machines = {Machine("n0", "MI300X", 8, "amd"), Machine("n1", "MI300X", 8, "amd")};
  CHECK(RefusalsOf(trt).find("TensorRT-LLM does not run on AMD GPUs") != std::string::npos);
}

TEST_CASE("a job that names a tokenizer file is refused by a build that cannot read it", "[M23][C5]") {
  Case c;
  c.stacks = "[{use: sim-local, as: s}]";
  c.workload = "shape: synthetic, input: 20, output: 8, api: chat, concurrency: [2, 4]";
  c.extra = "load: {tokenizer: /models/m}\n";
  Errors refusals;
  const auto plan = PlanOf(c, &refusals);
  CHECK(plan.ok() == tokenizer::LocalAvailable());
  if (!plan.ok()) {
    CHECK_THAT(RefusalsOf(c),
               Catch::Contains("load.tokenizer: '/models/m': this build has no local tokenizer"));
    return;
  }
  // Preflight looks for its files on the machine that sends the load, and on no other.
  for (const auto& [machine, check] : plan->checks) {
    for (const char* file : {"file /models/m/tokenizer.json", "file /models/m/tokenizer_config.json"}) {
      INFO(machine << ": " << check.ShortDebugString());
      CHECK(std::count(check.executables().begin(), check.executables().end(), file) ==
            (machine == plan->head ? 1 : 0));
    }
  }
}

TEST_CASE("several stacks run in ABBA order and neighbours share a launch") {
  Case c;
  c.stacks = "[{use: sim-local, as: a}, {use: sim-offload, as: b}]";
  c.extra = "";
  Errors refusals;
  auto plan = PlanOf(c, &refusals);
  REQUIRE(plan.ok());
  std::string order;
  for (const PlannedCycle& cycle : plan->cycles) order += cycle.stack;
  CHECK(order == "aba");
  CHECK(plan->cycles[1].repeats.size() == 4);  // two levels, two repeats
}

TEST_CASE("the estimate follows the loads' lengths, and says what it guessed", "[C1]") {
  Case c;
  c.stacks = "[{use: sim-local, as: a}, {use: stack.yaml, as: b}]";
  c.stack = EngineStack("");
  c.machines = {Machine("n0", "H100", 8), Machine("n1", "H100", 8)};
  Errors refusals;
  auto guessed = PlanOf(c, &refusals);
  REQUIRE(guessed.ok());
  for (const char* stack : {"a", "b"}) {
    for (const char* level : {"c2", "c4"})
      c.lengths[std::string(stack) + "/w-" + level] = std::chrono::seconds(7);
  }
  auto known = PlanOf(c, &refusals);
  REQUIRE(known.ok());
  CHECK(known->estimate < guessed->estimate);
  // Two repeats of two levels on two stacks, at 7 s each; a launch of real engines counts minutes.
  CHECK(known->estimate > std::chrono::seconds(8 * 7) + std::chrono::minutes(3));
  CHECK(guessed->estimate - known->estimate == std::chrono::seconds(8 * (60 - 7)));
  CHECK(known->notes.size() + 1 == guessed->notes.size());
}

TEST_CASE("switches of the pool are named in a note: nothing reads their counters") {
  Case c;
  c.stacks = "[{use: sim-local, as: a}]";
  c.stack = EngineStack("");
  Errors refusals;
  auto without = PlanOf(c, &refusals);
  REQUIRE(without.ok());
  c.pool += "switches: [{name: leaf1, address: 10.9.0.9}, {name: old, ignore: true}]\n";
  auto with = PlanOf(c, &refusals);
  REQUIRE(with.ok());
  REQUIRE(with->notes.size() == without->notes.size() + 1);
  const auto note = std::find_if(with->notes.begin(), with->notes.end(),
                                 [](const std::string& one) { return one.starts_with("switches: "); });
  REQUIRE(note != with->notes.end());
  CHECK(note->find("does not read switch counters: leaf1 has no part in") != std::string::npos);
  CHECK(note->find("old") == std::string::npos);
  c.pool.replace(c.pool.find("leaf1,") + 6, 0, " ignore: true,");
  auto ignored = PlanOf(c, &refusals);
  REQUIRE(ignored.ok());
  CHECK(ignored->notes == without->notes);
}

TEST_CASE("a stack that compresses KV is compared with one that does not, which goes first", "[K30][I7]") {
  Case c;
  c.stack = *ReadFile(test::Source("deploy/stacks/sim-offload.yaml"));
  c.stack.replace(c.stack.find("kv: {"), 5, "kv: {compression: cachegen, ");
  c.stacks = "[{use: stack.yaml, as: cand}, {use: sim-offload, as: other}, {use: sim-local, as: base}]";
  c.extra = "accuracy: {dataset: hotpotqa}\n";
  Errors refusals;
  auto plan = PlanOf(c, &refusals);
  REQUIRE(plan.ok());
  REQUIRE(plan->accuracy.size() == 1);
  CHECK(plan->accuracy[0].stack == "cand");
  CHECK(plan->accuracy[0].reference == "base");  // the baseline: strategy local
  CHECK(plan->cycles[0].stack == "base");
  CHECK((*PlanJson(*plan)).find("\"reference\": \"base\"") != std::string::npos);
  CHECK(ExplainPlan(*plan).find("accuracy of cand") != std::string::npos);
  const Nanoseconds with = plan->estimate;

  c.extra = "accuracy: {dataset: hotpotqa, reference: other}\n";
  plan = PlanOf(c, &refusals);
  REQUIRE(plan.ok());
  CHECK(plan->accuracy[0].reference == "other");
  CHECK(plan->cycles[0].stack == "other");

  c.extra = "";
  plan = PlanOf(c, &refusals);
  REQUIRE(plan.ok());
  CHECK(plan->accuracy.empty());
  CHECK(plan->notes.at(0).find("its results will be invalid") != std::string::npos);
  CHECK(with > plan->estimate);

  c.stacks = "[{use: stack.yaml, as: cand}]";
  c.extra = "accuracy: {dataset: hotpotqa}\n";
  CHECK(RefusalsOf(c).find("no stack to compare its answers with") != std::string::npos);
}
