#include "controller/steps/counters.h"

#include "common/results/engine_facts.h"
#include "common/results/plan_file.h"

namespace poolmark::controller {

bool IsEngine(const PlannedProcess& process) {
  return process.role == spec::Role::kEngine || process.role == spec::Role::kPrefill ||
         process.role == spec::Role::kDecode;
}

const PlannedProcess* CacheOf(const StackPlan& stack, const PlannedProcess& engine) {
  const results::PlanStack file = ToFile(stack);
  const results::PlanProcess* cache = results::CacheOf(file, ToFile(engine));
  for (const PlannedProcess& process : stack.processes) {
    if (cache != nullptr && process.spec.id() == cache->id) return &process;
  }
  return nullptr;
}

stats::EngineFacts EngineFactsOf(const StackPlan& stack, const PlannedProcess& engine) {
  return results::EngineFactsOf(ToFile(stack), ToFile(engine));
}

}  // namespace poolmark::controller
