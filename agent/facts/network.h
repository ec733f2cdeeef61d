// Network cards and RDMA ports from /sys/class/net and /sys/class/infiniband. Reads only what a fixture tree
// can hold; addresses come from the caller, because sysfs has none.
#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace poolmark::agent {

struct NicInfo {
  std::string name;
  std::vector<std::string> addresses;  // IPv4 first
  uint32_t mtu = 0;
  std::optional<uint64_t> speed_bits_per_second;  // absent: unknown (link down, virtual)
  std::string driver;
  std::string operstate;
};
using AddressMap = std::map<std::string, std::vector<std::string>>;
AddressMap ReadAddresses();  // getifaddrs, with IPv4 before IPv6
std::vector<NicInfo> ReadNics(const std::string& root, const AddressMap& addresses);

struct RdmaPortInfo {
  std::string device;  // "mlx5_0"
  uint32_t port = 1;
  std::string state;           // "ACTIVE"
  std::string physical_state;  // "LinkUp"
  std::string link_layer;      // "Ethernet", "InfiniBand"
  std::string rate;            // "400 Gb/sec (4X NDR)"
  std::string netdev;
  std::optional<uint32_t> active_mtu;  // bytes; only a verbs tool knows it
  std::string driver;                  // "mlx5_core", "bnxt_en"
};
std::vector<RdmaPortInfo> ReadRdmaPorts(const std::string& root);

// "4: ACTIVE" -> "ACTIVE".
std::string PortState(std::string_view text);
// `ibv_devinfo -v` or plain: device -> port -> active_mtu in bytes ("active_mtu: 4096 (5)").
std::map<std::string, std::map<uint32_t, uint32_t>> ParseIbvDevinfo(std::string_view text);
// The RDMA MTU that a RoCE link of this Ethernet MTU can carry: 256, 512, 1024, 2048 or 4096.
uint32_t RoceMtu(uint32_t netdev_mtu);

}  // namespace poolmark::agent
