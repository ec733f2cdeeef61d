// Step 1, Plan: from a job and the machines' facts to everything the other six steps do, or to all the
// reasons why it cannot work. Pure: same input, same plan; made at submit to refuse early, and again when the
// machines are locked. Thread-safe.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "common/base/clock.h"
#include "common/base/result.h"
#include "common/spec/job.h"
#include "poolmark/v1/agent.pb.h"

namespace poolmark::results {
struct PlanFile;
struct PlanProcess;
struct PlanStack;
}  // namespace poolmark::results

namespace poolmark::controller {

// What the plan may know of a machine.
struct MachineFacts {
  std::string name;
  std::string address;  // host part of where the agent is dialled
  v1::Facts facts;
  bool available = true;  // ready and not drained; a plan at submit may use busy ones
  std::string unavailable_reason;
};

// One process of one cycle. `spec` is complete: argv, environment, ports, directories.
struct PlannedProcess {
  std::string machine;
  spec::Role role = spec::Role::kEngine;
  std::string template_name;           // in the stack file
  v1::ProcessSpec spec;                // id is "<stack>.<name>-<machine>[-<index>]", unique within the stack
  std::string dialect;                 // of its metrics; "" : none
  std::string compatible;              // versions that the stack file is for (spec/versions.h); "" : any
  std::string metrics_url;             // "" : none
  std::string base_url;                // http://address:port of its first HTTP port; "" : none
  std::vector<v1::ResetStep> resets;   // how its cache is cleared
  std::vector<v1::ResetStep> empties;  // how it is read back as empty
  std::vector<v1::ResetStep> evicts;   // how its GPU cache alone is emptied
  bool canary = false;                 // emptiness is shown by a prompt that must not hit
  bool restart_to_reset = false;       // has no reset: start it again
  uint64_t host_tier_bytes = 0;
  uint64_t disk_tier_bytes = 0;
  bool public_relay = false;  // the TLS end of `relay: store` that may stand on a public address
  bool attached = false;      // launch: attach; never started, stopped or reset unless allowed
};

struct PlannedTier {
  spec::TierSource source = spec::TierSource::kHost;
  uint64_t bytes = 0;
  std::string machine;
  std::string owner;  // process id
};

// A directed pair of machines between which KV travels (M11, M12).
struct KvLink {
  std::string from;
  std::string to;
  std::string path;  // "tcp" or "rdma"
  bool operator==(const KvLink&) const = default;
};

struct StackPlan {
  std::string name;
  spec::Strategy strategy = spec::Strategy::kLocal;
  std::string description;
  std::string engine_kind;
  std::string model;  // as requests name it
  bool simulated = false;
  bool attach = false;
  bool reset_allowed = true;
  spec::KvFormat kv;
  std::vector<PlannedProcess> processes;  // in launch order: stores, caches and engines, routers
  std::vector<PlannedTier> tiers;
  std::string entry_url;  // where the load goes
  std::string entry_machine;
  std::vector<KvLink> links;
  uint32_t gpus = 0;   // GPUs all engines use together
  std::string digest;  // of the stack's definition with its parameters (M25)
  bool relay = false;  // TLS link to a store on a public address
};

// One repeat of one test point.
struct PlannedRepeat {
  std::string workload;
  spec::LoadLevel level;
  int repeat = 1;  // 1 …
};

// What one level of a workload sends, for people.
struct PlannedLoad {
  std::string workload;
  std::string level;  // its name
  std::string text;   // "Poisson arrivals, 5 requests/s"
};

// One launch of one stack.
struct PlannedCycle {
  int number = 1;
  std::string stack;
  std::vector<PlannedRepeat> repeats;
};

// The accuracy run of a stack that compresses KV: its answers against those of a stack that does not.
struct PlannedAccuracy {
  std::string stack;
  std::string reference;
};

struct Plan {
  std::string head;
  std::vector<std::string> machines;             // head first
  std::map<std::string, std::string> addresses;  // machine -> address in the pool's TCP network
  std::vector<StackPlan> stacks;
  std::vector<PlannedLoad> loads;               // each level of each workload
  std::vector<PlannedCycle> cycles;             // ABBA over the stacks
  std::vector<PlannedAccuracy> accuracy;        // where the job has `accuracy`
  std::map<std::string, v1::CheckPlan> checks;  // machine -> preflight
  // Machine -> its check `mtu` once more for each of its RDMA cards that has an address: a network of its
  // own.
  std::map<std::string, std::vector<v1::CheckPlan>> rdma_checks;
  std::vector<KvLink> line_pairs;            // of all stacks, each once
  std::vector<uint32_t> line_ports;          // of iperf3's servers, the same on every machine of line_pairs
  uint32_t line_streams = 4;                 // to each server, to begin with
  std::string load_executable = "poolmark";  // in the allow-list of the load machines
  std::vector<std::string> load_machines;    // the head, unless the job names others
  Nanoseconds estimate{0};
  std::vector<std::string> notes;
  const StackPlan* stack(const std::string& name) const;
};

struct PlanInput {
  std::string job_id;
  const spec::JobSpec* job = nullptr;
  std::vector<MachineFacts> machines;  // every machine the controller knows
  // "<stack>/<workload>-<level>" -> how long its load takes, where that is known beforehand.
  std::map<std::string, Nanoseconds> load_lengths;
};

// All refusals at once in `refusals` (then the result is an error with the same text).
Result<Plan> MakePlan(const PlanInput& input, Errors* refusals);

// plan.json of the results directory (docs/result-files.md).
results::PlanFile ToFile(const Plan& plan);
results::PlanStack ToFile(const StackPlan& stack);
results::PlanProcess ToFile(const PlannedProcess& process);
Result<std::string> PlanJson(const Plan& plan);
// The plan for people: machines, processes, ports, tiers, cycles, estimate.
std::string ExplainPlan(const Plan& plan);

}  // namespace poolmark::controller
