// The machine's own counters from /proc and /sys, under node_exporter's names where the quantity is the same.
// Parsers are pure; readers take a root directory. What a driver does not give becomes "not measured".
#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "agent/telemetry/point.h"

namespace poolmark::agent {

// /proc/stat: seconds by mode, over all CPUs (guest time is part of user).
std::map<std::string, double> ParseCpuTimes(std::string_view text, double ticks_per_second);

struct InterfaceCounters {
  std::string name;
  uint64_t receive_bytes = 0, receive_packets = 0, receive_errs = 0, receive_drop = 0;
  uint64_t transmit_bytes = 0, transmit_packets = 0, transmit_errs = 0, transmit_drop = 0;
};
std::vector<InterfaceCounters> ParseNetDev(std::string_view text);

// /proc/net/snmp and netstat: pairs of lines, names and numbers: "Tcp_RetransSegs" -> 12. Negative numbers
// (Tcp_MaxConn -1) are left out.
std::map<std::string, uint64_t, std::less<>> ParseNetstat(std::string_view text);

struct DriveCounters {
  std::string name;
  uint64_t read_bytes = 0, written_bytes = 0;
  double io_seconds = 0;
};
std::vector<DriveCounters> ParseDiskstats(std::string_view text);  // leaf drives, no partitions

// Everything of /proc, into the host dialect. `interfaces` and drives are those found.
void ReadProc(const std::string& root, PointBuilder* points);
// RDMA ports: counters/ (bytes are multiplied from 4-byte words) and hw_counters/. A port without counters/
// (bnxt_re) has its byte counters from hw_counters/.
void ReadRdmaCounters(const std::string& root, PointBuilder* points);
// hw_counters that node_exporter does not publish only, for when it runs.
void ReadExtraRdmaCounters(const std::string& root, PointBuilder* points);

}  // namespace poolmark::agent
