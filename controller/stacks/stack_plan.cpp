#include "controller/stacks/stack_plan.h"

#include <algorithm>
#include <deque>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "common/base/digest.h"
#include "controller/stacks/fill.h"
#include "controller/stacks/rdma.h"
#include "controller/stacks/relay.h"
#include "controller/stacks/resets.h"
#include "controller/stacks/stack_digest.h"
#include "controller/stacks/starting_state.h"
#include "controller/stacks/tiers.h"

namespace poolmark::controller {
namespace {

class StackPlanner {
 public:
  StackPlanner(const spec::StackSpec& stack, const std::vector<PoolMachine>& machines,
               const std::string& head, const std::string& job_id, PortPool* ports, Errors* refusals,
               std::vector<std::string>* notes)
      : stack_(stack), machines_(machines), head_(head), ports_(ports), refusals_(refusals), notes_(notes) {
    context_.stack = &stack_;
    context_.job_id = job_id;
  }

  StackPlan Run() {
    StackPlan plan;
    plan.name = stack_.name;
    plan.strategy = stack_.strategy;
    plan.description = stack_.description;
    plan.engine_kind = stack_.engine_kind;
    plan.simulated = stack_.simulated;
    plan.attach = stack_.attach;
    plan.reset_allowed = stack_.reset_allowed;
    plan.kv = stack_.kv;
    plan.relay = stack_.relay == "store";
    auto model = stack_.params.find("model");
    if (model != stack_.params.end()) plan.model = model->second;
    CheckVendors();
    CheckFormats();

    instances_ = PlaceStack(stack_, machines_, head_, ports_, refusals_);
    if (plan.relay) {
      std::vector<Instance> relays =
          PlaceRelays(stack_, machines_, &instances_, ports_, &relay_templates_, refusals_);
      // Before whoever uses the store.
      instances_.insert(instances_.begin(), relays.begin(), relays.end());
    } else {
      CheckPublicStore();
    }
    CheckReach();
    if (stack_.kv.path == "rdma") CheckRdma();
    context_.instances = &instances_;
    SizeTiers(stack_, instances_, &context_, &plan, refusals_);
    for (const Instance& instance : instances_) {
      PlannedProcess process = MakeProcess(instance);
      if (instance.process->gpus) plan.gpus += static_cast<uint32_t>(instance.gpus.size());
      plan.processes.push_back(std::move(process));
    }
    plan.digest = StackDigest(stack_);
    CompleteStartingState(&plan, refusals_, notes_);
    SetEntry(&plan);
    plan.links = LinksOf(stack_, instances_);
    return plan;
  }

 private:
  void Refuse(std::string message, std::string hint = "") {
    refusals_->push_back({absl::StatusCode::kFailedPrecondition, "plan", absl::StrCat("stack ", stack_.name),
                          std::move(message), std::move(hint)});
  }
  // The filled text, or "" and a refusal.
  std::string Filled(const Instance& instance, const std::string& text) {
    auto filled = Fill(context_, instance, text);
    if (filled.ok()) return *filled;
    refusals_->push_back(ErrorOf(filled.status()));
    return "";
  }

  void CheckVendors() {
    for (const PoolMachine& machine : machines_) {
      if (!machine.takes_engines) continue;
      for (const v1::Gpu& gpu : machine.facts->facts.gpus()) {
        if (stack_.engine_kind == "trtllm" && gpu.vendor() == "amd") {
          Refuse(absl::StrCat("TensorRT-LLM does not run on AMD GPUs, machine ", machine.name, " has ",
                              gpu.model()),
                 "use a vLLM or SGLang stack");
          return;
        }
        if (!stack_.vendor.empty() &&
            std::find(stack_.vendor.begin(), stack_.vendor.end(), gpu.vendor()) == stack_.vendor.end()) {
          Refuse(absl::StrCat("is for ", stack_.vendor[0], " GPUs, machine ", machine.name, " has ",
                              gpu.vendor(), " ", gpu.model()));
          return;
        }
      }
    }
  }

