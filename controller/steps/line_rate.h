// The network line rate between the machines KV travels between (decision M12): iperf3 for every ordered
// pair, with as many servers and streams as still help, which short tries find out before the runs; and
// ib_write_bw and ib_write_lat beside it on an RDMA path. Best of the runs counts.
#pragma once
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "controller/steps/step.h"

namespace poolmark::controller {

struct LineRate {
  KvLink link;
  std::optional<double> bits_per_second;  // iperf3: received goodput, best run
  uint32_t servers = 0;                   // iperf3 processes at each end, in all runs
  uint32_t streams = 0;                   // of all servers together
  std::vector<double> runs;
  std::optional<double> rdma_bits_per_second;  // of all cards
  uint32_t rdma_cards = 0;
  std::optional<double> rdma_latency_p50_us;
  std::optional<double> rdma_latency_p99_us;
  std::map<std::string, double> tcp_ratios;  // device -> bytes counted for one of payload (calibration.h)
  std::map<std::string, double> rdma_ratios;
  std::string failure;  // what could not be measured and why
  v1::Tool tool;
  v1::Tool rdma_tool;
};

// Measures pair after pair: two at once would share the network. One check result per pair goes to the
// events.
std::vector<LineRate> MeasureLineRates(JobRun* run, std::vector<v1::CheckResult>* checks);

}  // namespace poolmark::controller
