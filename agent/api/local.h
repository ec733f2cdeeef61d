// What `poolmark-agent status` and `drain` do on the machine itself, through the ledgers and the guards'
// sockets, with or without a running agent.
#pragma once
#include "agent/api/config.h"

namespace poolmark::agent {

// A line for each run; exit code 0, or 6 when something was left.
int PrintStatus(const AgentConfig& config);
// Tears every living run down and waits for the proof: 0 clean, 6 not.
int Drain(const AgentConfig& config);

}  // namespace poolmark::agent
