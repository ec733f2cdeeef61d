// fuzz: sim
// Redis replies: a prefix of a good reply is never an error, and no input is a bomb.
#include <cstdlib>

#include "agent/sim/resp.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::string_view bytes(reinterpret_cast<const char*>(data), size);
  poolmark::sim::RespValue value;
  auto used = poolmark::sim::ParseResp(bytes, &value);
  if (!used.ok() || *used == 0) return 0;
  if (*used > size) std::abort();
  for (size_t cut = 0; cut < *used; ++cut) {
    poolmark::sim::RespValue part;
    auto partial = poolmark::sim::ParseResp(bytes.substr(0, cut), &part);
    if (!partial.ok() || *partial != 0) std::abort();
  }
  return 0;
}
