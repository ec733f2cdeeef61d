#include "controller/steps/pick_machines.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "controller/stacks/rdma.h"

namespace poolmark::controller {
namespace {

// Machines of one GPU model, or of none.
struct Group {
  std::vector<std::string> able;  // in the order in which they are taken
  size_t free = 0;                // of these: held by nobody
  size_t others = 0;
  std::string lacks;  // what the first of the others lacks
};

// What a machine lacks of what the stacks' engines need; "" where it lacks nothing.
std::string WhatLacks(const spec::JobSpec& job, const MachineFacts& machine) {
  const auto& gpus = machine.facts.gpus();
  for (const spec::StackSpec& stack : job.stacks) {
    if (stack.attach) continue;
    if (!stack.vendor.empty() && !gpus.empty() &&
        std::find(stack.vendor.begin(), stack.vendor.end(), gpus.Get(0).vendor()) == stack.vendor.end())
      return absl::StrCat(stack.vendor[0], " GPUs");
    if (stack.kv.path == "rdma" && PoolPorts({}, machine.facts).empty()) return "an active RDMA port";
    for (const spec::ProcessTemplate& process : stack.processes) {
      const unsigned wanted = process.gpus.value_or(0);
      if (static_cast<unsigned>(gpus.size()) < wanted)
        return absl::StrCat(wanted, wanted == 1 ? " GPU" : " GPUs");
    }
  }
  return "";
}

Error Refusal(const std::string& head, unsigned count, const std::map<std::string, Group>& groups) {
  std::vector<std::string> seen;
  size_t most = 0;
  for (const auto& [model, group] : groups) {
    most = std::max(most, group.able.size());
    std::string text =
        absl::StrCat(group.able.size() + group.others, model.empty() ? " without a GPU" : " with ", model);
    if (group.others > 0) absl::StrAppend(&text, ", of which ", group.others, " lack ", group.lacks);
    seen.push_back(std::move(text));
  }
  return {absl::StatusCode::kFailedPrecondition, "plan", "pool",
          absl::StrCat("asks for ", count, " machines of one GPU family",
                       head.empty() ? "" : absl::StrCat(", one of them the head ", head), ", ", most,
                       " are available", seen.empty() ? "" : ": ", absl::StrJoin(seen, "; ")),
          "lower `machines` or start more agents"};
}

}  // namespace

Result<std::vector<std::string>> PickMachines(const spec::JobSpec& job,
                                              const std::vector<MachineFacts>& machines,
                                              const std::set<std::string>& held) {
  const unsigned count = job.pool.machine_count.value_or(1);
  const std::string& head = job.pool.head;
  std::vector<const MachineFacts*> order;
  for (const MachineFacts& machine : machines) {
    if (machine.available) order.push_back(&machine);
  }
  const auto key = [&](const MachineFacts* machine) {
    return std::tuple(machine->name != head, held.contains(machine->name), machine->name);
  };
  std::stable_sort(order.begin(), order.end(),
                   [&](const MachineFacts* a, const MachineFacts* b) { return key(a) < key(b); });
  std::map<std::string, Group> groups;
  for (const MachineFacts* machine : order) {
    Group& group = groups[machine->facts.gpus_size() > 0 ? machine->facts.gpus(0).model() : ""];
    const std::string lacks = WhatLacks(job, *machine);
    if (lacks.empty()) {
      group.able.push_back(machine->name);
      group.free += !held.contains(machine->name);
    } else {
      ++group.others;
      if (group.lacks.empty()) group.lacks = lacks;
    }
  }
  // The most free machines that the job can use, then the largest group; of equal ones the one with GPUs,
  // whose name comes later than none.
  const Group* best = nullptr;
  const auto rank = [&](const Group& group) {
    return std::pair(std::min<size_t>(group.free, count), group.able.size());
  };
  for (const auto& [model, group] : groups) {
    if (group.able.size() < count || (!head.empty() && (group.able.empty() || group.able.front() != head)))
      continue;
    if (best == nullptr || rank(group) >= rank(*best)) best = &group;
  }
  if (best == nullptr) return ToStatus(Refusal(head, count, groups));
  return std::vector<std::string>(best->able.begin(), best->able.begin() + count);
}

}  // namespace poolmark::controller
