#include "agent/facts/sockets.h"

#include <arpa/inet.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <cstring>

#include "agent/facts/text.h"

namespace poolmark::agent {
namespace {

// One 32-bit word as the kernel prints it: the bytes of the address in host order, little-endian machines.
bool ParseWord(std::string_view hex, uint8_t* out) {
  const auto word = ToUint(hex, 16);
  if (!word || hex.size() != 8) return false;
  for (int i = 0; i < 4; ++i) out[i] = static_cast<uint8_t>(*word >> (8 * i));
  return true;
}

bool MappedV4(const IpAddress& address) {
  static constexpr uint8_t kPrefix[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
  return address.v6 && std::memcmp(address.bytes.data(), kPrefix, 12) == 0;
}

}  // namespace

bool IpAddress::IsWildcard() const {
  const size_t size = v6 ? 16 : 4;
  return std::all_of(bytes.begin(), bytes.begin() + size, [](uint8_t byte) { return byte == 0; });
}

bool IpAddress::IsLoopback() const {
  if (!v6) return bytes[0] == 127;
  if (MappedV4(*this)) return bytes[12] == 127;
  return std::all_of(bytes.begin(), bytes.begin() + 15, [](uint8_t byte) { return byte == 0; }) &&
         bytes[15] == 1;
}

bool IpAddress::IsPublic() const {
  if (IsWildcard() || IsLoopback()) return false;
  std::array<uint8_t, 4> b{};
  if (!v6) {
    std::copy_n(bytes.begin(), 4, b.begin());
  } else if (MappedV4(*this)) {
    std::copy_n(bytes.begin() + 12, 4, b.begin());
  } else {
    if ((bytes[0] & 0xe0) != 0x20) return false;  // global unicast is 2000::/3
    return !(bytes[0] == 0x20 && bytes[1] == 0x01 && bytes[2] == 0x0d && bytes[3] == 0xb8);  // documentation
  }
  if (b[0] == 0 || b[0] == 10 || b[0] >= 224) return false;
  if (b[0] == 172 && (b[1] & 0xf0) == 16) return false;
  if (b[0] == 192 && b[1] == 168) return false;
  if (b[0] == 169 && b[1] == 254) return false;
  if (b[0] == 100 && (b[1] & 0xc0) == 64) return false;
  if (b[0] == 198 && (b[1] & 0xfe) == 18) return false;  // benchmarking
  if ((b[0] == 192 && b[1] == 0 && b[2] == 2) || (b[0] == 198 && b[1] == 51 && b[2] == 100) ||
      (b[0] == 203 && b[1] == 0 && b[2] == 113)) {
    return false;  // documentation
  }
  return true;
}

std::string IpAddress::ToString() const {
  char text[INET6_ADDRSTRLEN] = "";
  ::inet_ntop(v6 ? AF_INET6 : AF_INET, bytes.data(), text, sizeof text);
  return text;
}

std::optional<IpAddress> IpAddress::Parse(const std::string& text) {
  IpAddress address;
  const std::string bare = text.substr(0, text.find_first_of("%/"));
  if (::inet_pton(AF_INET, bare.c_str(), address.bytes.data()) == 1) return address;
  address.v6 = true;
  if (::inet_pton(AF_INET6, bare.c_str(), address.bytes.data()) == 1) return address;
  return std::nullopt;
}

std::vector<Socket> ParseProcNetTcp(std::string_view text, bool v6) {
  std::vector<Socket> sockets;
  for (std::string_view line : Lines(text)) {
    const auto fields = Fields(line);
    if (fields.size() < 10 || fields[0].empty() || fields[0].back() != ':') continue;
    const size_t colon = fields[1].find(':');
    const size_t digits = v6 ? 32 : 8;
    if (colon != digits) continue;
    Socket socket;
    socket.local.v6 = v6;
    bool good = true;
    for (size_t word = 0; word < digits / 8; ++word) {
      good = good && ParseWord(fields[1].substr(word * 8, 8), socket.local.bytes.data() + word * 4);
    }
    const auto port = ToUint(fields[1].substr(colon + 1), 16);
    const auto state = ToUint(fields[3], 16);
    const auto uid = ToUint(fields[7]);
    const auto inode = ToUint(fields[9]);
    if (!good || !port || *port > 65535 || !state || !uid || !inode) continue;
    socket.port = static_cast<uint16_t>(*port);
    socket.state = static_cast<unsigned>(*state);
    socket.uid = static_cast<uint32_t>(*uid);
    socket.inode = *inode;
    if (MappedV4(socket.local)) {
      IpAddress plain;
      std::copy_n(socket.local.bytes.begin() + 12, 4, plain.bytes.begin());
      socket.local = plain;
    }
    sockets.push_back(socket);
  }
  return sockets;
}

namespace {
std::vector<Socket> ReadBoth(const std::string& root, const std::string& name) {
  std::vector<Socket> all = ParseProcNetTcp(ReadTrimmed(root, "/proc/net/" + name).value_or(""), false);
  const auto six = ParseProcNetTcp(ReadTrimmed(root, "/proc/net/" + name + "6").value_or(""), true);
  all.insert(all.end(), six.begin(), six.end());
  return all;
}
}  // namespace

std::vector<Socket> ReadSockets(const std::string& root) {
  return ReadBoth(root, "tcp");
}
std::vector<Socket> ReadUdpSockets(const std::string& root) {
  return ReadBoth(root, "udp");
}

bool DualStack(const std::string& root) {
  return ReadUint(root, "/proc/sys/net/ipv6/bindv6only").value_or(0) == 0;
}

std::vector<int> ReadPids(const std::string& root) {
  std::vector<int> pids;
  for (const std::string& name : Entries(root, "/proc")) {
    const auto pid = ToUint(name);
    if (pid && *pid <= INT_MAX) pids.push_back(static_cast<int>(*pid));
  }
  std::sort(pids.begin(), pids.end());
  return pids;
}

std::map<uint64_t, ProcessName> FindOwners(const std::string& root, const std::set<uint64_t>& inodes) {
  std::map<uint64_t, ProcessName> owners;
  if (inodes.empty()) return owners;
  for (const int pid : ReadPids(root)) {
    const std::string proc = "/proc/" + std::to_string(pid);
    for (const std::string& fd : Entries(root, proc + "/fd")) {
      char target[64];
      const ssize_t size = ::readlink(Below(root, proc + "/fd/" + fd).c_str(), target, sizeof target);
      const std::string_view link(target, size > 0 ? static_cast<size_t>(size) : 0);
      if (link.substr(0, 8) != "socket:[" || link.back() != ']') continue;
      const auto inode = ToUint(link.substr(8, link.size() - 9));
      if (!inode || inodes.count(*inode) == 0 || owners.count(*inode) != 0) continue;
      ProcessName owner;
      owner.pid = pid;
      owner.name = ReadTrimmed(root, proc + "/comm").value_or("?");
      const std::string command = ReadTrimmed(root, proc + "/cmdline").value_or("");
      owner.command = command.substr(0, command.find('\0'));
      struct stat info {};
      if (::stat(Below(root, proc).c_str(), &info) == 0) owner.uid = info.st_uid;
      owners[*inode] = owner;
    }
    if (owners.size() == inodes.size()) break;
  }
  return owners;
}

}  // namespace poolmark::agent
