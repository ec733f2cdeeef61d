#include "controller/steps/plan.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>
#include <set>

#include "absl/strings/str_cat.h"
#include "common/base/files.h"
#include "common/base/json.h"
#include "common/spec/read.h"
#include "common/tokenizer/local.h"
#include "controller/steps/pick_machines.h"
#include "tests/support/shared_data.h"

using namespace poolmark;
using namespace poolmark::controller;

namespace {

MachineFacts Machine(const std::string& name, const std::string& gpu = "", int gpus = 0,
                     const std::string& vendor = "nvidia") {
  MachineFacts machine;
  machine.name = name;
  machine.address = "10.0.0." + std::to_string(1 + name.back() - '0');
  machine.facts.set_work_dir("/var/lib/poolmark/agent/jobs");
  machine.facts.set_memory_available_bytes(64ull << 30);
  machine.facts.set_memory_lockable_bytes(32ull << 30);
  machine.facts.set_work_dir_free_bytes(100ull << 30);
  for (int i = 0; i < gpus; ++i) {
    v1::Gpu* one = machine.facts.add_gpus();
    one->set_index(static_cast<uint32_t>(i));
    one->set_vendor(vendor);
    one->set_model(gpu);
  }
  return machine;
}

// A place for disk tiers that the machine's agent.yaml names.
void Offer(MachineFacts* machine, const std::string& path, uint64_t free_bytes) {
  v1::Disk* disk = machine->facts.add_disks();
  disk->set_path(path);
  disk->set_free_bytes(free_bytes);
}

struct Case {
  std::string stack;
  std::string pool = "version: 1\nhead: n0\nmachines: [{name: n0}, {name: n1}]\n";
  std::vector<MachineFacts> machines = {Machine("n0"), Machine("n1")};
  std::string extra;
  std::string stacks = "[{use: stack.yaml, as: s}]";
  std::string workload = "shape: synthetic, input: 20, output: 8, concurrency: [2, 4]";
  std::map<std::string, Nanoseconds> lengths;  // of the loads
};

Result<spec::JobSpec> JobOf(const Case& c, Errors* refusals) {
  std::string job_yaml = "version: 1\npool: pool.yaml\nstacks: " + c.stacks + "\nworkloads: {w: {" +
                         c.workload + "}}\nrepeats: 2\n" + c.extra;
  auto files = [&](const std::string& name) -> Result<std::string> {
    if (name == "pool.yaml") return c.pool;
    if (name == "stack.yaml") return c.stack;
    return ReadFile(test::Source("deploy/stacks/" + name + ".yaml"));
  };
  return spec::ReadJob(job_yaml, "job.yaml", files, {}, refusals);
}

Result<Plan> PlanOf(const Case& c, Errors* refusals) {
  auto job = JobOf(c, refusals);
  if (!job.ok()) return job.status();
  PlanInput input;
  input.job_id = "j1";
  input.job = &*job;
  input.machines = c.machines;
  input.load_lengths = c.lengths;
  return MakePlan(input, refusals);
}

std::string RefusalsOf(const Case& c) {
  Errors refusals;
  auto plan = PlanOf(c, &refusals);
  CHECK_FALSE(plan.ok());
  std::string text;
  for (const Error& error : refusals) text += std::string(ToStatus(error).message()) + "\n";
  return text;
}

std::string EngineStack(const std::string& more) {
  return "version: 1\nstrategy: local\nengine: vllm\nparams: {host: 1GiB}\n" + more +
         "\nprocesses: [{name: engine, role: engine, exec: vllm, argv: [serve, --port, \"${port.http}\"], "
         "ports: [http], gpus: 4}]\nentry: engine.http\n";
}

}  // namespace

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

