#include "controller/web/metrics.h"

#include <prometheus/text_serializer.h>
#include <unistd.h>

#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "common/base/files.h"

namespace poolmark::controller {
namespace {

using prometheus::MetricFamily;
using prometheus::MetricType;

class Page {
 public:
  void One(const char* name, MetricType type, const char* help, double value) {
    Add(name, type, help)->push_back(Metric(type, value));
  }
  void OneIfKnown(const char* name, MetricType type, const char* help, std::optional<double> value) {
    if (value) One(name, type, help, *value);
  }
  void ByState(const char* name, const char* help, const std::map<std::string, uint64_t>& counts) {
    auto* metrics = Add(name, MetricType::Gauge, help);
    for (const auto& [state, count] : counts) {
      metrics->push_back(Metric(MetricType::Gauge, static_cast<double>(count)));
      metrics->back().label.push_back({"state", state});
    }
  }
  std::string Text() const { return prometheus::TextSerializer().Serialize(families_); }

 private:
  std::vector<prometheus::ClientMetric>* Add(const char* name, MetricType type, const char* help) {
    families_.push_back({name, help, type, {}});
    return &families_.back().metric;
  }
  static prometheus::ClientMetric Metric(MetricType type, double value) {
    prometheus::ClientMetric metric;
    (type == MetricType::Counter ? metric.counter.value : metric.gauge.value) = value;
    return metric;
  }
  std::vector<MetricFamily> families_;
};

}  // namespace

void ReadProcess(ControllerFigures* figures) {
  if (auto statm = ReadPseudoFile("/proc/self/statm"); statm.ok()) {
    std::vector<std::string> parts = absl::StrSplit(*statm, ' ');
    uint64_t pages = 0;
    if (parts.size() > 1 && absl::SimpleAtoi(parts[1], &pages)) {
      figures->resident_bytes = static_cast<double>(pages) * static_cast<double>(sysconf(_SC_PAGESIZE));
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
  if (auto fds = ListDir("/proc/self/fd"); fds.ok())
    figures->open_descriptors = static_cast<double>(fds->size());
}

std::string MetricsText(const ControllerFigures& f) {
  constexpr MetricType kGauge = MetricType::Gauge, kCounter = MetricType::Counter;
  const auto number = [](uint64_t count) { return static_cast<double>(count); };
  Page page;
  page.ByState("poolmark_jobs", "Jobs by state", f.jobs_by_state);
  page.ByState("poolmark_machines", "Machines by state", f.machines_by_state);
  page.One("poolmark_jobs_running", kGauge, "Jobs that hold machines", number(f.running_jobs));
  page.One("poolmark_machines_lost_total", kCounter, "Machines that fell silent for longer than a lease",
           number(f.machines_lost_total));
  page.OneIfKnown("poolmark_heartbeat_age_seconds_max", kGauge, "Age of the oldest last heartbeat",
                  f.oldest_heartbeat_seconds);
  page.One("poolmark_store_commit_seconds", kGauge, "Time of the last probing commit of the store",
           f.store_commit_seconds);
  page.One("poolmark_rpc_calls_total", kCounter, "Calls that reached a handler", number(f.rpc_calls));
  page.One("poolmark_rpc_denied_total", kCounter, "Calls refused for their certificate or role",
           number(f.rpc_denied));
  page.One("poolmark_connections", kGauge, "Open connections to the API", number(f.connections));
  page.One("poolmark_connections_refused_total", kCounter, "Connections over a cap",
           number(f.connections_refused));
  page.OneIfKnown("poolmark_certificate_expires_timestamp_seconds", kGauge,
                  "End of the controller's certificate", f.certificate_expires_seconds);
  page.OneIfKnown("process_resident_memory_bytes", kGauge, "Resident memory", f.resident_bytes);
  page.OneIfKnown("process_cpu_seconds_total", kCounter, "CPU time", f.cpu_seconds);
  page.OneIfKnown("process_open_fds", kGauge, "Open file descriptors", f.open_descriptors);
  page.One("process_start_time_seconds", kGauge, "Start of the process", f.start_time_seconds);
  return page.Text();
}

}  // namespace poolmark::controller
