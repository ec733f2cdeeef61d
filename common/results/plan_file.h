// plan.json: what the controller planned: machines, processes, tiers, links over which KV travels, what is
// sent, and the launches. The evidence of a repeat is held against it. Plain values.
#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/result.h"

namespace poolmark::results {

struct PlanMachine {
  std::string name, address;
};

// A directed pair of machines between which KV travels.
struct PlanLink {
  std::string from, to;
  std::string path;  // "tcp" or "rdma"
};

struct PlanTier {
  std::string source;  // "host", "storage", "remote"
  uint64_t bytes = 0;
  std::string machine, owner;  // the owner is a process
};

struct PlanProcess {
  std::string id;    // "<stack>.<name>-<machine>[-<index>]"
  std::string role;  // "store", "cache", "engine", "prefill", "decode", "router", "relay", …
  std::string machine;
  bool attached = false;
  std::string backend;  // "process", "docker", "podman"
  std::string executable, image;
  std::vector<std::string> argv;
  std::map<std::string, std::string> env;
  std::map<std::string, std::string> secrets;  // variable -> name of the secret
  std::vector<uint32_t> gpus, ports;
  std::vector<std::string> directories;
  std::string url, metrics_url, dialect;  // "" : none
  uint64_t host_tier_bytes = 0, disk_tier_bytes = 0;

  // What it keeps must be read back as empty before a repeat.
  bool holds_kv() const;
  bool is_engine() const;
};

struct PlanKv {
  std::string path, compression, dtype;
  int block_tokens = 0;
  std::optional<int> chunk_tokens, hash_seed;
};

struct PlanStack {
  std::string name, strategy, description, engine, model;
  bool simulated = false;
  std::string launch;  // "launch" or "attach"
  std::string digest;
  uint64_t gpus = 0;
  PlanKv kv;
  std::string entry_url, entry_machine;
  std::vector<PlanTier> tiers;
  std::vector<PlanLink> links;
  std::vector<PlanProcess> processes;
};

struct PlanRepeat {
  std::string workload, level;
  int repeat = 1;
};

struct PlanCycle {
  int number = 1;
  std::string stack;
  std::vector<PlanRepeat> repeats;
};

struct PlanAccuracy {
  std::string stack, reference;
};

struct PlanLoad {
  std::string workload, level, text;
};

struct PlanFile {
  std::string head;
  std::vector<PlanMachine> machines;
  std::vector<PlanStack> stacks;
  std::vector<PlanCycle> cycles;
  std::vector<PlanAccuracy> accuracy;
  std::vector<PlanLoad> loads;
  std::vector<std::string> load_machines;
  std::vector<PlanLink> line_pairs;
  double estimated_seconds = 0;
  std::vector<std::string> notes;

  const PlanStack* stack(std::string_view name) const;
};

Result<std::string> Encode(const PlanFile& file);
// Without stacks it is no plan.
Result<PlanFile> DecodePlan(std::string_view text, std::string_view where);

}  // namespace poolmark::results
