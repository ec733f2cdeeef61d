#include "controller/steps/plan.h"

#include <algorithm>
#include <set>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/digest.h"
#include "common/base/time_format.h"
#include "common/tokenizer/local.h"
#include "common/workload/stored_settings.h"
#include "controller/stacks/rdma.h"
#include "controller/stacks/stack_plan.h"
#include "controller/steps/load_workers.h"
#include "controller/steps/pick_machines.h"
#include "controller/steps/plan_secrets.h"

namespace poolmark::controller {
namespace {

// What a launch, a verification and a tear-down usually take, for the estimate: a real engine loads a model.
constexpr Nanoseconds kCycleOverhead = std::chrono::minutes(3);
constexpr Nanoseconds kSimulatedCycleOverhead = std::chrono::seconds(3);
// A reset before, the collection after.
constexpr Nanoseconds kRepeatOverhead = std::chrono::seconds(1);
constexpr Nanoseconds kUnknownRepeat = std::chrono::seconds(60);
constexpr Nanoseconds kQuestion = std::chrono::seconds(2);
constexpr int kUnknownQuestions = 1000;
// The most iperf3 servers that are tried on a machine (line_rate.h).
constexpr int kLineServers = 8;

class Planner {
 public:
  Planner(const PlanInput& input, Errors* refusals) : input_(input), job_(*input.job), refusals_(refusals) {}

  Plan Run() {
    Plan plan;
    ChooseMachines();
    if (machines_.empty()) return plan;
    plan.head = head_;
    for (const PoolMachine& machine : machines_) {
      plan.machines.push_back(machine.name);
      plan.addresses[machine.name] = machine.address;
    }
    std::stable_sort(plan.machines.begin(), plan.machines.end(),
                     [&](const auto& a, const auto& b) { return (a == head_) > (b == head_); });
    CheckFamilies();
    ChooseLoadMachines();
    CheckTokenizer();

    uint64_t seed = std::stoull(Sha256Hex(input_.job_id, 8), nullptr, 16);
    PortPool ports(machines_, seed);
    for (const spec::StackSpec& stack : job_.stacks) {
      plan.stacks.push_back(
          PlanStack(stack, machines_, head_, input_.job_id, &ports, refusals_, &plan.notes));
    }
    PlanAccuracy(&plan);
    NoteSwitches(&plan);
    for (const StackPlan& stack : plan.stacks) {
      for (const KvLink& link : stack.links) {
        if (std::find(plan.line_pairs.begin(), plan.line_pairs.end(), link) == plan.line_pairs.end())
          plan.line_pairs.push_back(link);
      }
    }
    if (!job_.line_rate && !plan.line_pairs.empty()) {
      plan.line_pairs.clear();
      plan.notes.push_back(
          "the line rate is not measured (preflight.line_rate: off): transfer bandwidth has nothing beside "
          "it");
    }
    for (int i = 0; i < kLineServers && !plan.line_pairs.empty(); ++i) {
      const uint32_t port = ports.Take();
      if (port != 0) plan.line_ports.push_back(port);
    }
    if (!plan.line_pairs.empty() && plan.line_ports.empty())
      Refuse("preflight.line_rate", "no free port is left between 20000 and 29999",
             "end what uses them, or set line_rate: off");
    MakeChecks(&plan);
    MakeCycles(&plan);
    plan.load_machines = load_machines_;
    for (const spec::WorkloadSpec& workload : job_.workloads) {
      const Ratio ratio = workload::StoredScale(workload.options_json).value_or(Ratio{});
      const std::string scale = ratio == Ratio{} ? "" : absl::StrCat(", token scale ", FormatRatio(ratio));
      for (const spec::LoadLevel& level : workload.levels)
        plan.loads.push_back({workload.name, level.Name(), DescribeLevel(workload, level) + scale});
    }
    CheckLoadNames(plan);
    Estimate(&plan);
    return plan;
  }

 private:
  void Refuse(std::string where, std::string message, std::string hint = "") {
    refusals_->push_back({absl::StatusCode::kFailedPrecondition, "plan", std::move(where), std::move(message),
                          std::move(hint)});
  }

