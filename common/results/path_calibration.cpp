#include "common/results/path_calibration.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/match.h"

namespace poolmark::results {
namespace {

// Below, a counter saw acknowledgements or other traffic, not the payload.
constexpr double kSees = 0.5;

bool Sees(const std::map<std::string, double>& ratios, const std::string& device) {
  const auto found = ratios.find(device);
  return found != ratios.end() && found->second >= kSees;
}

Measured<double> Rdma(const PathCalibration& calibration, const std::map<std::string, double>& counted) {
  double bytes = 0;
  bool any = false;
  for (const auto& [device, value] : counted) {
    if (!absl::StartsWith(device, "rdma:")) continue;
    if (!calibration.rdma.empty() && !Sees(calibration.rdma, device)) continue;
    bytes += calibration.rdma.empty() ? value : value / calibration.rdma.at(device);
    any = true;
  }
  if (any) return bytes;
  if (calibration.rdma.empty()) return NotMeasured{"no RDMA counters on this machine"};
  return NotMeasured{"no counter of this machine rose for RDMA alone in preflight"};
}

Measured<double> Tcp(const PathCalibration& calibration, const std::map<std::string, double>& counted,
                     const Measured<double>& rdma) {
  std::string best;
  for (const auto& [device, ratio] : calibration.tcp) {
    if (!absl::StartsWith(device, "net:") || ratio < kSees || !counted.contains(device)) continue;
    if (best.empty() || std::abs(std::log(ratio)) < std::abs(std::log(calibration.tcp.at(best))))
      best = device;
  }
  if (best.empty()) return NotMeasured{"no network interface of this machine rose with iperf3 in preflight"};
  double bytes = counted.at(best);
  if (Sees(calibration.rdma, best)) {
    if (!rdma.has_value())
      return NotMeasured{"interface " + best.substr(4) + " counts RDMA and TCP together"};
    bytes -= *rdma * calibration.rdma.at(best);
  }
  return std::max(0.0, bytes) / calibration.tcp.at(best);
}

}  // namespace

std::map<std::string, double> Ratios(const std::map<std::string, double>& counted, double payload_bytes) {
  std::map<std::string, double> ratios;
  if (!(payload_bytes > 0)) return ratios;
  for (const auto& [device, bytes] : counted) ratios[device] = bytes / payload_bytes;
  return ratios;
}

std::map<std::string, PathCalibration> CalibrationsOf(const PreflightRecord& preflight) {
  std::map<std::string, PathCalibration> out;
  for (const LineRate& line : preflight.line_rates) {
    PathCalibration& calibration = out[line.from];
    if (line.path != "rdma") {
      calibration.tcp = line.counted_per_byte;
    } else if (!line.counted_per_byte.empty()) {
      calibration.rdma = line.counted_per_byte;
    }
  }
  return out;
}

std::map<std::pair<std::string, std::string>, double> LineRatesOf(const PreflightRecord& preflight) {
  std::map<std::pair<std::string, std::string>, double> out;
  for (const LineRate& line : preflight.line_rates) {
    if (line.bits_per_second.has_value()) out[{line.from, line.to}] = *line.bits_per_second;
  }
  return out;
}

PathBytes ReadThrough(const PathCalibration& calibration, const std::map<std::string, double>& counted) {
  PathBytes bytes;
  bytes.rdma = Rdma(calibration, counted);
  bytes.tcp = Tcp(calibration, counted, bytes.rdma);
  return bytes;
}

}  // namespace poolmark::results
