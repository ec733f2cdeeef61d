// Files and logs from a machine into the results directory: in chunks, never more than the size that comes
// with the first one and only what the disk has room for, checked against the SHA-256 that comes last, made
// visible only when whole.
#pragma once
#include <string>

#include "controller/steps/step.h"

namespace poolmark::controller {

// The most that one file may have: the records of a load of days. More is refused before it fills the disk.
inline constexpr uint64_t kMaxFetchedBytes = 16ull << 30;

// `path` is relative to the job's work directory on `machine`.
Status FetchFile(const JobRun& run, const std::string& machine, const std::string& path,
                 const std::string& to);
// The last MiB of a process's log.
Status FetchLog(const JobRun& run, const std::string& machine, const std::string& process,
                const std::string& to);
// Logs of all processes of a stack that are on machines that answer, into cycles/<n>/logs/. `loads`:
// (machine, id) of the loads.
void FetchLogs(const JobRun& run, const StackPlan& stack, uint32_t cycle,
               const std::vector<std::pair<std::string, std::string>>& loads);

}  // namespace poolmark::controller