  void ChooseMachines() {
    std::vector<spec::MachineSpec> wanted = job_.pool.machines;
    if (wanted.empty()) wanted = Pick();
    head_ = job_.pool.head.empty() && !wanted.empty() ? wanted[0].name : job_.pool.head;
    for (const spec::MachineSpec& spec : wanted) {
      auto found = std::find_if(input_.machines.begin(), input_.machines.end(),
                                [&](const MachineFacts& m) { return m.name == spec.name; });
      if (found == input_.machines.end()) {
        std::vector<std::string> known;
        for (const MachineFacts& machine : input_.machines) known.push_back(machine.name);
        Refuse(absl::StrCat("pool, machine ", spec.name), "is not known to the controller",
               known.empty() ? "no agent has registered yet; start poolmark-agent on the machines"
                             : absl::StrCat("registered: ", absl::StrJoin(known, ", ")));
        continue;
      }
      if (!found->available) Refuse(absl::StrCat("pool, machine ", spec.name), found->unavailable_reason);
      PoolMachine machine;
      machine.name = spec.name;
      machine.facts = &*found;
      machine.spec = spec;
      machine.address = spec.tcp_address.empty() ? found->address : spec.tcp_address;
      machine.job_dir = absl::StrCat(found->facts.work_dir(), "/", input_.job_id);
      machine.disk_dir =
          spec.disk.empty() ? machine.job_dir : absl::StrCat(spec.disk, "/poolmark-", input_.job_id);
      const auto has = static_cast<uint32_t>(found->facts.gpus_size());
      machine.gpus = spec.gpus.value_or(has);
      machine.takes_engines = !(spec.gpus && *spec.gpus == 0);
      if (spec.gpus && *spec.gpus > has) {
        Refuse(absl::StrCat("pool, machine ", spec.name),
               absl::StrCat("the pool names ", *spec.gpus, " GPUs, the machine has ", has),
               "lower `gpus` or write all");
      }
      machines_.push_back(std::move(machine));
    }
    if (!head_.empty() && !machines_.empty() &&
        std::none_of(machines_.begin(), machines_.end(),
                     [&](const PoolMachine& m) { return m.name == head_; })) {
      if (refusals_->empty()) Refuse("pool", absl::StrCat("head '", head_, "' is none of the machines"));
      machines_.clear();
    }
  }

  void NoteSwitches(Plan* plan) {
    std::vector<std::string> names;
    for (const spec::SwitchSpec& one : job_.pool.switches) {
      if (!one.ignore) names.push_back(one.name);
    }
    if (names.empty()) return;
    plan->notes.push_back(absl::StrCat(
        "switches: this version does not read switch counters: ", absl::StrJoin(names, ", "),
        names.size() == 1 ? " has" : " have", " no part in the figures or the energy of this job"));
  }

  // For a pool that says how many machines. Which are free the caller knows (runner/planning.h).
  std::vector<spec::MachineSpec> Pick() {
    auto picked = PickMachines(job_, input_.machines, {});
    if (!picked.ok()) {
      refusals_->push_back(ErrorOf(picked.status()));
      return {};
    }
    std::vector<spec::MachineSpec> machines(picked->size());
    for (size_t i = 0; i < picked->size(); ++i) machines[i].name = (*picked)[i];
    return machines;
  }

  void ChooseLoadMachines() {
    load_machines_ = job_.load.machines;
    if (load_machines_.empty()) load_machines_ = {head_};
    for (const std::string& name : load_machines_) {
      const bool known = std::any_of(machines_.begin(), machines_.end(),
                                     [&](const PoolMachine& machine) { return machine.name == name; });
      if (known) continue;
      std::vector<std::string> names;
      for (const PoolMachine& machine : machines_) names.push_back(machine.name);
      Refuse("load.machines", absl::StrCat("'", name, "' is none of the pool's machines"),
             absl::StrCat("the pool has ", absl::StrJoin(names, ", "),
                          "; a machine for the load alone is one with `gpus: 0`"));
    }
  }

