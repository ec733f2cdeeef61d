// `poolmark-sim router`: hands requests on to engines by a policy, in the manner of vllm-router: its own
// counters on a port of their own, everything that it does not know is handed on as well. One call runs
// until SIGTERM or SIGINT.
#pragma once
#include "agent/sim/options.h"

namespace poolmark::sim {

// Exit code.
int RunRouter(const RouterOptions& options);

}  // namespace poolmark::sim