  // A store without a relay must not stand where the internet reaches it.
  void CheckPublicStore() {
    for (const Instance& instance : instances_) {
      if (instance.process->role != spec::Role::kStore || instance.attached != nullptr) continue;
      if (!instance.machine->spec.is_public || machines_.size() < 2) continue;
      Refuse(absl::StrCat("process '", instance.process->name, "' is the shared store and machine ",
                          instance.machine->name, " has a public address"),
             "set relay: store in the stack file, or name a private address (public: false)");
    }
  }

  // Where KV is to move between machines there must be two: with one, verification could never see it move.
  void CheckReach() {
    if (stack_.attach || stack_.strategy == spec::Strategy::kLocal ||
        stack_.strategy == spec::Strategy::kOffload)
      return;
    std::set<std::string> machines;
    for (const Instance& instance : instances_) {
      if (LaunchStage(instance.process->role) == 2) machines.insert(instance.machine->name);
    }
    if (machines.size() != 1) return;
    Refuse(absl::StrCat(stack_.strategy == spec::Strategy::kShared ? "shares KV between machines"
                                                                   : "hands KV from machine to machine",
                        ", and all its engines would run on ", *machines.begin()),
           "give the pool a second machine that takes engines");
  }

  // M13: parties of one store must write the same format.
  void CheckFormats() {
    for (const spec::ProcessTemplate& process : stack_.processes) {
      for (const auto& [field, value] : process.kv) {
        std::string common;
        if (field == "block_tokens")
          common = absl::StrCat(stack_.kv.block_tokens);
        else if (field == "chunk_tokens")
          common = stack_.kv.chunk_tokens ? absl::StrCat(*stack_.kv.chunk_tokens) : "unset";
        else if (field == "hash_seed")
          common = stack_.kv.hash_seed ? absl::StrCat(*stack_.kv.hash_seed) : "unset";
        else if (field == "dtype")
          common = stack_.kv.dtype;
        else if (field == "serializer")
          common = stack_.kv.serializer;
        else {
          Refuse(absl::StrCat("process '", process.name, "' sets kv.", field,
                              ", which is no part of the KV format"));
          continue;
        }
        if (value != common) {
          Refuse(absl::StrCat("process '", process.name, "' writes KV with ", field, " ", value,
                              ", the others with ", common, ": a reader could not use it"),
                 "give all parties of one store the same format");
        }
      }
    }
  }

  // An active port on each machine that moves KV, of the devices that the pool names or of any.
  void CheckRdma() {
    std::set<std::string> told;
    for (const Instance& instance : instances_) {
      if (instance.process->role == spec::Role::kRouter || instance.machine == nullptr) continue;
      const PoolMachine& machine = *instance.machine;
      if (!told.insert(machine.name).second) continue;
      const auto ports = PoolPorts(machine.spec.rdma_devices, machine.facts->facts);
      const auto& all = machine.facts->facts.rdma_ports();
      std::vector<std::string> down;
      for (const v1::RdmaPort& port :
           ports.empty() ? std::vector<v1::RdmaPort>(all.begin(), all.end()) : ports) {
        if (port.state() == "ACTIVE") continue;
        down.push_back(absl::StrCat(port.device(), ":", port.port(), " is ",
                                    port.state().empty() ? "in no known state" : port.state()));
      }
      if (down.size() < ports.size()) continue;
      const bool named = !machine.spec.rdma_devices.empty();
      const std::string has = all.empty() ? "no RDMA port"
                              : named && ports.empty()
                                  ? "none of the RDMA devices that the pool names"
                                  : absl::StrCat("no active RDMA port: ", absl::StrJoin(down, ", "));
      Refuse(absl::StrCat("moves KV over RDMA, machine ", machine.name, " has ", has),
             "use a stack with kv.path: tcp, or name the machine's devices in net.rdma");
    }
  }