  // The load's machines run the same release as this controller.
  void CheckTokenizer() {
    if (job_.load.tokenizer.empty() || tokenizer::LocalAvailable()) return;
    Refuse("load.tokenizer", absl::StrCat("'", job_.load.tokenizer, "': this build has no local tokenizer"),
           "build with -DPOOLMARK_TOKENIZER=ON (the preset `tokenizer`), or leave it out: an engine with a "
           "tokenize endpoint counts");
  }

  // A load's process is named after its stack, workload and level; agents take names up to a length.
  // A load machine without a user would leave its sessions to nobody.
  void CheckShares(const PlannedRepeat& repeat) {
    if (repeat.level.kind != spec::LoadLevel::Kind::kConcurrency || repeat.repeat != 1) return;
    if (repeat.level.value >= static_cast<double>(load_machines_.size())) return;
    Refuse(absl::StrCat("workload ", repeat.workload),
           absl::StrCat("its level of ", repeat.level.value, " users cannot be shared by ",
                        load_machines_.size(), " load machines"),
           "name fewer machines under load, or raise the concurrency");
  }

  void CheckLoadNames(const Plan& plan) {
    std::set<std::string> told;
    for (const PlannedCycle& cycle : plan.cycles) {
      for (PlannedRepeat repeat : cycle.repeats) {
        CheckShares(repeat);
        repeat.repeat = job_.repeats;
        const std::string id =
            LoadId(*plan.stack(cycle.stack), repeat, 999, load_machines_.size() > 1 ? "load00" : "load");
        if (id.size() <= 63 || !told.insert(id).second) continue;  // IsName
        Refuse(absl::StrCat("workload ", repeat.workload),
               absl::StrCat("its loads' processes would be called '", id, "', which is too long by ",
                            id.size() - 63, " characters"),
               "shorten the names of the workload or the stack");
      }
    }
  }

  // M27 and "A pool uses one GPU family only".
  void CheckFamilies() {
    const PoolMachine* first = nullptr;
    for (const PoolMachine& machine : machines_) {
      if (!machine.takes_engines || machine.facts->facts.gpus_size() == 0) continue;
      if (first == nullptr) first = &machine;
      const v1::Gpu& a = first->facts->facts.gpus(0);
      for (const v1::Gpu& b : machine.facts->facts.gpus()) {
        if (a.vendor() == b.vendor() && a.model() == b.model()) continue;
        Refuse(
            "pool",
            absl::StrCat("machine ", first->name, " has ", a.vendor(), " ", a.model(), ", machine ",
                         machine.name, " has ", b.vendor(), " ", b.model(), ": a pool uses one GPU family"),
            "take one of them out of the pool");
        return;
      }
    }
  }

  // What the agent's allow-list is asked for a container, in its own words (agent.proto,
  // CheckPlan.executables).
  static void AddContainer(const v1::ProcessSpec& spec, std::set<std::string>* wanted) {
    const char* tool = spec.backend() == v1::BACKEND_PODMAN ? "podman" : "docker";
    wanted->insert(absl::StrCat("image ", tool, " ", spec.image()));
    for (const std::string& mount : spec.mounts()) wanted->insert(absl::StrCat("mount ", mount));
    for (const std::string& device : spec.devices()) wanted->insert(absl::StrCat("device ", device));
    if (spec.gpus_size() > 0 && spec.gpu_vendor() == "amd")
      wanted->insert({"device /dev/kfd", "device /dev/dri"});
  }

  // What a machine that sends the load must have.
  void AddLoad(const std::string& executable, std::set<std::string>* wanted) const {
    wanted->insert(executable);
    if (job_.load.tokenizer.empty()) return;
    const tokenizer::LocalFiles files = tokenizer::LocalFilesOf(job_.load.tokenizer);
    wanted->insert({absl::StrCat("file ", files.tokenizer), absl::StrCat("file ", files.config)});
  }