TEST_CASE("an attached engine that no agent of the pool can ask is refused, not found after the launch",
          "[C5]") {
  const auto stack = [](const std::string& at) {
    return "version: 1\nstrategy: local\nengine: vllm\nlaunch: attach\nreset: allow\nprocesses:\n  - {name: "
           "engine, role: engine, ports: [http], metrics: {port: http, dialect: vllm}, reset: {http: POST "
           "/r}, empty: canary, at: [{" +
           at + "}]}\nentry: engine.http\n";
  };
  Case c;
  for (MachineFacts& machine : c.machines) {
    v1::Nic* nic = machine.facts.add_nics();
    nic->set_name("eth0");
    nic->add_addresses(machine.address);
    nic->add_addresses("fd00::" + machine.name.substr(1));
  }
  // A pod's address, another machine's, and the head's when no machine is named.
  c.stack = stack("machine: n1, url: \"http://10.77.1.2:18000\"");
  CHECK_THAT(RefusalsOf(c),
             Catch::Contains("10.77.1.2 is no address of machine n1, whose agent would ask it"));
  c.stack = stack("machine: n1, url: \"http://10.0.0.2:1\", metrics: \"http://10.0.0.1:2/metrics\"");
  CHECK_THAT(RefusalsOf(c), Catch::Contains("10.0.0.1 is no address of machine n1"));
  c.stack = stack("url: \"http://10.0.0.2:1\"");
  CHECK_THAT(RefusalsOf(c), Catch::Contains("10.0.0.2 is no address of machine n0"));
  for (const char* good :
       {"machine: n1, url: \"http://10.0.0.2:1\"", "machine: n1, url: \"http://[fd00::1]:1/v1\"",
        "machine: n1, url: \"http://127.0.0.1:1\"", "url: \"http://10.0.0.1:1\""}) {
    c.stack = stack(good);
    Errors refusals;
    const bool planned = PlanOf(c, &refusals).ok();
    for (const Error& error : refusals) UNSCOPED_INFO(ToStatus(error).message());
    CHECK(planned);
  }
}

