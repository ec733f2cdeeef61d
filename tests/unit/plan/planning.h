// Machines and jobs for tests of the plan. Machines are as their agents describe them: n0 is 10.0.0.1.
#pragma once
#include <catch2/catch.hpp>
#include <map>
#include <string>
#include <vector>

#include "common/base/files.h"
#include "common/spec/read.h"
#include "controller/steps/plan.h"
#include "tests/support/shared_data.h"

namespace poolmark::test {

inline controller::MachineFacts Machine(const std::string& name, const std::string& gpu = "", int gpus = 0,
                                        const std::string& vendor = "nvidia") {
  controller::MachineFacts machine;
  machine.name = name;
  machine.address = "10.0.0." + std::to_string(1 + name.back() - '0');
  machine.facts.set_work_dir("/var/lib/poolmark/agent/jobs");
  machine.facts.set_memory_available_bytes(64ull << 30);
  machine.facts.set_memory_lockable_bytes(32ull << 30);
  machine.facts.set_work_dir_free_bytes(100ull << 30);
  v1::SecretUse* given = machine.facts.add_secrets();
  given->set_secret("hf");
  for (const char* program : {"vllm", "python3"}) given->add_programs(program);
  for (int i = 0; i < gpus; ++i) {
    v1::Gpu* one = machine.facts.add_gpus();
    one->set_index(static_cast<uint32_t>(i));
    one->set_vendor(vendor);
    one->set_model(gpu);
  }
  return machine;
}

// A place for disk tiers that the machine's agent.yaml names.
inline void Offer(controller::MachineFacts* machine, const std::string& path, uint64_t free_bytes) {
  v1::Disk* disk = machine->facts.add_disks();
  disk->set_path(path);
  disk->set_free_bytes(free_bytes);
}

// One job: its stack file, pool file and machines; one synthetic workload of two levels.
struct Case {
  std::string stack;
  std::string pool = "version: 1\nhead: n0\nmachines: [{name: n0}, {name: n1}]\n";
  std::vector<controller::MachineFacts> machines = {Machine("n0"), Machine("n1")};
  std::string extra;
  std::string stacks = "[{use: stack.yaml, as: s}]";
  std::string workload = "shape: synthetic, input: 20, output: 8, concurrency: [2, 4]";
  std::map<std::string, Nanoseconds> lengths;  // of the loads
};

inline Result<spec::JobSpec> JobOf(const Case& c, Errors* refusals) {
  std::string job_yaml = "version: 1\npool: pool.yaml\nstacks: " + c.stacks + "\nworkloads: {w: {" +
                         c.workload + "}}\nrepeats: 2\n" + c.extra;
  auto files = [&](const std::string& name) -> Result<std::string> {
    if (name == "pool.yaml") return c.pool;
    if (name == "stack.yaml") return c.stack;
    return ReadFile(Source("deploy/stacks/" + name + ".yaml"));
  };
  return spec::ReadJob(job_yaml, "job.yaml", files, {}, refusals);
}

inline Result<controller::Plan> PlanOf(const Case& c, Errors* refusals) {
  auto job = JobOf(c, refusals);
  if (!job.ok()) return job.status();
  controller::PlanInput input;
  input.job_id = "j1";
  input.job = &*job;
  input.machines = c.machines;
  input.load_lengths = c.lengths;
  return controller::MakePlan(input, refusals);
}

// What the plan is refused for, a line each.
inline std::string RefusalsOf(const Case& c) {
  Errors refusals;
  auto plan = PlanOf(c, &refusals);
  CHECK_FALSE(plan.ok());
  std::string text;
  for (const Error& error : refusals) text += std::string(ToStatus(error).message()) + "\n";
  return text;
}

// One vLLM engine of four GPUs; `more` are further lines.
inline std::string EngineStack(const std::string& more) {
  return "version: 1\nstrategy: local\nengine: vllm\nparams: {host: 1GiB}\n" + more +
         "\nprocesses: [{name: engine, role: engine, exec: vllm, argv: [serve, --port, \"${port.http}\"], "
         "ports: [http], gpus: 4}]\nentry: engine.http\n";
}

}  // namespace poolmark::test