  // Where the tier of a process with a path of its own lies; "": on the machine's disk, or it has none.
  static std::string OwnPlace(const PoolMachine& machine, const PlannedProcess& process) {
    if (process.spec.directories().empty()) return "";
    const std::string& path = process.spec.directories(0).path();
    return absl::StartsWith(path, machine.disk_dir + "/") ? "" : path;
  }

  void MakeChecks(Plan* plan) {
    bool loopback = std::all_of(machines_.begin(), machines_.end(), [](const PoolMachine& m) {
      return m.address.rfind("127.", 0) == 0 || m.address == "::1" || m.address == "localhost";
    });
    const std::set<std::string> rdma_machines = RdmaMachines(*plan);
    for (const PoolMachine& machine : machines_) {
      v1::CheckPlan& check = plan->checks[machine.name];
      std::set<uint32_t> ports;
      std::set<std::string> executables, tools;
      const bool rdma = rdma_machines.contains(machine.name);
      for (const StackPlan& stack : plan->stacks) {
        uint64_t host = 0, disk = 0;
        std::map<std::string, uint64_t> places;
        for (const PlannedProcess& process : stack.processes) {
          if (process.machine != machine.name || process.attached) continue;
          ports.insert(process.spec.ports().begin(), process.spec.ports().end());
          if (process.public_relay)
            for (uint32_t port : process.spec.ports()) check.add_relay_ports(port);
          // In a container it is the image's.
          if (!process.spec.executable().empty() && process.spec.image().empty())
            executables.insert(process.spec.executable());
          if (!process.spec.image().empty()) AddContainer(process.spec, &executables);
          host += process.host_tier_bytes;
          if (const std::string own = OwnPlace(machine, process); own.empty()) {
            disk += process.disk_tier_bytes;
          } else {
            places[own] += process.disk_tier_bytes;
          }
          if (process.spec.gpus_size() > 0) check.set_need_gpus(true);
        }
        check.set_host_tier_bytes(std::max(check.host_tier_bytes(), host));
        check.set_disk_tier_bytes(std::max(check.disk_tier_bytes(), disk));
        for (const auto& [path, bytes] : places) {
          v1::DiskPlace* place = check.add_disk_places();
          place->set_path(path);
          place->set_bytes(bytes);
        }
      }
      const bool measured = std::any_of(
          plan->line_pairs.begin(), plan->line_pairs.end(),
          [&](const KvLink& link) { return link.from == machine.name || link.to == machine.name; });
      if (measured) {
        ports.insert(plan->line_ports.begin(), plan->line_ports.end());
        tools.insert("iperf3");
        if (rdma) tools.insert({"ib_write_bw", "ib_write_lat"});
      }
      if (std::find(load_machines_.begin(), load_machines_.end(), machine.name) != load_machines_.end())
        AddLoad(plan->load_executable, &executables);
      for (uint32_t port : ports) check.add_ports(port);
      for (const std::string& name : executables) check.add_executables(name);
      PlanSecrets(machine, plan->stacks, &check, refusals_);
      for (const std::string& name : tools) check.add_tools(name);
      check.set_disk_path(machine.spec.disk);
      if (rdma) {
        for (const std::string& device : PoolDevices(machine.spec.rdma_devices, machine.facts->facts))
          check.add_rdma_devices(device);
        if (!loopback) PlanRdmaChecks(machine, rdma_machines, &plan->rdma_checks[machine.name]);
      }
      if (machine.facts->facts.gpus_size() > 0) {
        check.set_gpu_model(machine.facts->facts.gpus(0).model());
        check.set_gpu_vendor(machine.facts->facts.gpus(0).vendor());
        const std::string& model = check.gpu_model();
        check.set_multi_node_nvlink(absl::StrContains(model, "GB200") || absl::StrContains(model, "GB300"));
      }
      check.add_net_addresses(machine.address);
      check.set_loopback_only(loopback);
      check.set_internet(machine.spec.is_public);
      for (const PoolMachine& other : machines_) {
        if (other.name != machine.name) check.add_peers(other.address);
      }
    }
  }