  PlannedProcess MakeProcess(const Instance& instance) {
    const spec::ProcessTemplate& process = *instance.process;
    PlannedProcess planned;
    planned.machine = instance.machine->name;
    planned.role = process.role;
    planned.template_name = process.name;
    planned.attached = instance.attached != nullptr;
    planned.dialect = process.metrics.dialect;
    planned.compatible = process.compatible;
    planned.canary = process.empty.canary;
    planned.restart_to_reset = process.reset.restart;
    v1::ProcessSpec& spec = planned.spec;
    spec.set_id(instance.id);
    spec.set_role(std::string(spec::RoleName(process.role)));
    const std::string main_port =
        std::find(process.ports.begin(), process.ports.end(), "http") != process.ports.end() ? "http"
        : process.ports.empty()                                                              ? ""
                                : process.ports[0];
    // A relay speaks its store's protocol, not HTTP.
    if (process.role != spec::Role::kRelay) planned.base_url = UrlOf(instance, main_port);
    if (!process.metrics.port.empty()) {
      planned.metrics_url = UrlOf(instance, process.metrics.port) + process.metrics.path;
    } else if (process.metrics.dialect == "redis" && !main_port.empty()) {
      planned.metrics_url = absl::StrCat("redis://", planned.base_url.substr(7));
    }
    for (uint32_t gpu : instance.gpus) spec.add_gpus(gpu);
    if (instance.attached != nullptr) {
      if (!instance.attached->metrics.empty()) planned.metrics_url = instance.attached->metrics;
      AddResets(instance, &planned);
      return planned;
    }

    spec.set_backend(process.backend == "docker"   ? v1::BACKEND_DOCKER
                     : process.backend == "podman" ? v1::BACKEND_PODMAN
                                                   : v1::BACKEND_PROCESS);
    spec.set_executable(Filled(instance, process.exec));
    spec.set_image(process.image);
    auto argv = FillArgv(context_, instance);
    if (argv.ok()) {
      for (std::string& word : *argv) spec.add_argv(std::move(word));
    } else {
      refusals_->push_back(ErrorOf(argv.status()));
    }
    for (const auto& [key, value] : process.env) (*spec.mutable_env())[key] = Filled(instance, value);
    if (!instance.gpus.empty()) {
      const auto& gpus = instance.machine->facts->facts.gpus();
      const bool amd = !gpus.empty() && gpus.Get(0).vendor() == "amd";
      spec.set_gpu_vendor(gpus.empty() ? "" : gpus.Get(0).vendor());
      (*spec.mutable_env())[amd ? "HIP_VISIBLE_DEVICES" : "CUDA_VISIBLE_DEVICES"] =
          Filled(instance, "${gpu_indexes}");
    }
    for (const auto& [variable, secret] : process.secrets) (*spec.mutable_secrets())[variable] = secret;
    for (const auto& [name, port] : instance.ports) spec.add_ports(port);
    planned.public_relay = process.role == spec::Role::kRelay && instance.address.empty();
    if (!process.disk.empty()) {
      auto directory = DirectoryOf(context_, instance);
      // A path of all machines is one directory, which the first makes, and removes when the others have
      // ended.
      const bool makes =
          directory.ok() && (process.disk_path.empty() || shared_directories_.insert(*directory).second);
      if (makes) {
        v1::Directory* made = spec.add_directories();
        made->set_path(*directory);
        made->set_quota_bytes(BytesOf(instance.id, "storage"));
        made->set_emptied(true);
      } else if (!directory.ok()) {
        refusals_->push_back(ErrorOf(directory.status()));
      }
    }
    for (const auto& [path, content] : process.files) {
      v1::InputFile* file = spec.add_files();
      file->set_path(path);
      file->set_content(Filled(instance, content));
      file->set_sha256(Sha256Hex(file->content()));
    }
    if (!process.ready.http.empty())
      spec.mutable_ready()->set_http_url(planned.base_url + process.ready.http);
    if (!process.ready.redis.empty())
      spec.mutable_ready()->set_redis_address(
          planned.base_url.substr(std::min<size_t>(7, planned.base_url.size())));
    if (!process.ready.tcp.empty())
      spec.mutable_ready()->set_tcp_address(
          Filled(instance, absl::StrCat("${hostport.", process.ready.tcp, "}")));
    spec.mutable_ready()->set_within_ns(process.ready.within.count());
    spec.set_stop_grace_ns(process.stop_grace.count());
    for (const std::string& device : process.devices) spec.add_devices(device);
    for (const std::string& mount : process.mounts) spec.add_mounts(Filled(instance, mount));
    planned.host_tier_bytes = BytesOf(instance.id, "host");
    planned.disk_tier_bytes = BytesOf(instance.id, "storage");
    if (!process.disk.empty()) planned.disk_tier_bytes += BytesOf(instance.id, "remote");
    AddResets(instance, &planned);
    return planned;
  }

