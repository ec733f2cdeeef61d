#include "agent/facts/network.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <netinet/in.h>

#include <algorithm>

#include "agent/facts/text.h"

namespace poolmark::agent {

AddressMap ReadAddresses() {
  AddressMap addresses;
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0) return addresses;
  for (const int family : {AF_INET, AF_INET6}) {
    for (const ifaddrs* entry = list; entry != nullptr; entry = entry->ifa_next) {
      if (entry->ifa_addr == nullptr || entry->ifa_addr->sa_family != family) continue;
      char text[INET6_ADDRSTRLEN] = "";
      const void* raw =
          family == AF_INET
              ? static_cast<const void*>(&reinterpret_cast<sockaddr_in*>(entry->ifa_addr)->sin_addr)
              : static_cast<const void*>(&reinterpret_cast<sockaddr_in6*>(entry->ifa_addr)->sin6_addr);
      if (::inet_ntop(family, raw, text, sizeof text) != nullptr) addresses[entry->ifa_name].push_back(text);
    }
  }
  ::freeifaddrs(list);
  return addresses;
}

std::vector<NicInfo> ReadNics(const std::string& root, const AddressMap& addresses) {
  std::vector<NicInfo> nics;
  for (const std::string& name : Entries(root, "/sys/class/net")) {
    const std::string base = "/sys/class/net/" + name;
    NicInfo nic;
    nic.name = name;
    const auto mtu = ReadUint(root, base + "/mtu");
    if (!mtu) continue;  // not an interface ("bonding_masters" is a plain file)
    nic.mtu = static_cast<uint32_t>(*mtu);
    // EINVAL while the link is down, -1 or 4294967295 where unknown
    const auto megabits = ReadUint(root, base + "/speed");
    if (megabits && *megabits > 0 && *megabits < 10'000'000)
      nic.speed_bits_per_second = *megabits * 1'000'000;
    nic.driver = LinkName(root, base + "/device/driver").value_or("");
    nic.operstate = ReadTrimmed(root, base + "/operstate").value_or("");
    const auto found = addresses.find(name);
    if (found != addresses.end()) nic.addresses = found->second;
    nics.push_back(std::move(nic));
  }
  return nics;
}

std::string PortState(std::string_view text) {
  const size_t colon = text.find(':');
  return std::string(Trim(colon == std::string_view::npos ? text : text.substr(colon + 1)));
}

std::vector<RdmaPortInfo> ReadRdmaPorts(const std::string& root) {
  std::vector<RdmaPortInfo> ports;
  for (const std::string& device : Entries(root, "/sys/class/infiniband")) {
    const std::string base = "/sys/class/infiniband/" + device;
    for (const std::string& port : Entries(root, base + "/ports")) {
      const auto number = ToUint(port);
      if (!number) continue;
      const std::string at = base + "/ports/" + port;
      RdmaPortInfo info;
      info.device = device;
      info.port = static_cast<uint32_t>(*number);
      info.state = PortState(ReadTrimmed(root, at + "/state").value_or(""));
      info.physical_state = PortState(ReadTrimmed(root, at + "/phys_state").value_or(""));
      info.link_layer = ReadTrimmed(root, at + "/link_layer").value_or("");
      info.rate = ReadTrimmed(root, at + "/rate").value_or("");
      info.netdev = ReadTrimmed(root, at + "/gid_attrs/ndevs/0").value_or("");
      if (info.netdev.empty()) {
        const auto netdevs = Entries(root, base + "/device/net");
        if (!netdevs.empty()) info.netdev = netdevs[std::min<size_t>(info.port - 1, netdevs.size() - 1)];
      }
      info.driver = LinkName(root, base + "/device/driver").value_or("");
      ports.push_back(std::move(info));
    }
  }
  return ports;
}

std::map<std::string, std::map<uint32_t, uint32_t>> ParseIbvDevinfo(std::string_view text) {
  std::map<std::string, std::map<uint32_t, uint32_t>> mtus;
  std::string device;
  uint32_t port = 0;  // they count from 1
  for (std::string_view line : Lines(text)) {
    const size_t colon = line.find(':');
    if (colon == std::string_view::npos) continue;
    const std::string_view key = Trim(line.substr(0, colon));
    const std::string_view value = Trim(line.substr(colon + 1));
    if (key == "hca_id") {
      device = std::string(value);
      port = 0;
    } else if (key == "port") {
      port = static_cast<uint32_t>(ToUint(value).value_or(0));
    } else if (key == "active_mtu" && port != 0 && !device.empty()) {
      const auto fields = Fields(value);
      const auto bytes = fields.empty() ? std::nullopt : ToUint(fields[0]);
      if (bytes && *bytes <= 65536) mtus[device][port] = static_cast<uint32_t>(*bytes);
    }
  }
  return mtus;
}

uint32_t RoceMtu(uint32_t netdev_mtu) {
  // RoCE v2 over IPv6: 40 (IP) + 8 (UDP) + 12 (BTH) + 16 (RETH) + 4 (ICRC), rounded up generously
  constexpr uint32_t kHeaders = 96;
  for (const uint32_t mtu : {4096u, 2048u, 1024u, 512u}) {
    if (netdev_mtu >= mtu + kHeaders) return mtu;
  }
  return 256;
}

}  // namespace poolmark::agent
