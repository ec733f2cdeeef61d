#include "agent/telemetry/perf.h"

#include <algorithm>

#include "agent/facts/text.h"

namespace poolmark::agent {

MemoryEvents FindMemoryEvents(const std::string& root) {
  MemoryEvents events;
  bool intel = false, amd = false, any = false;
  for (const std::string& name : Entries(root, "/sys/bus/event_source/devices")) {
    any = true;
    if (name.rfind("uncore_imc", 0) == 0 && name.find("free_running") == std::string::npos) intel = true;
    if (name.rfind("amd_umc", 0) == 0) amd = true;
  }
  if (intel) {
    // a PMU name without its number means all of them
    events.read = {"uncore_imc/cas_count_read/"};
    events.write = {"uncore_imc/cas_count_write/"};
  } else if (amd) {
    events.read = {"umc_cas_cmd.rd"};
    events.write = {"umc_cas_cmd.wr"};
  } else {
    events.missing = any ? "this machine exposes no memory-controller events"
                         : "this machine exposes no performance events";
  }
  return events;
}

namespace {

Measured<double> SumOf(std::string_view text, const std::vector<std::string>& wanted, double seconds) {
  double bytes = 0;
  bool found = false;
  for (std::string_view line : Lines(text)) {
    const auto cells = SplitAt(line, ';');
    if (cells.size() < 3) continue;
    // a PMU with several instances is listed as uncore_imc_0/.../, or summed under the name as asked
    const std::string event(cells[2]);
    const bool ours = std::any_of(wanted.begin(), wanted.end(), [&](const std::string& name) {
      const size_t slash = name.find('/');
      if (slash == std::string::npos) return event == name;
      return event.rfind(name.substr(0, slash), 0) == 0 && event.size() >= name.size() - slash &&
             event.compare(event.size() - (name.size() - slash), std::string::npos, name, slash,
                           std::string::npos) == 0;
    });
    if (!ours) continue;
    const auto count = ToDouble(cells[0]);
    if (!count) return NotMeasured{"perf: " + std::string(cells[0]) + " (" + event + ")"};
    found = true;
    double unit = 64;  // a CAS command moves a cache line
    if (cells[1] == "MiB") unit = 1048576;
    if (cells[1] == "GiB") unit = 1073741824;
    if (cells[1] == "Bytes") unit = 1;
    bytes += *count * unit;
  }
  if (!found || seconds <= 0) return NotMeasured{"perf printed no such event"};
  return bytes / seconds;
}

}  // namespace

MemoryBandwidth ParsePerfStat(std::string_view text, const MemoryEvents& events, double seconds) {
  return {SumOf(text, events.read, seconds), SumOf(text, events.write, seconds)};
}

}  // namespace poolmark::agent
