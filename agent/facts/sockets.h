// TCP sockets of the machine: /proc/net/tcp and tcp6, and who owns them by /proc/<pid>/fd. Parsers are pure.
// Sees the network namespace of the process that reads (or of `pid`, through /proc/<pid>/net).
#pragma once
#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace poolmark::agent {

struct IpAddress {
  std::array<uint8_t, 16> bytes{};  // IPv4 in the first four
  bool v6 = false;

  bool IsWildcard() const;
  bool IsLoopback() const;  // 127/8, ::1, and ::ffff:127/104
  // Neither private, shared (100.64/10), link-local, unique-local, loopback, multicast, documentation nor
  // unspecified: it may be routed over the internet.
  bool IsPublic() const;
  std::string ToString() const;
  static std::optional<IpAddress> Parse(const std::string& text);
  bool operator==(const IpAddress&) const = default;
};

struct Socket {
  IpAddress local;
  uint16_t port = 0;
  unsigned state = 0;  // kernel: 0x0A LISTEN, 0x06 TIME_WAIT
  uint32_t uid = 0;
  uint64_t inode = 0;  // 0 in TIME_WAIT
  bool listening() const { return state == 0x0A; }
  bool time_wait() const { return state == 0x06; }
};

// Malformed lines are skipped. IPv6 sockets bound to a mapped address give the IPv4 one.
std::vector<Socket> ParseProcNetTcp(std::string_view text, bool v6);
std::vector<Socket> ReadSockets(const std::string& root);
// Bound but not necessarily listening UDP sockets, for side channels.
std::vector<Socket> ReadUdpSockets(const std::string& root);

// Does an IPv6 wildcard listener take IPv4 too (net.ipv6.bindv6only = 0)?
bool DualStack(const std::string& root);

struct ProcessName {
  int pid = 0;
  std::string name;     // comm
  std::string command;  // first word of the command line
  uint32_t uid = 0;
};
// Socket inode -> owner, for the inodes of interest; owners of other users are seen by root only.
std::map<uint64_t, ProcessName> FindOwners(const std::string& root, const std::set<uint64_t>& inodes);

// Process ids below /proc, ascending.
std::vector<int> ReadPids(const std::string& root);

}  // namespace poolmark::agent
