// Bytes of KV that an engine moved between machines, by its own or its cache's counters. Pure.
#pragma once
#include <string>
#include <vector>

#include "common/base/measured.h"
#include "common/stats/attribution.h"

namespace poolmark::stats {

struct MovedBytes {
  Measured<double> bytes;           // read and written; a hand-over counts at the engine that fetched it
  std::vector<std::string> series;  // it was read from
};
// Not measured where the engine has none of the series that count such bytes, or a counter went backwards.
MovedBytes KvBytesOf(const EngineFacts& engine);

}  // namespace poolmark::stats
