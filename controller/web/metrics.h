// The controller's own figures as /metrics shows them, written by prometheus-cpp. Pure but for ReadProcess.
#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <string>

namespace poolmark::controller {

struct ControllerFigures {
  std::map<std::string, uint64_t> jobs_by_state;  // every state has an entry
  std::map<std::string, uint64_t> machines_by_state;
  uint64_t running_jobs = 0;
  uint64_t machines_lost_total = 0;
  std::optional<double> oldest_heartbeat_seconds;  // without machines there is none
  double store_commit_seconds = 0;                 // of the last probe
  uint64_t rpc_calls = 0, rpc_denied = 0, connections = 0, connections_refused = 0;
  std::optional<double> resident_bytes, cpu_seconds, open_descriptors;
  double start_time_seconds = 0;                      // UNIX time
  std::optional<double> certificate_expires_seconds;  // UNIX time, of the controller's own
};

// Prometheus text exposition, version 0.0.4; what is not known has no line.
std::string MetricsText(const ControllerFigures& figures);
// Of this process, from /proc.
void ReadProcess(ControllerFigures* figures);

}  // namespace poolmark::controller
