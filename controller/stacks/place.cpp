#include "controller/stacks/place.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace poolmark::controller {
namespace {

constexpr uint32_t kFirstPort = 20000;
constexpr uint32_t kPortCount = 10000;

bool IsEngineStage(spec::Role role) {
  return LaunchStage(role) == 2;
}

void Refuse(Errors* refusals, std::string where, std::string message, std::string hint) {
  refusals->push_back(
      {absl::StatusCode::kFailedPrecondition, "plan", std::move(where), std::move(message), std::move(hint)});
}

// "10.0.0.2" of "http://10.0.0.2:8000/x", "fd00::1" of "http://[fd00::1]:8000".
std::string HostOf(const std::string& url) {
  const size_t scheme = url.find("://");
  std::string host = scheme == url.npos ? url : url.substr(scheme + 3);
  host = host.substr(0, host.find('/'));
  if (!host.empty() && host[0] == '[') return host.substr(1, host.find(']') - 1);
  return host.substr(0, host.rfind(':'));
}

// Agents ask their own machine alone: what runs elsewhere could never be verified or sampled.
void CheckAttached(const std::string& stack, const Instance& instance, Errors* refusals) {
  const PoolMachine& machine = *instance.machine;
  const auto& nics = machine.facts->facts.nics();
  if (nics.empty()) return;  // its facts do not tell
  for (const std::string& url : {instance.attached->url, instance.attached->metrics}) {
    const std::string host = HostOf(url);
    if (url.empty() || host == machine.address || host == "localhost" || host == "::1" ||
        host.rfind("127.", 0) == 0)
      continue;
    const bool own = std::any_of(nics.begin(), nics.end(), [&](const v1::Nic& nic) {
      return nic.address() == host ||
             std::find(nic.addresses().begin(), nic.addresses().end(), host) != nic.addresses().end();
    });
    if (own) continue;
    Refuse(refusals, absl::StrCat("stack ", stack),
           absl::StrCat("process '", instance.process->name, "' is at ", url, ", and ", host,
                        " is no address of machine ", machine.name, ", whose agent would ask it"),
           "name the `machine` that has this address; it needs an agent and the port in its allow.yaml");
  }
}

// The machines on which a template has its instances.
std::vector<const PoolMachine*> MachinesFor(const spec::StackSpec& stack,
                                            const spec::ProcessTemplate& process,
                                            const std::vector<const PoolMachine*>& engines,
                                            const PoolMachine* head, size_t* next_split, Errors* refusals) {
  if (process.on == "head") return {head};
  const bool split = process.role == spec::Role::kPrefill || process.role == spec::Role::kDecode;
  if (!split && !process.count) return engines;
  size_t count = process.count.value_or(0);
  if (split && !process.count) {
    // Half of the machines read prompts, the others write answers.
    size_t prefills = (engines.size() + 1) / 2;
    count = process.role == spec::Role::kPrefill ? prefills : std::max<size_t>(1, engines.size() - prefills);
  }
  if (engines.empty()) {
    Refuse(refusals, absl::StrCat("stack ", stack.name),
           absl::StrCat("process '", process.name, "' has no machine to run on"),
           "give a machine of the pool GPUs (gpus: all)");
    return {};
  }
  std::vector<const PoolMachine*> chosen;
  size_t start = split ? *next_split : 0;
  for (size_t i = 0; i < count; ++i) chosen.push_back(engines[(start + i) % engines.size()]);
  if (split) *next_split = start + count;
  return chosen;
}

void TakeGpus(const spec::StackSpec& stack, Instance* instance, std::map<std::string, uint32_t>* taken,
              Errors* refusals) {
  uint32_t wanted = instance->process->gpus.value_or(0);
  if (wanted == 0 || instance->machine == nullptr) return;
  const PoolMachine& machine = *instance->machine;
  uint32_t& used = (*taken)[machine.name];
  if (used + wanted > machine.gpus) {
    Refuse(refusals, absl::StrCat("stack ", stack.name),
           used == 0
               ? absl::StrCat(instance->process->name, " asks for ", wanted, " GPUs, machine ", machine.name,
                              " has ", machine.gpus)
               : absl::StrCat(instance->process->name, " asks for ", wanted, " GPUs, machine ", machine.name,
                              " has ", machine.gpus, " and the stack already uses ", used),
           "lower `gpus` or use a machine with more");
    return;
  }
  for (uint32_t i = 0; i < wanted; ++i) {
    uint32_t position = used + i;
    const auto& gpus = machine.facts->facts.gpus();
    instance->gpus.push_back(position < static_cast<uint32_t>(gpus.size())
                                 ? gpus.Get(static_cast<int>(position)).index()
                                 : position);
  }
  used += wanted;
}

}  // namespace

