// Where the processes of a stack run: machines, instances, GPUs, ports, directories. Pure.
#pragma once
#include <map>
#include <set>
#include <string>
#include <vector>

#include "common/base/result.h"
#include "common/spec/job.h"
#include "controller/steps/plan.h"

namespace poolmark::controller {

// A machine as the plan uses it.
struct PoolMachine {
  std::string name;
  std::string address;  // in the pool's TCP network
  const MachineFacts* facts = nullptr;
  spec::MachineSpec spec;     // with defaults where the pool gave only a count
  std::string job_dir;        // <Facts.work_dir>/<job_id>
  std::string disk_dir;       // where disk tiers of this job go
  bool takes_engines = true;  // false for `gpus: 0`
  uint32_t gpus = 0;          // it may use
};

// One instance of a process template.
struct Instance {
  const spec::ProcessTemplate* process = nullptr;
  const PoolMachine* machine = nullptr;  // nullptr: attached without a machine
  const spec::AttachPoint* attached = nullptr;
  unsigned index = 0;  // among the instances of its template
  unsigned count = 1;
  std::string id;
  std::map<std::string, uint32_t> ports;
  std::vector<uint32_t> gpus;
  std::string address;   // that it binds; "": its machine's
  std::string relay_of;  // a relay: the id of its store
  // A relayed store: machine -> port name -> port of the link's end on that machine's loopback interface.
  std::map<std::string, std::map<std::string, uint32_t>> relayed;
};

// Hands out ports that no machine of the pool uses, each once per plan: machines may share an address.
class PortPool {
 public:
  // `seed` spreads jobs that run at the same time over the range.
  PortPool(const std::vector<PoolMachine>& machines, uint64_t seed);
  // 0 when the range is used up.
  uint32_t Take();

 private:
  std::set<uint32_t> used_;
  uint32_t next_;
  uint32_t left_;
};

// A launch goes by stages: 0 stores (and the links to them), 1 caches, 2 engines, 3 routers.
constexpr int kLaunchStages = 4;
int LaunchStage(spec::Role role);

// All instances in launch order (stores, caches, engines, routers). What cannot be placed goes to `refusals`.
std::vector<Instance> PlaceStack(const spec::StackSpec& stack, const std::vector<PoolMachine>& machines,
                                 const std::string& head, PortPool* ports, Errors* refusals);

}  // namespace poolmark::controller