  // Those with whoever moves KV in a stack whose path is RDMA.
  static std::set<std::string> RdmaMachines(const Plan& plan) {
    std::set<std::string> machines;
    for (const StackPlan& stack : plan.stacks) {
      for (const PlannedProcess& process : stack.processes) {
        if (stack.kv.path == "rdma" && process.role != spec::Role::kRouter) machines.insert(process.machine);
      }
    }
    return machines;
  }

  // Card by card against the same card of every other machine: each may be a network of its own.
  void PlanRdmaChecks(const PoolMachine& machine, const std::set<std::string>& rdma_machines,
                      std::vector<v1::CheckPlan>* checks) const {
    const auto cards = PoolPorts(machine.spec.rdma_devices, machine.facts->facts);
    for (size_t i = 0; i < cards.size(); ++i) {
      const std::string own = RdmaAddressOf(cards[i], machine.facts->facts);
      if (own.empty()) continue;  // InfiniBand without IP: nothing there that a ping could reach
      v1::CheckPlan check;
      check.add_net_addresses(own);
      for (const PoolMachine& other : machines_) {
        const auto theirs = PoolPorts(other.spec.rdma_devices, other.facts->facts);
        if (other.name == machine.name || !rdma_machines.contains(other.name) || theirs.size() <= i) continue;
        const std::string address = RdmaAddressOf(theirs[i], other.facts->facts);
        if (!address.empty()) check.add_peers(address);
      }
      checks->push_back(std::move(check));
    }
  }

  // Repeat by repeat, the stacks in turn, every second round backwards (ABBA); neighbours share a launch.
  void MakeCycles(Plan* plan) {
    std::vector<std::string> order;
    for (const spec::StackSpec& stack : job_.stacks) order.push_back(stack.name);
    // The reference answers first, so that a repeat of a stack that compresses finds its accuracy result.
    if (!plan->accuracy.empty()) {
      auto reference = std::find(order.begin(), order.end(), plan->accuracy.front().reference);
      std::rotate(order.begin(), reference, reference + 1);
    }
    auto add = [&](const std::string& stack, int repeat) {
      if (plan->cycles.empty() || plan->cycles.back().stack != stack) {
        plan->cycles.push_back({static_cast<int>(plan->cycles.size()) + 1, stack, {}});
      }
      for (const spec::WorkloadSpec& workload : job_.workloads) {
        for (const spec::LoadLevel& level : workload.levels)
          plan->cycles.back().repeats.push_back({workload.name, level, repeat});
      }
    };
    for (int repeat = 1; repeat <= job_.repeats; ++repeat) {
      for (const std::string& stack : order) add(stack, repeat);
      std::reverse(order.begin(), order.end());
    }
  }

  // I7: a stack that compresses KV is compared with one that does not.
  void PlanAccuracy(Plan* plan) {
    const std::string asked = job_.accuracy ? job_.accuracy->reference : "";
    std::string reference = asked;
    for (const spec::StackSpec& stack : job_.stacks) {
      if (stack.kv.compression != "none") continue;
      // As asked for; else the baseline; else the first.
      if (reference.empty() || (stack.name == job_.baseline && asked.empty())) reference = stack.name;
    }
    for (const spec::StackSpec& stack : job_.stacks) {
      if (stack.kv.compression == "none") continue;
      const std::string who =
          absl::StrCat("stack ", stack.name, " compresses KV (", stack.kv.compression, ")");
      if (!job_.accuracy) {
        plan->notes.push_back(
            absl::StrCat(who, " and the job has no `accuracy`: its results will be invalid"));
      } else if (reference.empty()) {
        Refuse("accuracy", absl::StrCat(who, " and the job has no stack to compare its answers with"),
               "add one without compression, or take `accuracy` out (then its results are invalid)");
      } else {
        plan->accuracy.push_back({stack.name, reference});
      }
    }
    if (job_.accuracy && plan->accuracy.empty())
      plan->notes.push_back("`accuracy` has nothing to do: no stack of the job compresses KV");
  }

