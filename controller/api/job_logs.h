// Logs of a job's processes for clients: from the agents while the processes live, from the results directory
// afterwards; with `follow` as they are written until the job ends. Blocks; used on a stream's worker thread.
#pragma once
#include <functional>
#include <stop_token>

#include "controller/runner/manager.h"

namespace poolmark::controller {

Status SendLogs(const JobManager& jobs, const v1::StreamJobLogsRequest& request, std::stop_token stop,
                const std::function<bool(v1::StreamJobLogsResponse)>& write);

}  // namespace poolmark::controller
