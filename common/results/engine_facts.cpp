#include "common/results/engine_facts.h"

#include <algorithm>

namespace poolmark::results {
namespace {

stats::TierPlace PlaceOf(std::string_view source) {
  if (source == "host") return stats::TierPlace::kHost;
  if (source == "storage") return stats::TierPlace::kStorage;
  if (source == "remote") return stats::TierPlace::kRemote;
  return stats::TierPlace::kNone;
}

}  // namespace

const PlanProcess* CacheOf(const PlanStack& stack, const PlanProcess& engine) {
  const PlanProcess* cache = nullptr;
  int engines = 0;
  for (const PlanProcess& process : stack.processes) {
    if (process.machine != engine.machine) continue;
    if (process.is_engine()) ++engines;
    if (process.role == "cache") cache = &process;
  }
  return engines == 1 ? cache : nullptr;
}

stats::EngineFacts EngineFactsOf(const PlanStack& stack, const PlanProcess& engine) {
  stats::EngineFacts facts;
  facts.process = engine.id;
  facts.machine = engine.machine;
  facts.dialect = engine.dialect;
  facts.role = engine.role == "prefill"  ? stats::EngineFacts::Role::kPrefill
               : engine.role == "decode" ? stats::EngineFacts::Role::kDecode
                                         : stats::EngineFacts::Role::kAggregated;
  facts.has_gpu = !engine.gpus.empty();
  // Host memory is nearest, the shared store farthest.
  for (stats::TierPlace place :
       {stats::TierPlace::kHost, stats::TierPlace::kStorage, stats::TierPlace::kRemote}) {
    const bool there = std::any_of(stack.tiers.begin(), stack.tiers.end(), [&](const PlanTier& tier) {
      // A remote tier serves every machine; the others serve their own.
      return PlaceOf(tier.source) == place &&
             (place == stats::TierPlace::kRemote || tier.machine == engine.machine);
    });
    if (!there) continue;
    facts.external_tiers.push_back(place);
    if (place != stats::TierPlace::kHost) facts.second_level = place;
  }
  return facts;
}

}  // namespace poolmark::results
