// The controller's own figures as /metrics shows them. Pure but for ReadProcess.
#pragma once
#include <cstdint>
#include <map>
#include <string>

namespace poolmark::controller {

struct ControllerFigures {
  std::map<std::string, uint64_t> jobs_by_state;  // every state has an entry
  std::map<std::string, uint64_t> machines_by_state;
  uint64_t running_jobs = 0;
  uint64_t machines_lost_total = 0;
  double oldest_heartbeat_seconds = 0;
  double store_commit_seconds = 0;  // of the last probe
  uint64_t rpc_calls = 0, rpc_denied = 0, connections = 0, connections_refused = 0;
  uint64_t resident_bytes = 0;
  double cpu_seconds = 0;
  uint64_t open_descriptors = 0;
  double start_time_seconds = 0;
  double certificate_expires_seconds = 0;  // of the controller's own; 0: unknown
};

// Prometheus text exposition.
std::string MetricsText(const ControllerFigures& figures);
// Of this process, from /proc.
void ReadProcess(ControllerFigures* figures);

}  // namespace poolmark::controller
