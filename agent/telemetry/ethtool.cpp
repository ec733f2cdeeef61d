#include "agent/telemetry/ethtool.h"

#include <linux/ethtool.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

namespace poolmark::agent {
namespace {

constexpr uint32_t kMostStatistics = 65'536;

bool Call(int socket, const std::string& interface, void* data) {
  ifreq request{};
  if (interface.size() >= sizeof request.ifr_name) return false;
  std::memcpy(request.ifr_name, interface.data(), interface.size());
  request.ifr_data = static_cast<char*>(data);
  return ::ioctl(socket, SIOCETHTOOL, &request) == 0;
}

// How many statistics the driver has; 0 on any error.
uint32_t CountOf(int socket, const std::string& interface) {
  ethtool_drvinfo info{};
  info.cmd = ETHTOOL_GDRVINFO;
  return Call(socket, interface, &info) ? std::min(info.n_stats, kMostStatistics) : 0;
}

}  // namespace

bool KeepsStatistic(std::string_view name) {
  const auto begins = [&](std::string_view text) { return name.substr(0, text.size()) == text; };
  const auto ends = [&](std::string_view text) {
    return name.size() >= text.size() && name.substr(name.size() - text.size()) == text;
  };
  if (!begins("rx_") && !begins("tx_") && !begins("rx-") && !begins("tx-")) return false;
  // mlx5: bytes on the wire, RDMA and other traffic of the function, pause by priority
  if (ends("_bytes_phy") || ends("_discards_phy") || ends("_errors_phy")) return true;
  if (name.find("_vport_rdma_") != std::string_view::npos ||
      name.find("_vport_unicast_bytes") != std::string_view::npos)
    return true;
  if (name.find("_pause") != std::string_view::npos && name.find("queue") == std::string_view::npos)
    return true;
  // bnxt and others: totals of the port
  return name == "rx_bytes" || name == "tx_bytes" || name == "rx_total_bytes" || name == "tx_total_bytes" ||
         name == "rx_roce_bytes" || name == "tx_roce_bytes" || name == "rx_octets" || name == "tx_octets";
}

Ethtool::Ethtool() : socket_(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0)) {}
Ethtool::~Ethtool() {
  if (socket_ >= 0) ::close(socket_);
}

std::map<std::string, uint64_t> Ethtool::Read(const std::string& interface) {
  std::map<std::string, uint64_t> values;
  const uint32_t count = socket_ < 0 ? 0 : CountOf(socket_, interface);
  if (count == 0) return values;
  Names& names = names_[interface];
  if (names.count != count) {
    names = Names{};
    std::vector<char> buffer(sizeof(ethtool_gstrings) + static_cast<size_t>(count) * ETH_GSTRING_LEN);
    auto* strings = reinterpret_cast<ethtool_gstrings*>(buffer.data());
    strings->cmd = ETHTOOL_GSTRINGS;
    strings->string_set = ETH_SS_STATS;
    strings->len = count;
    if (!Call(socket_, interface, strings)) return values;
    for (uint32_t i = 0; i < std::min(strings->len, count); ++i) {
      const char* text = buffer.data() + sizeof(ethtool_gstrings) + static_cast<size_t>(i) * ETH_GSTRING_LEN;
      std::string name(text, ::strnlen(text, ETH_GSTRING_LEN));
      if (KeepsStatistic(name)) names.kept.emplace_back(i, std::move(name));
    }
    names.count = count;
  }
  if (names.kept.empty()) return values;
  std::vector<uint64_t> buffer(sizeof(ethtool_stats) / 8 + count);
  auto* statistics = reinterpret_cast<ethtool_stats*>(buffer.data());
  statistics->cmd = ETHTOOL_GSTATS;
  statistics->n_stats = count;
  if (!Call(socket_, interface, statistics) || statistics->n_stats != count) return values;
  for (const auto& [position, name] : names.kept) values[name] = buffer[sizeof(ethtool_stats) / 8 + position];
  return values;
}

}  // namespace poolmark::agent
