// What the programs of poolmark-sim share as processes: signals, children that stay behind, the line that
// tells the port.
#pragma once
#include <string>

#include "agent/sim/options.h"

namespace poolmark::sim {

// Blocks SIGTERM and SIGINT in this thread and those it starts, ignores SIGPIPE. First thing in
// main.
void PrepareSignals();
// Waits for the end: SIGTERM or SIGINT.
int WaitForSignal();
// "listening 127.0.0.1:8000" on stdout, flushed.
void AnnouncePort(const std::string& host, int port);
// Starts this program again as a child in a session of its own, whose parent is init at once.
Status StartDetachedChild(const ChildOptions& options);
int RunChild(const ChildOptions& options);

}  // namespace poolmark::sim
