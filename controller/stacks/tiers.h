// How large every tier is on every machine that holds it, `auto` too, and where it lies. Pure; part of the
// plan.
#pragma once
#include <vector>

#include "controller/stacks/fill.h"

namespace poolmark::controller {

// Fills context->tier_bytes and plan->tiers. What does not fit, alone or with the others of its machine, and
// what is no size goes to `refusals`, once; its tier then counts as empty, so that nothing else is refused
// for it.
void SizeTiers(const spec::StackSpec& stack, const std::vector<Instance>& instances, FillContext* context,
               StackPlan* plan, Errors* refusals);

}  // namespace poolmark::controller
