// Which way the KV of a repeat took between its machines (decision M11): common/results/transfers.h with what
// this job knows of its pool's network devices. Pure.
#pragma once
#include <vector>

#include "common/results/transfers.h"
#include "controller/steps/step.h"

namespace poolmark::controller {

// Machines that preflight did not calibrate (the line rate was off) are read by the device that carries the
// pool's address; one without RDMA ports sent nothing over RDMA.
std::vector<stats::PathEvidence> PathsOf(const JobRun& run,
                                         const std::vector<results::TransferFacts>& transfers,
                                         const results::SampleFacts& samples, bool simulated);

}  // namespace poolmark::controller