TEST_CASE("a job that names a tokenizer file is refused by a build that cannot read it", "[M23][C5]") {
  Case c;
  c.stacks = "[{use: sim-local, as: s}]";
  c.workload = "shape: synthetic, input: 20, output: 8, api: chat, concurrency: [2, 4]";
  c.extra = "load: {tokenizer: /models/m}\n";
  Errors refusals;
  const bool planned = PlanOf(c, &refusals).ok();
  CHECK(planned == tokenizer::LocalAvailable());
  if (!planned) {
    CHECK_THAT(RefusalsOf(c),
               Catch::Contains("load.tokenizer: '/models/m': this build has no local tokenizer"));
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

TEST_CASE("ports never clash with what a machine already uses", "[C3]") {
  Case c;
  c.stack =
      "version: 1\nstrategy: local\nengine: sim\nprocesses: [{name: engine, role: engine, exec: x, ports: "
      "[a, b, c]}]\nentry: engine.a\n";
  Errors refusals;
  auto first = PlanOf(c, &refusals);
  REQUIRE(first.ok());
  std::set<uint32_t> taken;
  for (const auto& process : first->stacks[0].processes)
    taken.insert(process.spec.ports().begin(), process.spec.ports().end());
  CHECK(taken.size() == 6);
  for (uint32_t port : taken) c.machines[1].facts.add_used_ports(port);
  auto second = PlanOf(c, &refusals);
  REQUIRE(second.ok());
  for (const auto& process : second->stacks[0].processes) {
    for (uint32_t port : process.spec.ports()) CHECK(taken.count(port) == 0);
  }
}

TEST_CASE("GPUs are handed out per engine and not beyond what a machine has", "[C2][C5]") {
  Case c;
  c.stack = EngineStack("");
  c.machines = {Machine("n0", "H100", 8), Machine("n1", "H100", 8)};
  Errors refusals;
  auto plan = PlanOf(c, &refusals);
  REQUIRE(plan.ok());
  CHECK(plan->stacks[0].gpus == 8);
  CHECK(plan->stacks[0].processes[0].spec.env().at("CUDA_VISIBLE_DEVICES") == "0,1,2,3");
  c.machines[1] = Machine("n1", "H200", 8);
  CHECK(RefusalsOf(c).find(
            "machine n0 has nvidia H100, machine n1 has nvidia H200: a pool uses one GPU family") !=
        std::string::npos);
  c.machines[1] = Machine("n1", "H100", 2);
  CHECK(RefusalsOf(c).find("engine asks for 4 GPUs, machine n1 has 2") != std::string::npos);
}

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

TEST_CASE("KV that is to move between machines needs two of them", "[C5][C19][C20]") {
  for (const char* stack : {"sim-shared", "sim-split", "sim-split-offload"}) {
    Case c;
    c.stacks = std::string("[{use: ") + stack + ", as: s}]";
    c.pool = "version: 1\nhead: n0\nmachines: [{name: n0}, {name: n1, gpus: 0}]\n";
    const std::string text = RefusalsOf(c);
    INFO(text);
    CHECK(text.find("all its engines would run on n0: give the pool a second machine") != std::string::npos);
  }
  for (const char* stack : {"sim-local", "sim-offload"}) {
    Case c;
    c.stacks = std::string("[{use: ") + stack + ", as: s}]";
    c.pool = "version: 1\nhead: n0\nmachines: [{name: n0}]\n";
    Errors refusals;
    CHECK(PlanOf(c, &refusals).ok());
  }
}

TEST_CASE("parties of one store that write another format are refused", "[I5][C5]") {
  Case c;
  c.stack =
      "version: 1\nstrategy: shared\nengine: vllm\nkv: {block_tokens: 16, hash_seed: 0}\nprocesses:\n"
      "  - {name: store, role: store, on: head, exec: valkey-server, ports: [main]}\n"
      "  - {name: engine, role: engine, exec: vllm, ports: [http], kv: {hash_seed: 7}}\nentry: engine.http\n";
  CHECK(RefusalsOf(c).find("writes KV with hash_seed 7, the others with 0") != std::string::npos);
}

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

TEST_CASE("KV links follow the strategy and are measured once", "[C13]") {
  Case c;
  c.stacks = "[{use: sim-split, as: s}]";
  Errors refusals;
  auto plan = PlanOf(c, &refusals);
  REQUIRE(plan.ok());
  CHECK(plan->line_pairs == std::vector<KvLink>{{"n0", "n1", "tcp"}});
  // Ports for several iperf3 servers, on both machines found free by preflight.
  CHECK(std::set<uint32_t>(plan->line_ports.begin(), plan->line_ports.end()).size() == 8);
  for (const char* machine : {"n0", "n1"}) {
    const auto& checked = plan->checks.at(machine).ports();
    for (uint32_t port : plan->line_ports) CHECK(std::count(checked.begin(), checked.end(), port) == 1);
  }
  // The tries for the number of servers take their time.
  const Nanoseconds with_tries = plan->estimate;
  c.extra = "preflight: {line_rate: {runs: 1, seconds: 10}}\n";
  plan = PlanOf(c, &refusals);
  REQUIRE(plan.ok());
  CHECK(with_tries - plan->estimate == std::chrono::seconds(2 * 11 + 4 * 4));
  c.extra.clear();
  c.stacks = "[{use: sim-local, as: s}]";
  plan = PlanOf(c, &refusals);
  REQUIRE(plan.ok());
  CHECK(plan->line_pairs.empty());
}

TEST_CASE("the plan picks machines of one family when the pool gives a number", "[C1]") {
  Case c;
  c.stack = EngineStack("");
  c.pool = "version: 1\nmachines: 2\n";
  c.machines = {Machine("n0", "A100", 8), Machine("n1", "H100", 8), Machine("n2", "H100", 8)};
  Errors refusals;
  auto plan = PlanOf(c, &refusals);
  REQUIRE(plan.ok());
  CHECK(plan->machines == std::vector<std::string>{"n1", "n2"});
  c.pool = "version: 1\nmachines: 3\n";
  CHECK_THAT(
      RefusalsOf(c),
      Catch::Contains("asks for 3 machines of one GPU family, 2 are available: 1 with A100; 2 with H100"));
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

TEST_CASE("an RDMA stack needs an active port on each machine, of those that the pool names or of any",
          "[C8]") {
  Case c;
  c.stack = EngineStack("kv: {path: rdma}\n");
  c.machines = {Machine("n0", "H100", 8), Machine("n1", "H100", 8)};
  for (MachineFacts& machine : c.machines) {
    for (const char* device : {"mlx5_0", "mlx5_1"}) {
      v1::RdmaPort* port = machine.facts.add_rdma_ports();
      port->set_device(device);
      port->set_port(1);
      port->set_state("ACTIVE");
    }
  }
  const auto planned = [&c] {
    Errors refusals;
    auto plan = PlanOf(c, &refusals);
    for (const Error& error : refusals) UNSCOPED_INFO(ToStatus(error).message());
    return plan.ok();
  };
  CHECK(planned());
  c.machines[1].facts.mutable_rdma_ports(0)->set_state("DOWN");
  CHECK(planned());
  c.pool =
      "version: 1\nhead: n0\nmachines: [{name: n0, net: {rdma: ['mlx5_0:1']}}, {name: n1, net: {rdma: "
      "[mlx5_0]}}]\n";
  CHECK_THAT(RefusalsOf(c), Catch::Contains("machine n1 has no active RDMA port: mlx5_0:1 is DOWN") &&
                                !Catch::Contains("machine n0"));
  c.pool = "version: 1\nhead: n0\nmachines: [{name: n0, net: {rdma: ['mlx5_0:2']}}, {name: n1}]\n";
  CHECK_THAT(RefusalsOf(c), Catch::Contains("none of the RDMA devices that the pool names"));
  c.machines[1].facts.mutable_rdma_ports(1)->set_state("INIT");
  c.pool = "version: 1\nhead: n0\nmachines: [{name: n0}, {name: n1}]\n";
  CHECK_THAT(RefusalsOf(c),
             Catch::Contains("machine n1 has no active RDMA port: mlx5_0:1 is DOWN, mlx5_1:1 is INIT"));
  c.pool = "version: 1\nmachines: 2\n";
  CHECK_THAT(RefusalsOf(c), Catch::Contains("2 with H100, of which 1 lack an active RDMA port"));
  // A machine that takes no part in moving KV needs none.
  c.pool = "version: 1\nhead: n0\nmachines: [{name: n0}, {name: n1, gpus: 0}]\n";
  CHECK(planned());
}

TEST_CASE("every RDMA card is a network of its own, tried end to end by its own address", "[C9]") {
  Case c;
  c.stack = EngineStack("kv: {path: rdma}\n");
  c.machines = {Machine("n0", "H100", 8), Machine("n1", "H100", 8), Machine("n2", "H100", 8)};
  for (size_t m = 0; m < 3; ++m) {
    for (int card = 0; card < 2; ++card) {
      v1::RdmaPort* port = c.machines[m].facts.add_rdma_ports();
      port->set_device("mlx5_" + std::to_string(card));
      port->set_port(1);
      port->set_state("ACTIVE");
      port->set_netdev("ens" + std::to_string(card));
      v1::Nic* nic = c.machines[m].facts.add_nics();
      nic->set_name(port->netdev());
      nic->add_addresses("192.168." + std::to_string(card) + "." + std::to_string(m + 1));
    }
  }
  using Names = std::vector<std::string>;
  const auto names = [](const auto& field) { return Names(field.begin(), field.end()); };
  Errors refusals;
  c.pool =
      "version: 1\nhead: n0\nmachines: [{name: n0}, {name: n1, net: {rdma: ['mlx5_1:1', mlx5_0]}}, {name: "
      "n2, gpus: 0}]\n";
  auto plan = PlanOf(c, &refusals);
  for (const Error& error : refusals) UNSCOPED_INFO(ToStatus(error).message());
  REQUIRE(plan.ok());
  // In the order in which the pool file names them: the first of the one against the first of the other.
  const auto& cards = plan->rdma_checks.at("n1");
  REQUIRE(cards.size() == 2);
  CHECK(names(cards[0].net_addresses()) == Names{"192.168.1.2"});
  CHECK(names(cards[0].peers()) == Names{"192.168.0.1"});
  CHECK(names(cards[1].net_addresses()) == Names{"192.168.0.2"});
  CHECK(names(cards[1].peers()) == Names{"192.168.1.1"});
  CHECK(names(plan->checks.at("n1").rdma_devices()) == Names{"mlx5_1:1", "mlx5_0"});
  CHECK_FALSE(plan->rdma_checks.contains("n2"));  // it has no part in moving KV
  CHECK(plan->checks.at("n2").rdma_devices().empty());
  c.machines[1].facts.mutable_nics(1)->clear_addresses();
  plan = PlanOf(c, &refusals);
  REQUIRE(plan.ok());
  CHECK(plan->rdma_checks.at("n1").size() == 1);
  c.stack = EngineStack("");
  plan = PlanOf(c, &refusals);
  REQUIRE(plan.ok());
  CHECK(plan->rdma_checks.empty());
}

TEST_CASE("a machine that takes no engines does not decide the vendor") {
  Case c;
  c.stack = EngineStack("vendor: [nvidia]\n");
  c.pool = "version: 1\nhead: n0\nmachines: [{name: n0, gpus: 0}, {name: n1}]\n";
  c.machines = {Machine("n0", "MI300X", 1, "amd"), Machine("n1", "H100", 8)};
  Errors refusals;
  auto plan = PlanOf(c, &refusals);
  for (const Error& error : refusals) UNSCOPED_INFO(ToStatus(error).message());
  CHECK(plan.ok());
}

TEST_CASE("the plan picks machines that can carry the job, free ones first, with the head that is named",
          "[C1]") {
  Case c;
  c.stack = EngineStack("");  // four GPUs for each engine
  c.pool = "version: 1\nmachines: 2\n";
  std::set<std::string> held;
  const auto picked = [&] {
    Errors refusals;
    auto job = JobOf(c, &refusals);
    REQUIRE(job.ok());
    auto names = PickMachines(*job, c.machines, held);
    INFO(names.status());
    REQUIRE(names.ok());
    return *names;
  };
  using Names = std::vector<std::string>;
  // Three machines without GPUs are the larger group, and carry nothing.
  c.machines = {Machine("c0", "", 0), Machine("c1", "", 0), Machine("c2", "", 0), Machine("g0", "H100", 8),
                Machine("g1", "H100", 8)};
  CHECK(picked() == Names{"g0", "g1"});
  c.machines[4] = Machine("g1", "H100", 2);
  CHECK_THAT(RefusalsOf(c),
             Catch::Contains("1 are available") && Catch::Contains("2 with H100, of which 1 lack 4 GPUs"));
  // What others hold, or wait for, comes last; where there is nothing else the job waits for it.
  c.machines = {Machine("g0", "H100", 8), Machine("g1", "H100", 8), Machine("g2", "H100", 8)};
  held = {"g0"};
  CHECK(picked() == Names{"g1", "g2"});
  held = {"g0", "g1"};
  CHECK(picked() == Names{"g2", "g0"});
  c.pool = "version: 1\nhead: g1\nmachines: 2\n";
  CHECK(picked() == Names{"g1", "g2"});
  c.pool = "version: 1\nhead: nobody\nmachines: 2\n";
  CHECK_THAT(RefusalsOf(c), Catch::Contains("one of them the head nobody"));
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
