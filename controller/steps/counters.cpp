#include "controller/steps/counters.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace poolmark::controller {
namespace {

stats::TierPlace PlaceOf(spec::TierSource source) {
  switch (source) {
    case spec::TierSource::kHost:
      return stats::TierPlace::kHost;
    case spec::TierSource::kStorage:
      return stats::TierPlace::kStorage;
    case spec::TierSource::kRemote:
      return stats::TierPlace::kRemote;
  }
  return stats::TierPlace::kNone;
}

}  // namespace

bool IsEngine(const PlannedProcess& process) {
  return process.role == spec::Role::kEngine || process.role == spec::Role::kPrefill ||
         process.role == spec::Role::kDecode;
}

const PlannedProcess* CacheOf(const StackPlan& stack, const PlannedProcess& engine) {
  const PlannedProcess* cache = nullptr;
  int engines = 0;
  for (const PlannedProcess& process : stack.processes) {
    if (process.machine != engine.machine) continue;
    if (IsEngine(process)) ++engines;
    if (process.role == spec::Role::kCache) cache = &process;
  }
  return engines == 1 ? cache : nullptr;
}

stats::EngineFacts EngineFactsOf(const StackPlan& stack, const PlannedProcess& engine) {
  stats::EngineFacts facts;
  facts.process = engine.spec.id();
  facts.machine = engine.machine;
  facts.dialect = engine.dialect;
  facts.role = engine.role == spec::Role::kPrefill  ? stats::EngineFacts::Role::kPrefill
               : engine.role == spec::Role::kDecode ? stats::EngineFacts::Role::kDecode
                                                    : stats::EngineFacts::Role::kAggregated;
  facts.has_gpu = engine.spec.gpus_size() > 0;
  // Host memory is nearest, the shared store farthest.
  for (stats::TierPlace place :
       {stats::TierPlace::kHost, stats::TierPlace::kStorage, stats::TierPlace::kRemote}) {
    const bool there = std::any_of(stack.tiers.begin(), stack.tiers.end(), [&](const PlannedTier& tier) {
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

}  // namespace poolmark::controller
