// The plan as plan.json and as text for people.
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/json.h"
#include "common/base/time_format.h"
#include "common/base/units.h"
#include "controller/steps/plan.h"

namespace poolmark::controller {
namespace {

double Seconds(Nanoseconds duration) {
  return std::chrono::duration<double>(duration).count();
}

Json ProcessJson(const PlannedProcess& process) {
  const v1::ProcessSpec& spec = process.spec;
  Json json;
  json["id"] = spec.id();
  json["role"] = std::string(spec::RoleName(process.role));
  json["machine"] = process.machine;
  json["attached"] = process.attached;
  json["backend"] = spec.backend() == v1::BACKEND_DOCKER   ? "docker"
                    : spec.backend() == v1::BACKEND_PODMAN ? "podman"
                                                           : "process";
  json["executable"] = spec.executable();
  json["image"] = spec.image();
  json["argv"] = std::vector<std::string>(spec.argv().begin(), spec.argv().end());
  json["env"] = std::map<std::string, std::string>(spec.env().begin(), spec.env().end());
  json["secrets"] = std::map<std::string, std::string>(spec.secrets().begin(), spec.secrets().end());
  json["gpus"] = std::vector<uint32_t>(spec.gpus().begin(), spec.gpus().end());
  json["ports"] = std::vector<uint32_t>(spec.ports().begin(), spec.ports().end());
  Json directories = Json::array();
  for (const v1::Directory& directory : spec.directories()) directories.push_back(directory.path());
  json["directories"] = directories;
  json["url"] = process.base_url;
  json["metrics_url"] = process.metrics_url;
  json["dialect"] = process.dialect;
  json["host_tier_bytes"] = process.host_tier_bytes;
  json["disk_tier_bytes"] = process.disk_tier_bytes;
  return json;
}

Json LinkJson(const KvLink& link) {
  return {{"from", link.from}, {"to", link.to}, {"path", link.path}};
}

Json StackJson(const StackPlan& stack) {
  Json json;
  json["name"] = stack.name;
  json["strategy"] = std::string(spec::StrategyName(stack.strategy));
  json["description"] = stack.description;
  json["engine"] = stack.engine_kind;
  json["model"] = stack.model;
  json["simulated"] = stack.simulated;
  json["launch"] = stack.attach ? "attach" : "launch";
  json["digest"] = stack.digest;
  json["gpus"] = stack.gpus;
  json["kv"] = {{"path", stack.kv.path},
                {"compression", stack.kv.compression},
                {"dtype", stack.kv.dtype},
                {"block_tokens", stack.kv.block_tokens}};
  json["kv"]["chunk_tokens"] = stack.kv.chunk_tokens ? Json(*stack.kv.chunk_tokens) : Json();
  json["kv"]["hash_seed"] = stack.kv.hash_seed ? Json(*stack.kv.hash_seed) : Json();
  json["entry_url"] = stack.entry_url;
  json["entry_machine"] = stack.entry_machine;
  Json tiers = Json::array();
  for (const PlannedTier& tier : stack.tiers) {
    tiers.push_back({{"source", std::string(spec::TierSourceName(tier.source))},
                     {"bytes", tier.bytes},
                     {"machine", tier.machine},
                     {"owner", tier.owner}});
  }
  json["tiers"] = tiers;
  Json links = Json::array();
  for (const KvLink& link : stack.links) links.push_back(LinkJson(link));
  json["links"] = links;
  Json processes = Json::array();
  for (const PlannedProcess& process : stack.processes) processes.push_back(ProcessJson(process));
  json["processes"] = processes;
  return json;
}

}  // namespace

Result<std::string> PlanJson(const Plan& plan) {
  Json json;
  json["schema_version"] = 1;
  json["head"] = plan.head;
  Json machines = Json::array();
  for (const std::string& name : plan.machines)
    machines.push_back({{"name", name}, {"address", plan.addresses.at(name)}});
  json["machines"] = machines;
  Json stacks = Json::array();
  for (const StackPlan& stack : plan.stacks) stacks.push_back(StackJson(stack));
  json["stacks"] = stacks;
  Json cycles = Json::array();
  for (const PlannedCycle& cycle : plan.cycles) {
    Json repeats = Json::array();
    for (const PlannedRepeat& repeat : cycle.repeats) {
      repeats.push_back(
          {{"workload", repeat.workload}, {"level", repeat.level.Name()}, {"repeat", repeat.repeat}});
    }
    cycles.push_back({{"number", cycle.number}, {"stack", cycle.stack}, {"repeats", repeats}});
  }
  json["cycles"] = cycles;
  Json accuracy = Json::array();
  for (const PlannedAccuracy& planned : plan.accuracy)
    accuracy.push_back({{"stack", planned.stack}, {"reference", planned.reference}});
  json["accuracy"] = accuracy;
  Json loads = Json::array();
  for (const PlannedLoad& load : plan.loads)
    loads.push_back({{"workload", load.workload}, {"level", load.level}, {"text", load.text}});
  json["loads"] = loads;
  json["load_machines"] = plan.load_machines;
  Json pairs = Json::array();
  for (const KvLink& link : plan.line_pairs) pairs.push_back(LinkJson(link));
  json["line_pairs"] = pairs;
  json["estimated_seconds"] = Seconds(plan.estimate);
  json["notes"] = plan.notes;
  return DumpJson(json, 2);
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
                      process.attached ? process.base_url : process.spec.executable(),
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
