// Sizes of KV tiers against the memory and disks of the machines.
#include <algorithm>
#include <catch2/catch.hpp>

#include "absl/strings/str_cat.h"
#include "tests/unit/plan/planning.h"

using namespace poolmark;
using namespace poolmark::controller;
using namespace poolmark::test;

TEST_CASE("a tier size that is none is told once, and nothing follows from it", "[C4][C5]") {
  for (const char* size : {"", "lots"}) {
    Case c;
    c.stacks = std::string("[{use: sim-offload, as: s, set: {host: \"") + size + "\"}}]";
    const std::string text = RefusalsOf(c);
    INFO(text);
    CHECK(text.find(absl::StrCat("'", size, "' is no size")) != std::string::npos);
    CHECK(std::count(text.begin(), text.end(), '\n') == 1);  // not once for each machine
  }
}

TEST_CASE("sizes left to the plan are a share of what there is", "[C4]") {
  Case c;
  c.stack = EngineStack("tiers: [{source: host, size: auto, owner: engine}]");
  c.machines = {Machine("n0", "H100", 8), Machine("n1", "H100", 8)};
  Errors refusals;
  auto plan = PlanOf(c, &refusals);
  REQUIRE(plan.ok());
  REQUIRE(plan->stacks[0].tiers.size() == 2);
  CHECK(plan->stacks[0].tiers[0].bytes == 16ull << 30);
  CHECK(plan->checks.at("n0").host_tier_bytes() == 16ull << 30);
}

TEST_CASE("a host tier and a store take the same memory: they are sized and refused together", "[C4][C5]") {
  Case c;
  c.machines = {Machine("n0"), Machine("n1")};  // 64 GiB free, 32 GiB of them lockable
  c.stacks = "[{use: sim-split-offload, as: s, set: {host: 30GiB, store: 30GiB}}]";
  Errors refusals;
  auto plan = PlanOf(c, &refusals);
  for (const Error& error : refusals) UNSCOPED_INFO(ToStatus(error).message());
  CHECK(plan.ok());
  c.stacks = "[{use: sim-split-offload, as: s, set: {host: 30GiB, store: 40GiB}}]";
  CHECK_THAT(RefusalsOf(c),
             Catch::Contains("on machine n0, which has 64GiB of memory free (70GiB together)") &&
                 !Catch::Contains("machine n1"));
  c.stacks = "[{use: sim-split-offload, as: s, set: {host: auto, store: auto}}]";
  refusals.clear();
  plan = PlanOf(c, &refusals);
  REQUIRE(plan.ok());
  uint64_t head = 0;
  for (const auto& tier : plan->stacks[0].tiers) head += tier.machine == "n0" ? tier.bytes : 0;
  CHECK(head <= 32ull << 30);
  CHECK(head >= 20ull << 30);
}

TEST_CASE("a disk tier is sized by the disk that the pool names, and only where its agent offers it",
          "[C4][C5]") {
  Case c;
  c.stack =
      "version: 1\nstrategy: offload\nengine: sim\nparams: {disk: 1TiB}\n"
      "tiers: [{source: storage, size: \"${disk}\", owner: engine}]\n"
      "processes: [{name: engine, role: engine, exec: x, ports: [http], disk: kv}]\nentry: engine.http\n";
  c.pool =
      "version: 1\nhead: n0\nmachines: [{name: n0, disk: /nvme/poolmark}, {name: n1, disk: "
      "/nvme/poolmark}]\n";
  Offer(&c.machines[0], "/nvme", 2ull << 40);
  std::string text = RefusalsOf(c);
  INFO(text);
  CHECK(text.find("tier storage of 'engine' would lie at '/nvme/poolmark', which machine n1 does not offer: "
                  "add it, or "
                  "a directory above it, below 'directories:'") != std::string::npos);
  CHECK(text.find("machine n0") == std::string::npos);
  Offer(&c.machines[1], "/nvme", 512ull << 30);
  text = RefusalsOf(c);
  CHECK(text.find("tier storage of 'engine' needs 1TiB on machine n1, which has 512GiB free on disk at "
                  "/nvme/poolmark") != std::string::npos);
  c.stacks = "[{use: stack.yaml, as: s, set: {disk: auto}}]";
  Errors refusals;
  auto plan = PlanOf(c, &refusals);
  REQUIRE(plan.ok());
  CHECK(plan->checks.at("n0").disk_tier_bytes() == 1ull << 40);
  CHECK(plan->checks.at("n1").disk_tier_bytes() == 256ull << 30);
}