  // Questions are asked one after another; how long one takes is a guess.
  Nanoseconds AccuracyTime(const Plan& plan) const {
    if (plan.accuracy.empty()) return Nanoseconds(0);
    const int questions = job_.accuracy->limit == 0 ? kUnknownQuestions : job_.accuracy->limit;
    return kQuestion * questions * (job_.accuracy->reference_repeats + 2) *
           static_cast<int64_t>(plan.accuracy.size());
  }

  // iperf3's runs, the tries before them (four, as a rule), and each RDMA card.
  Nanoseconds LineTime(const KvLink& link) const {
    const std::chrono::seconds one(job_.line_rate_seconds + 1);
    Nanoseconds time = one * job_.line_rate_runs;
    if (job_.line_rate_runs > 1) time += std::min<Nanoseconds>(one, std::chrono::seconds(4)) * 4;
    if (link.path != "rdma") return time;
    for (const PoolMachine& machine : machines_) {
      if (machine.name != link.from) continue;
      const auto cards = PoolDevices(machine.spec.rdma_devices, machine.facts->facts).size();
      time += one * static_cast<int64_t>(cards) + std::chrono::seconds(2);
    }
    return time;
  }

  void Estimate(Plan* plan) {
    Nanoseconds total = std::chrono::seconds(5);
    for (const KvLink& link : plan->line_pairs) total += LineTime(link);
    total += AccuracyTime(*plan);
    bool guessed = false, launches = false;
    for (const PlannedCycle& cycle : plan->cycles) {
      const StackPlan* stack = plan->stack(cycle.stack);
      const bool simulated = stack != nullptr && (stack->simulated || stack->attach);
      launches = launches || !simulated;
      total += simulated ? kSimulatedCycleOverhead : kCycleOverhead;
      for (const PlannedRepeat& repeat : cycle.repeats) {
        auto workload = std::find_if(job_.workloads.begin(), job_.workloads.end(),
                                     [&](const auto& w) { return w.name == repeat.workload; });
        Nanoseconds length = kUnknownRepeat;
        auto known = input_.load_lengths.find(
            absl::StrCat(cycle.stack, "/", repeat.workload, "-", repeat.level.Name()));
        if (workload->load_duration) {
          length = *workload->load_duration;
        } else if (known != input_.load_lengths.end()) {
          length = known->second;
        } else {
          guessed = true;
        }
        if (load_machines_.size() > 1) length += job_.load.start_after;
        if (job_.starting_state == "warm") length *= 2;
        total += length + kRepeatOverhead;
      }
    }
    plan->estimate = total;
    if (!plan->accuracy.empty()) {
      plan->notes.push_back(absl::StrCat("the estimate takes ", FormatDuration(kQuestion),
                                         " for each question of the accuracy run"));
    }
    if (guessed) {
      plan->notes.push_back(absl::StrCat("the estimate takes ", FormatDuration(kUnknownRepeat),
                                         " for each repeat whose workload file is too large to look into"));
    }
    if (launches) {
      plan->notes.push_back(
          absl::StrCat("the estimate takes ", FormatDuration(kCycleOverhead),
                       " for each launch, and 200ms and 20ms a token for an answer: measure to know"));
    }
  }

  const PlanInput& input_;
  const spec::JobSpec& job_;
  Errors* refusals_;
  std::vector<PoolMachine> machines_;
  std::string head_;
  std::vector<std::string> load_machines_;
};

}  // namespace

const StackPlan* Plan::stack(const std::string& name) const {
  for (const StackPlan& candidate : stacks) {
    if (candidate.name == name) return &candidate;
  }
  return nullptr;
}

Result<Plan> MakePlan(const PlanInput& input, Errors* refusals) {
  Errors found;
  Plan plan = Planner(input, &found).Run();
  // One mistake of a stack shows on each machine that it is planned for.
  std::set<std::string> told;
  for (Error& error : found) {
    if (told.insert(std::string(ToStatus(error).message())).second) refusals->push_back(std::move(error));
  }
  if (!found.empty()) return ToStatus(*refusals);
  return plan;
}

}  // namespace poolmark::controller