  uint64_t BytesOf(const std::string& id, const std::string& source) const {
    auto instance = context_.tier_bytes.find(id);
    if (instance == context_.tier_bytes.end()) return 0;
    auto bytes = instance->second.find(source);
    return bytes == instance->second.end() ? 0 : bytes->second;
  }

  void SetEntry(StackPlan* plan) {
    std::vector<std::string> entry = absl::StrSplit(stack_.entry, '.');
    for (const Instance& instance : instances_) {
      if (instance.process->name != entry[0]) continue;
      plan->entry_url = UrlOf(instance, entry.size() == 2 ? entry[1] : "http");
      plan->entry_machine = instance.machine->name;
      if (instance.count > 1)
        notes_->push_back(absl::StrCat("stack ", stack_.name, ": requests go to the first of ",
                                       instance.count, " instances of ", entry[0]));
      return;
    }
    Refuse(absl::StrCat("entry '", stack_.entry, "' has no instance"));
  }

  const spec::StackSpec& stack_;
  const std::vector<PoolMachine>& machines_;
  std::string head_;
  PortPool* ports_;
  Errors* refusals_;
  std::vector<std::string>* notes_;
  std::deque<spec::ProcessTemplate> relay_templates_;
  std::set<std::string> shared_directories_;
  std::vector<Instance> instances_;
  FillContext context_;
};

}  // namespace

StackPlan PlanStack(const spec::StackSpec& stack, const std::vector<PoolMachine>& machines,
                    const std::string& head, const std::string& job_id, PortPool* ports, Errors* refusals,
                    std::vector<std::string>* notes) {
  return StackPlanner(stack, machines, head, job_id, ports, refusals, notes).Run();
}

std::vector<KvLink> LinksOf(const spec::StackSpec& stack, const std::vector<Instance>& instances) {
  std::vector<KvLink> links;
  auto add = [&](const Instance& from, const Instance& to) {
    KvLink link{from.machine->name, to.machine->name, stack.kv.path};
    if (link.from != link.to && std::find(links.begin(), links.end(), link) == links.end())
      links.push_back(link);
  };
  for (const Instance& a : instances) {
    for (const Instance& b : instances) {
      // KV goes from prefill to decode, and between a store and whoever reads and writes it.
      if (a.process->role == spec::Role::kPrefill && b.process->role == spec::Role::kDecode) add(a, b);
      bool user = b.process->role == spec::Role::kEngine || b.process->role == spec::Role::kPrefill ||
                  b.process->role == spec::Role::kDecode || b.process->role == spec::Role::kCache;
      if (a.process->role == spec::Role::kStore && user) {
        add(a, b);
        add(b, a);
      }
    }
  }
  return links;
}

}  // namespace poolmark::controller
