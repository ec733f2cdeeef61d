// Text reports of ib_write_bw and ib_write_lat (linux-rdma/perftest). Pure. The text is read, not the JSON
// option, because the JSON is invalid in some modes. Columns are found by the header line, which names them
// and their units.
#pragma once
#include <cstdint>
#include <string_view>

#include "common/base/result.h"

namespace poolmark::agent {

struct WriteBandwidth {
  uint64_t message_bytes = 0;
  uint64_t iterations = 0;
  double average_bits_per_second = 0;  // the peak is 0 by design in a run of fixed duration
};
// The last line of results (with -a there are several, the largest message last).
Result<WriteBandwidth> ParseWriteBandwidth(std::string_view text);

struct WriteLatency {
  uint64_t message_bytes = 0;
  uint64_t iterations = 0;
  double typical_us = 0;  // the median
  double p99_us = 0;
};
// Needs a run by iterations: one by duration has only an average.
Result<WriteLatency> ParseWriteLatency(std::string_view text);

}  // namespace poolmark::agent
