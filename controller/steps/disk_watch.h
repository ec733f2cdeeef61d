// Tells from a machine's samples that a disk where the job writes is full: its files, logs and tiers are then
// incomplete, and what writes there hangs or fails in ways that do not name the disk. One machine's sampling;
// a new one for each, as series are numbered anew. Not thread-safe.
#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "poolmark/v1/agent.pb.h"

namespace poolmark::controller {

class DiskWatch {
 public:
  // Less than this is full: a preflight that passed left a GiB more than the tiers take.
  static constexpr double kFullBytes = 16.0 * (1 << 20);

  // What is full, in words; nothing: as far as this batch says, nothing is.
  std::optional<std::string> Take(const v1::StreamSamplesResponse& batch);

 private:
  std::map<uint32_t, std::string> paths_;  // by series
};

}  // namespace poolmark::controller
