// How a process's cache is cleared, read back as empty and emptied of its GPU part: from a stack file's
// `reset`, `empty` and `evict` to the steps that an agent carries out. Pure; part of the plan.
#pragma once
#include "controller/stacks/place.h"

namespace poolmark::controller {

// Needs `planned`'s addresses.
void AddResets(const Instance& instance, PlannedProcess* planned);

}  // namespace poolmark::controller
