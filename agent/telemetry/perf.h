// Memory-controller bandwidth from perf's uncore events (Intel IMC, AMD UMC). Pure but for the look-up of
// events.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "common/base/measured.h"

namespace poolmark::agent {

struct MemoryEvents {
  std::vector<std::string> read;  // perf event names
  std::vector<std::string> write;
  std::string missing;  // why there are none
};
// By the PMUs in /sys/bus/event_source/devices.
MemoryEvents FindMemoryEvents(const std::string& root);

struct MemoryBandwidth {
  Measured<double> read_bytes_per_second;
  Measured<double> write_bytes_per_second;
};
// `perf stat -x ';' -a -e ... -- sleep N`: "123.45;MiB;uncore_imc/cas_count_read/;...", a raw count is in
// cache lines of 64 bytes. An event that is "<not supported>" or "<not counted>" makes its sum not measured.
MemoryBandwidth ParsePerfStat(std::string_view text, const MemoryEvents& events, double seconds);

}  // namespace poolmark::agent
