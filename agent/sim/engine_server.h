// `poolmark-sim engine`: the engine behind its HTTP API, its faults, its end. One call runs until SIGTERM
// or SIGINT.
#pragma once
#include <atomic>

#include "agent/sim/options.h"

namespace poolmark::sim {

// Exit code.
int RunEngine(const EngineOptions& options);

}  // namespace poolmark::sim
