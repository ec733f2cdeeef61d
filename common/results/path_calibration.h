// Which byte counters of a machine see which traffic (decision M11). Drivers differ: one keeps RDMA out of
// the interface's total, another counts both, software RoCE has no byte counter of its own. So preflight
// sends known bytes with the line-rate tools and keeps how far each counter rose for one byte of payload; a
// repeat's counters are read through that. Pure.
#pragma once
#include <map>
#include <string>
#include <utility>

#include "common/base/measured.h"
#include "common/results/cycle_files.h"

namespace poolmark::results {

// Of one sending machine: "net:<interface>" or "rdma:<device>" -> bytes counted for one byte of payload.
struct PathCalibration {
  std::map<std::string, double> tcp;   // under iperf3
  std::map<std::string, double> rdma;  // under ib_write_bw; empty: the stack uses no RDMA
};

// Ratios of one run; empty when the tool told no payload.
std::map<std::string, double> Ratios(const std::map<std::string, double>& counted, double payload_bytes);

// From preflight.json: by sending machine, and the line rate by "from" and "to". Of an RDMA path both lines
// are there, TCP first: the rate is that of the path.
std::map<std::string, PathCalibration> CalibrationsOf(const PreflightRecord& preflight);
std::map<std::pair<std::string, std::string>, double> LineRatesOf(const PreflightRecord& preflight);

struct PathBytes {
  Measured<double> rdma, tcp;
};
// What a window's counters say in payload bytes. RDMA: the RDMA counters that rose for it. TCP: the interface
// whose ratio is nearest to 1 (a bond and its members count the same bytes), less the RDMA bytes where it
// counts those too.
PathBytes ReadThrough(const PathCalibration& calibration, const std::map<std::string, double>& counted);

}  // namespace poolmark::results
