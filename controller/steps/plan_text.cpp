// The plan as plan.json and as text for people.
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/time_format.h"
#include "common/base/units.h"
#include "common/results/plan_file.h"
#include "controller/steps/plan.h"

namespace poolmark::controller {
namespace {

template <class Repeated>
std::vector<typename Repeated::value_type> List(const Repeated& values) {
  return {values.begin(), values.end()};
}

}  // namespace

results::PlanProcess ToFile(const PlannedProcess& process) {
  const v1::ProcessSpec& spec = process.spec;
  results::PlanProcess out;
  out.id = spec.id();
  out.role = std::string(spec::RoleName(process.role));
  out.machine = process.machine;
  out.attached = process.attached;
  out.backend = spec.backend() == v1::BACKEND_DOCKER   ? "docker"
                : spec.backend() == v1::BACKEND_PODMAN ? "podman"
                                                       : "process";
  out.executable = spec.executable();
  out.image = spec.image();
  out.argv = List(spec.argv());
  out.env = {spec.env().begin(), spec.env().end()};
  out.secrets = {spec.secrets().begin(), spec.secrets().end()};
  out.gpus = List(spec.gpus());
  out.ports = List(spec.ports());
  for (const v1::Directory& directory : spec.directories()) out.directories.push_back(directory.path());
  out.url = process.base_url;
  out.metrics_url = process.metrics_url;
  out.dialect = process.dialect;
  out.host_tier_bytes = process.host_tier_bytes;
  out.disk_tier_bytes = process.disk_tier_bytes;
  return out;
}

namespace {

results::PlanLink ToFile(const KvLink& link) {
  return {link.from, link.to, link.path};
}

}  // namespace

results::PlanStack ToFile(const StackPlan& stack) {
  results::PlanStack out;
  out.name = stack.name;
  out.strategy = std::string(spec::StrategyName(stack.strategy));
  out.description = stack.description;
  out.engine = stack.engine_kind;
  out.model = stack.model;
  out.simulated = stack.simulated;
  out.launch = stack.attach ? "attach" : "launch";
  out.digest = stack.digest;
  out.gpus = stack.gpus;
  out.kv = {stack.kv.path,         stack.kv.compression,  stack.kv.dtype,
            stack.kv.block_tokens, stack.kv.chunk_tokens, stack.kv.hash_seed};
  out.entry_url = stack.entry_url;
  out.entry_machine = stack.entry_machine;
  for (const PlannedTier& tier : stack.tiers)
    out.tiers.push_back(
        {std::string(spec::TierSourceName(tier.source)), tier.bytes, tier.machine, tier.owner});
  for (const KvLink& link : stack.links) out.links.push_back(ToFile(link));
  for (const PlannedProcess& process : stack.processes) out.processes.push_back(ToFile(process));
  return out;
}

results::PlanFile ToFile(const Plan& plan) {
  results::PlanFile out;
  out.head = plan.head;
  for (const std::string& name : plan.machines) out.machines.push_back({name, plan.addresses.at(name)});
  for (const StackPlan& stack : plan.stacks) out.stacks.push_back(ToFile(stack));
  for (const PlannedCycle& cycle : plan.cycles) {
    results::PlanCycle to{cycle.number, cycle.stack, {}};
    for (const PlannedRepeat& repeat : cycle.repeats)
      to.repeats.push_back({repeat.workload, repeat.level.Name(), repeat.repeat});
    out.cycles.push_back(std::move(to));
  }
  for (const PlannedAccuracy& planned : plan.accuracy)
    out.accuracy.push_back({planned.stack, planned.reference});
  for (const PlannedLoad& load : plan.loads) out.loads.push_back({load.workload, load.level, load.text});
  out.load_machines = plan.load_machines;
  for (const KvLink& link : plan.line_pairs) out.line_pairs.push_back(ToFile(link));
  out.estimated_seconds = std::chrono::duration<double>(plan.estimate).count();
  out.notes = plan.notes;
  return out;
}

Result<std::string> PlanJson(const Plan& plan) {
  return results::Encode(ToFile(plan));
}

std::string ExplainPlan(const Plan& plan) {
  std::string text = absl::StrCat("machines: ");
  for (const std::string& name : plan.machines) {
    absl::StrAppend(&text, name, name == plan.head ? " (head)" : "", " ", plan.addresses.at(name),
                    name == plan.machines.back() ? "\n" : ", ");
  }
  for (const StackPlan& stack : plan.stacks) {
    absl::StrAppend(&text, "\nstack ", stack.name, ": ", std::string(spec::StrategyTitle(stack.strategy)),
                    stack.simulated ? " [simulated]" : "", "\n");
    for (const PlannedProcess& process : stack.processes) {
      std::vector<std::string> ports;
      for (uint32_t port : process.spec.ports()) ports.push_back(absl::StrCat(port));
      absl::StrAppend(&text, "  ", process.machine, "  ", process.spec.id(), "  ",
                      process.attached               ? process.base_url
                      : process.spec.image().empty() ? process.spec.executable()
                                                     : process.spec.image(),
                      ports.empty() ? "" : absl::StrCat("  ports ", absl::StrJoin(ports, " ")),
                      process.spec.gpus_size() > 0 ? absl::StrCat("  GPUs ", process.spec.gpus_size()) : "");
      if (process.host_tier_bytes > 0)
        absl::StrAppend(&text, "  host tier ", FormatBytes(process.host_tier_bytes));
      if (process.disk_tier_bytes > 0)
        absl::StrAppend(&text, "  disk tier ", FormatBytes(process.disk_tier_bytes));
      text += "\n";
    }
    absl::StrAppend(&text, "  requests go to ", stack.entry_url, "\n");
    for (const KvLink& link : stack.links)
      absl::StrAppend(&text, "  KV travels ", link.from, " -> ", link.to, " over ", link.path, "\n");
  }
  for (const PlannedAccuracy& planned : plan.accuracy)
    absl::StrAppend(&text, "\naccuracy of ", planned.stack, ": its answers against those of ",
                    planned.reference, "\n");
  absl::StrAppend(&text, "\nload, sent by ", absl::StrJoin(plan.load_machines, " and "), ":\n");
  for (const PlannedLoad& load : plan.loads)
    absl::StrAppend(&text, "  ", load.workload, "-", load.level, "  ", load.text, "\n");
  absl::StrAppend(&text, "\n", plan.cycles.size(), plan.cycles.size() == 1 ? " launch:\n" : " launches:\n");
  for (const PlannedCycle& cycle : plan.cycles) {
    std::vector<std::string> repeats;
    for (const PlannedRepeat& repeat : cycle.repeats)
      repeats.push_back(absl::StrCat(repeat.workload, "-", repeat.level.Name(), "#", repeat.repeat));
    absl::StrAppend(&text, "  ", cycle.number, ". ", cycle.stack, ": ", absl::StrJoin(repeats, " "), "\n");
  }
  absl::StrAppend(&text,
                  "estimated time: ", FormatDuration(std::chrono::floor<std::chrono::seconds>(plan.estimate)),
                  "\n");
  return text;
}

}  // namespace poolmark::controller
