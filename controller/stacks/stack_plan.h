// A stack placed, filled and checked: the StackPlan that Launch carries out. Pure.
#pragma once
#include <string>
#include <vector>

#include "controller/stacks/place.h"

namespace poolmark::controller {

// Every reason why this stack cannot run on these machines goes to `refusals`; the plan is then unusable.
StackPlan PlanStack(const spec::StackSpec& stack, const std::vector<PoolMachine>& machines,
                    const std::string& head, const std::string& job_id, PortPool* ports, Errors* refusals,
                    std::vector<std::string>* notes);

// The pairs of machines between which this stack moves KV.
std::vector<KvLink> LinksOf(const spec::StackSpec& stack, const std::vector<Instance>& instances);

}  // namespace poolmark::controller
