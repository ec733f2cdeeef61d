#include "controller/web/pages.h"

#include <unistd.h>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/base/files.h"
#include "common/base/json.h"
#include "common/base/time_format.h"
#include "controller/jobs/job_table.h"

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

std::string MachineStateName(v1::MachineState state) {
  return v1::MachineState_Name(state).substr(sizeof("MACHINE_STATE_") - 1);
}

}  // namespace

std::string EscapeHtml(std::string_view text) {
  std::string out;
  const std::string valid = ValidUtf8(text);
  for (char c : valid) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      case '\'':
        out += "&#39;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

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

std::string StatusPage(const std::vector<v1::Job>& jobs, const std::vector<v1::Machine>& machines,
                       Nanoseconds wall) {
  std::string page =
      "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\"><title>Poolmark</title><style>"
      "body{font:15px/1.5 "
      "system-ui,sans-serif;margin:2rem;max-width:80rem}table{border-collapse:collapse;width:100%}"
      "th,td{text-align:left;padding:.3rem .8rem .3rem 0;border-bottom:1px solid #ddd;vertical-align:top}"
      "th{font-weight:600}.dim{color:#666}</style></head><body><h1>Poolmark</h1>";
  absl::StrAppend(&page, "<p class=\"dim\">", IsoUtc(wall),
                  "</p><h2>Jobs</h2><table><tr><th>job</th><th>name</th><th>state</th>",
                  "<th>tear-down</th><th>at</th><th>submitted</th><th>reasons</th></tr>");
  for (const v1::Job& job : jobs) {
    std::string at = EscapeHtml(job.waiting_for());
    if (job.has_position() && !IsTerminal(job.state())) {
      const v1::JobPosition& p = job.position();
      at = EscapeHtml(absl::StrCat(p.stack(), " ", p.workload(), " ", p.level(), " repeat ", p.repeat(), " (",
                                   p.done_repeats(), " of ", p.total_repeats(), " done)"));
    }
    std::string reasons;
    for (const v1::Reason& reason : job.reasons())
      absl::StrAppend(&reasons, reasons.empty() ? "" : "<br>", EscapeHtml(reason.message().substr(0, 500)));
    absl::StrAppend(&page, "<tr><td>", EscapeHtml(job.id()), "</td><td>", EscapeHtml(job.name()), "</td><td>",
                    StateName(job.state()), "</td><td>");
    absl::StrAppend(&page, v1::TeardownVerdict_Name(job.teardown()).substr(sizeof("TEARDOWN_VERDICT_") - 1),
                    "</td><td>", at, "</td><td>", IsoUtc(Nanoseconds(job.submitted_wall_ns())), "</td><td>",
                    reasons, "</td></tr>");
  }
  absl::StrAppend(&page,
                  "</table><h2>Machines</h2><table><tr><th>machine</th><th>state</th><th>job</"
                  "th><th>address</th><th>last heartbeat</th><th>reason</th></tr>");
  for (const v1::Machine& machine : machines) {
    absl::StrAppend(&page, "<tr><td>", EscapeHtml(machine.name()), "</td><td>",
                    MachineStateName(machine.state()), "</td><td>", EscapeHtml(machine.job_id()), "</td>");
    absl::StrAppend(&page, "<td>", EscapeHtml(machine.address()), "</td><td>",
                    machine.last_heartbeat_age_ns() / 1'000'000'000, " s ago</td><td>",
                    EscapeHtml(machine.reason()), "</td></tr>");
  }
  absl::StrAppend(&page, "</table></body></html>");
  return page;
}

}  // namespace poolmark::controller
