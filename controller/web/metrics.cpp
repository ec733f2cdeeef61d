#include "controller/web/metrics.h"

#include <unistd.h>

#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/base/files.h"

namespace poolmark::controller {
namespace {

void Family(std::string* text, const char* name, const char* type, const char* help) {
  absl::StrAppend(text, "# HELP ", name, " ", help, "\n# TYPE ", name, " ", type, "\n");
}
template <class Value>
void One(std::string* text, const char* name, const char* type, const char* help, Value value) {
  Family(text, name, type, help);
  absl::StrAppend(text, name, " ", value, "\n");
}

}  // namespace

void ReadProcess(ControllerFigures* figures) {
  if (auto statm = ReadPseudoFile("/proc/self/statm"); statm.ok()) {
    std::vector<std::string> parts = absl::StrSplit(*statm, ' ');
    uint64_t pages = 0;
    if (parts.size() > 1 && absl::SimpleAtoi(parts[1], &pages)) {
      figures->resident_bytes = pages * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
    }
  }
  if (auto stat = ReadPseudoFile("/proc/self/stat"); stat.ok()) {
    // The command in parentheses may hold anything; the fields follow its last parenthesis.
    std::vector<std::string> parts = absl::StrSplit(stat->substr(stat->rfind(')') + 2), ' ');
    uint64_t user = 0, system = 0;
    if (parts.size() > 12 && absl::SimpleAtoi(parts[11], &user) && absl::SimpleAtoi(parts[12], &system)) {
      figures->cpu_seconds = static_cast<double>(user + system) / static_cast<double>(sysconf(_SC_CLK_TCK));
    }
  }
  if (auto fds = ListDir("/proc/self/fd"); fds.ok()) figures->open_descriptors = fds->size();
}

std::string MetricsText(const ControllerFigures& f) {
  std::string text;
  Family(&text, "poolmark_jobs", "gauge", "Jobs by state");
  for (const auto& [state, count] : f.jobs_by_state) {
    absl::StrAppend(&text, "poolmark_jobs{state=\"", state, "\"} ", count, "\n");
  }
  Family(&text, "poolmark_machines", "gauge", "Machines by state");
  for (const auto& [state, count] : f.machines_by_state) {
    absl::StrAppend(&text, "poolmark_machines{state=\"", state, "\"} ", count, "\n");
  }
  One(&text, "poolmark_jobs_running", "gauge", "Jobs that hold machines", f.running_jobs);
  One(&text, "poolmark_machines_lost_total", "counter", "Machines that fell silent for longer than a lease",
      f.machines_lost_total);
  One(&text, "poolmark_heartbeat_age_seconds_max", "gauge", "Age of the oldest last heartbeat",
      f.oldest_heartbeat_seconds);
  One(&text, "poolmark_store_commit_seconds", "gauge", "Time of the last probing commit of the store",
      f.store_commit_seconds);
  One(&text, "poolmark_rpc_calls_total", "counter", "Calls that reached a handler", f.rpc_calls);
  One(&text, "poolmark_rpc_denied_total", "counter", "Calls refused for their certificate or role",
      f.rpc_denied);
  One(&text, "poolmark_connections", "gauge", "Open connections to the API", f.connections);
  One(&text, "poolmark_connections_refused_total", "counter", "Connections over a cap",
      f.connections_refused);
  if (f.certificate_expires_seconds > 0) {
    One(&text, "poolmark_certificate_expires_timestamp_seconds", "gauge",
        "End of the controller's certificate", f.certificate_expires_seconds);
  }
  One(&text, "process_resident_memory_bytes", "gauge", "Resident memory", f.resident_bytes);
  One(&text, "process_cpu_seconds_total", "counter", "CPU time", f.cpu_seconds);
  One(&text, "process_open_fds", "gauge", "Open file descriptors", f.open_descriptors);
  One(&text, "process_start_time_seconds", "gauge", "Start of the process",
      absl::StrCat(static_cast<int64_t>(f.start_time_seconds)));
  return text;
}

}  // namespace poolmark::controller
