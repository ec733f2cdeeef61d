// iperf3's JSON report of a client. Pure. iperf3 3.12 exits with 0 even when it failed: the only sign is the
// "error" member, so a report is judged by its content alone.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

#include "common/base/result.h"

namespace poolmark::agent {

struct Iperf3Report {
  double received_bits_per_second = 0;  // goodput at the receiver: the line rate
  double sent_bits_per_second = 0;
  double sent_bytes = 0;
  uint64_t retransmits = 0;
  double seconds = 0;  // of the receiver
  unsigned streams = 0;
  std::string version;  // "3.12"
};

// UNAVAILABLE with iperf3's own words when it failed, INVALID_ARGUMENT for what is no report.
Result<Iperf3Report> ParseIperf3(std::string_view json);

}  // namespace poolmark::agent
