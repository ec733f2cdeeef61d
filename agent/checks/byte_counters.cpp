#include "agent/checks/byte_counters.h"

#include <set>

#include "agent/facts/network.h"
#include "agent/facts/text.h"
#include "agent/telemetry/host_readers.h"

namespace poolmark::agent {
namespace {

constexpr uint64_t kSaturated = 0xffffffff;  // a 32-bit port counter stays there

}  // namespace

std::map<std::string, double> SentBytes(const std::string& root) {
  std::map<std::string, double> sent;
  if (const auto text = ReadTrimmed(root, "/proc/net/dev")) {
    for (const InterfaceCounters& counters : ParseNetDev(*text))
      sent["net:" + counters.name] = static_cast<double>(counters.transmit_bytes);
  }
  std::set<std::string> unreadable;
  for (const RdmaPortInfo& port : ReadRdmaPorts(root)) {
    const std::string base = "/sys/class/infiniband/" + port.device + "/ports/" + std::to_string(port.port);
    const std::string name = "rdma:" + port.device;
    const auto words = ReadUint(root, base + "/counters/port_xmit_data");
    const auto bytes = words ? std::nullopt : ReadUint(root, base + "/hw_counters/tx_bytes");
    if (words && *words != kSaturated) {
      sent[name] += static_cast<double>(*words) * 4;
    } else if (bytes) {
      sent[name] += static_cast<double>(*bytes);
    } else {
      unreadable.insert(name);
    }
  }
  for (const std::string& name : unreadable) sent.erase(name);
  return sent;
}

std::map<std::string, double> Rise(const std::map<std::string, double>& before,
                                   const std::map<std::string, double>& after) {
  std::map<std::string, double> rise;
  for (const auto& [name, value] : after) {
    const auto old = before.find(name);
    if (old != before.end() && value >= old->second) rise[name] = value - old->second;
  }
  return rise;
}

}  // namespace poolmark::agent