int LaunchStage(spec::Role role) {
  switch (role) {
    case spec::Role::kStore:
    case spec::Role::kRelay:
      return 0;
    case spec::Role::kCache:
      return 1;
    case spec::Role::kEngine:
    case spec::Role::kPrefill:
    case spec::Role::kDecode:
      return 2;
    case spec::Role::kRouter:
      return 3;
  }
  return 3;
}

PortPool::PortPool(const std::vector<PoolMachine>& machines, uint64_t seed)
    : next_(static_cast<uint32_t>(seed % kPortCount)), left_(kPortCount) {
  for (const PoolMachine& machine : machines) {
    used_.insert(machine.facts->facts.used_ports().begin(), machine.facts->facts.used_ports().end());
  }
}

uint32_t PortPool::Take() {
  while (left_ > 0) {
    uint32_t port = kFirstPort + next_;
    next_ = (next_ + 1) % kPortCount;
    --left_;
    if (used_.count(port) == 0) return port;
  }
  return 0;
}

std::vector<Instance> PlaceStack(const spec::StackSpec& stack, const std::vector<PoolMachine>& machines,
                                 const std::string& head_name, PortPool* ports, Errors* refusals) {
  std::vector<const PoolMachine*> engines;
  const PoolMachine* head = nullptr;
  for (const PoolMachine& machine : machines) {
    if (machine.name == head_name) head = &machine;
    if (machine.takes_engines) engines.push_back(&machine);
  }
  std::vector<const spec::ProcessTemplate*> order;
  for (const spec::ProcessTemplate& process : stack.processes) order.push_back(&process);
  std::stable_sort(order.begin(), order.end(),
                   [](const auto* a, const auto* b) { return LaunchStage(a->role) < LaunchStage(b->role); });

  std::vector<Instance> instances;
  std::map<std::string, uint32_t> gpus_taken;
  size_t next_split = 0;
  for (const spec::ProcessTemplate* process : order) {
    if (stack.attach) {
      unsigned index = 0;
      for (const spec::AttachPoint& point : process->at) {
        Instance instance;
        instance.process = process;
        instance.attached = &point;
        instance.index = index++;
        instance.count = static_cast<unsigned>(process->at.size());
        for (const PoolMachine& machine : machines) {
          if (machine.name == point.machine) instance.machine = &machine;
        }
        if (instance.machine == nullptr) {
          if (!point.machine.empty()) {
            Refuse(refusals, absl::StrCat("stack ", stack.name),
                   absl::StrCat("process '", process->name, "' is on machine '", point.machine,
                                "', which is not in the pool"),
                   "add it to the pool or remove `machine`");
          }
          instance.machine = head;
        }
        CheckAttached(stack.name, instance, refusals);
        instance.id = absl::StrCat(stack.name, ".", process->name, "-", index);
        // What runs already has the GPUs that its stack file says; nobody hands them out.
        for (unsigned gpu = 0; IsEngineStage(process->role) && gpu < process->gpus.value_or(0); ++gpu)
          instance.gpus.push_back(gpu);
        instances.push_back(std::move(instance));
      }
      continue;
    }
    auto chosen = MachinesFor(stack, *process, engines, head, &next_split, refusals);
    std::map<std::string, unsigned> on_machine;
    for (const PoolMachine* machine : chosen) ++on_machine[machine->name];
    std::map<std::string, unsigned> seen;
    for (size_t i = 0; i < chosen.size(); ++i) {
      Instance instance;
      instance.process = process;
      instance.machine = chosen[i];
      instance.index = static_cast<unsigned>(i);
      instance.count = static_cast<unsigned>(chosen.size());
      instance.id = absl::StrCat(stack.name, ".", process->name, "-", chosen[i]->name);
      if (on_machine[chosen[i]->name] > 1) absl::StrAppend(&instance.id, "-", ++seen[chosen[i]->name]);
      for (const std::string& port : process->ports) {
        uint32_t number = ports->Take();
        if (number == 0)
          Refuse(refusals, absl::StrCat("stack ", stack.name), "no free port is left between 20000 and 29999",
                 "end what uses them, or use fewer processes");
        instance.ports[port] = number;
      }
      if (IsEngineStage(process->role)) TakeGpus(stack, &instance, &gpus_taken, refusals);
      instances.push_back(std::move(instance));
    }
  }
  return instances;
}

}  // namespace poolmark::controller
