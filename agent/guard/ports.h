// TCP ports: whether one can be bound, and who holds it. Reads the real machine; thread-safe.
#pragma once
#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace poolmark::guard {

// True when a listener could take the port on every address, IPv4 and IPv6. Connections in TIME_WAIT do
// not count (SO_REUSEADDR), other listeners do.
bool CanBindPort(uint16_t port);

// Inodes of the sockets that listen on the port, from the text of /proc/net/tcp or tcp6.
std::set<uint64_t> ParseListeners(std::string_view text, uint16_t port);
std::set<uint64_t> ListenerInodes(uint16_t port);

struct PortHolder {
  pid_t pid = 0;
  std::string command;
};
// The processes that have such a socket open; those one may not look into are left out.
std::vector<PortHolder> PortHolders(uint16_t port);
// True when one of `pids` holds a listener on the port.
bool HoldsPort(uint16_t port, const std::vector<pid_t>& pids);

}  // namespace poolmark::guard
