#include "common/results/plan_file.h"

#include <concepts>

#include "common/results/codec.h"
#include "common/results/layout.h"
#include "common/results/schema_parts.h"

namespace poolmark::results {

template <class V, class S>
requires std::same_as<std::remove_const_t<S>, PlanMachine>
void Fields(V& visit, S& value) {
  visit("name", value.name);
  visit("address", value.address);
}

template <class V, class S>
requires std::same_as<std::remove_const_t<S>, PlanLink>
void Fields(V& visit, S& value) {
  visit("from", value.from);
  visit("to", value.to);
  visit("path", value.path);
}

template <class V, class S>
requires std::same_as<std::remove_const_t<S>, PlanTier>
void Fields(V& visit, S& value) {
  visit("source", value.source);
  visit("bytes", value.bytes);
  visit("machine", value.machine);
  visit("owner", value.owner);
}

template <class V, class S>
requires std::same_as<std::remove_const_t<S>, PlanProcess>
void Fields(V& visit, S& value) {
  visit("id", value.id);
  visit("role", value.role);
  visit("machine", value.machine);
  visit("attached", value.attached);
  visit("backend", value.backend);
  visit("executable", value.executable);
  visit("image", value.image);
  visit("argv", value.argv);
  visit("env", value.env);
  visit("secrets", value.secrets);
  visit("gpus", value.gpus);
  visit("ports", value.ports);
  visit("directories", value.directories);
  visit("url", value.url);
  visit("metrics_url", value.metrics_url);
  visit("dialect", value.dialect);
  visit("host_tier_bytes", value.host_tier_bytes);
  visit("disk_tier_bytes", value.disk_tier_bytes);
}

template <class V, class S>
requires std::same_as<std::remove_const_t<S>, PlanKv>
void Fields(V& visit, S& value) {
  visit("path", value.path);
  visit("compression", value.compression);
  visit("dtype", value.dtype);
  visit("block_tokens", value.block_tokens);
  visit("chunk_tokens", value.chunk_tokens);
  visit("hash_seed", value.hash_seed);
}

template <class V, class S>
requires std::same_as<std::remove_const_t<S>, PlanStack>
void Fields(V& visit, S& value) {
  visit("name", value.name);
  visit("strategy", value.strategy);
  visit("description", value.description);
  visit("engine", value.engine);
  visit("model", value.model);
  visit("simulated", value.simulated);
  visit("launch", value.launch);
  visit("digest", value.digest);
  visit("gpus", value.gpus);
  visit("kv", value.kv);
  visit("entry_url", value.entry_url);
  visit("entry_machine", value.entry_machine);
  visit("tiers", value.tiers);
  visit("links", value.links);
  visit("processes", value.processes);
}

template <class V, class S>
requires std::same_as<std::remove_const_t<S>, PlanRepeat>
void Fields(V& visit, S& value) {
  visit("workload", value.workload);
  visit("level", value.level);
  visit("repeat", value.repeat);
}

template <class V, class S>
requires std::same_as<std::remove_const_t<S>, PlanCycle>
void Fields(V& visit, S& value) {
  visit("number", value.number);
  visit("stack", value.stack);
  visit("repeats", value.repeats);
}

template <class V, class S>
requires std::same_as<std::remove_const_t<S>, PlanAccuracy>
void Fields(V& visit, S& value) {
  visit("stack", value.stack);
  visit("reference", value.reference);
}

template <class V, class S>
requires std::same_as<std::remove_const_t<S>, PlanLoad>
void Fields(V& visit, S& value) {
  visit("workload", value.workload);
  visit("level", value.level);
  visit("text", value.text);
}

template <class V, class S>
requires std::same_as<std::remove_const_t<S>, PlanFile>
void Fields(V& visit, S& value) {
  visit("head", value.head);
  visit("machines", value.machines);
  visit("stacks", value.stacks);
  visit("cycles", value.cycles);
  visit("accuracy", value.accuracy);
  visit("loads", value.loads);
  visit("load_machines", value.load_machines);
  visit("line_pairs", value.line_pairs);
  visit("estimated_seconds", value.estimated_seconds);
  visit("notes", value.notes);
}

bool PlanProcess::is_engine() const {
  return role == "engine" || role == "prefill" || role == "decode";
}

bool PlanProcess::holds_kv() const {
  return is_engine() || role == "cache" || role == "store";
}

const PlanStack* PlanFile::stack(std::string_view name) const {
  for (const PlanStack& one : stacks) {
    if (one.name == name) return &one;
  }
  return nullptr;
}

Result<std::string> Encode(const PlanFile& file) {
  return EncodeFile(file, kSchemaVersion);
}
Result<PlanFile> DecodePlan(std::string_view text, std::string_view where) {
  POOLMARK_ASSIGN_OR_RETURN(PlanFile file, DecodeFile<PlanFile>(text, where, kSchemaVersion));
  if (file.stacks.empty()) return InvalidInput(std::string(where), "is no plan: it has no stacks");
  return file;
}
Json PlanSchema() {
  return FileSchema<PlanFile>("plan.json", kSchemaVersion);
}

}  // namespace poolmark::results
