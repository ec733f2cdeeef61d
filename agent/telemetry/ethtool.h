// Statistics that a network driver keeps beside the interface counters (ethtool -S): bytes on the wire, RDMA
// bytes of a ConnectX card, pause frames. By ioctl on this machine; not for fixture trees. Not thread-safe.
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace poolmark::agent {

// Is this one of the statistics that tell which path bytes took, or what the link suffered? Per-queue ones
// are not.
bool KeepsStatistic(std::string_view name);

class Ethtool {
 public:
  Ethtool();
  ~Ethtool();
  Ethtool(const Ethtool&) = delete;
  Ethtool& operator=(const Ethtool&) = delete;
  // Kept statistics of an interface; empty when its driver has none or it is gone.
  std::map<std::string, uint64_t> Read(const std::string& interface);

 private:
  // Positions of the kept statistics among all, asked once for each interface and number of statistics.
  struct Names {
    uint32_t count = 0;
    std::vector<std::pair<uint32_t, std::string>> kept;
  };
  int socket_;
  std::map<std::string, Names> names_;
};

}  // namespace poolmark::agent
