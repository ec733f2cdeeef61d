// Ports: those of the plan are free before the launch, and none of the pool can be reached from the internet.
// Both go by the socket table and its owners, never by what a program was told to bind.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "agent/checks/each.h"
#include "agent/facts/network.h"
#include "agent/facts/sockets.h"
#include "agent/facts/text.h"

namespace poolmark::agent {
namespace {

// Can a server bind it as engines do, with SO_REUSEADDR? 0 or errno. The socket is closed at once.
int TryBind(const IpAddress& address, uint16_t port) {
  const int fd = ::socket(address.v6 ? AF_INET6 : AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return address.v6 && errno == EAFNOSUPPORT ? 0 : errno;
  const int on = 1;
  ::setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  sockaddr_storage storage{};
  socklen_t size = 0;
  if (address.v6) {
    ::setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof on);
    auto* six = reinterpret_cast<sockaddr_in6*>(&storage);
    six->sin6_family = AF_INET6;
    six->sin6_port = htons(port);
    std::memcpy(&six->sin6_addr, address.bytes.data(), 16);
    size = sizeof *six;
  } else {
    auto* four = reinterpret_cast<sockaddr_in*>(&storage);
    four->sin_family = AF_INET;
    four->sin_port = htons(port);
    std::memcpy(&four->sin_addr, address.bytes.data(), 4);
    size = sizeof *four;
  }
  int error = 0;
  // listening is where a second listener with SO_REUSEADDR shows
  if (::bind(fd, reinterpret_cast<sockaddr*>(&storage), size) != 0 || ::listen(fd, 1) != 0) error = errno;
  ::close(fd);
  return error;
}

std::string StateName(const Socket& socket) {
  if (socket.listening()) return "listening";
  if (socket.time_wait()) return "in TIME_WAIT";
  return socket.state == 1 ? "connected" : absl::StrCat("state ", socket.state);
}

std::string OwnerText(const Socket& socket, const std::map<uint64_t, ProcessName>& owners) {
  const auto owner = owners.find(socket.inode);
  if (owner == owners.end()) return absl::StrCat("uid ", socket.uid);
  return absl::StrCat("pid ", owner->second.pid, " ", owner->second.name);
}

}  // namespace

Finding CheckPortsFree(const v1::CheckPlan& plan, const CheckContext& context) {
  if (plan.ports().empty()) return Skipped("the plan binds no port here");
  Finding finding;
  finding.expected = absl::StrCat(plan.ports_size(), " ports of the plan are free");
  const std::set<uint32_t> wanted(plan.ports().begin(), plan.ports().end());
  std::vector<Socket> sockets;
  std::set<uint64_t> inodes;
  for (const Socket& socket : ReadSockets(context.facts.root)) {
    if (wanted.count(socket.port) == 0) continue;
    sockets.push_back(socket);
    inodes.insert(socket.inode);
  }
  inodes.erase(0);
  const auto owners = FindOwners(context.facts.root, inodes);
  std::set<uint32_t> taken;
  std::vector<std::string> who, waiting;
  for (const Socket& socket : sockets) {
    const std::string text = absl::StrCat(socket.local.ToString(), ":", socket.port, " ", StateName(socket));
    if (socket.time_wait()) {
      waiting.push_back(text);
      continue;
    }
    // a connection that merely uses the number matters only when it blocks the bind test below
    AddLine(&finding.evidence, absl::StrCat(text, ", ", OwnerText(socket, owners)));
    if (!socket.listening()) continue;
    if (taken.insert(socket.port).second)
      who.push_back(absl::StrCat("port ", socket.port, " is held by ", OwnerText(socket, owners)));
  }
  if (context.facts.root == "/") {
    std::vector<IpAddress> addresses;
    for (const std::string& text : plan.net_addresses()) {
      if (const auto address = IpAddress::Parse(text)) addresses.push_back(*address);
    }
    addresses.push_back(*IpAddress::Parse("127.0.0.1"));
    for (const uint32_t port : wanted) {
      if (taken.count(port) != 0 || port == 0 || port > 65535) continue;
      for (const IpAddress& address : addresses) {
        const int error = TryBind(address, static_cast<uint16_t>(port));
        if (error == 0 || !taken.insert(port).second) continue;
        who.push_back(absl::StrCat("port ", port, " cannot be bound on ", address.ToString(), ": ",
                                   std::strerror(error)));
      }
    }
  }
  finding.observed = absl::StrCat("free: ", wanted.size() - taken.size(), " of ", wanted.size());
  if (!waiting.empty()) AddLine(&finding.evidence, absl::StrCat("old connections: ", Shorten(waiting)));
  if (!who.empty()) {
    finding.outcome = v1::OUTCOME_FAIL;
    finding.observed = Shorten(who);
    finding.hint = "stop that process or give the pool other ports";
  }
  return finding;
}

namespace {

// Why a bound socket can be reached from where it must not; empty when it cannot.
std::string Exposure(const Socket& socket, bool loopback_only,
                     const std::vector<std::string>& public_addresses, bool dual_stack, bool internet) {
  if (socket.local.IsLoopback()) return "";
  if (loopback_only) {
    return socket.local.IsWildcard() ? "bound to every address, the pool lives on the loopback interface"
                                     : "not on the loopback interface, where the pool lives";
  }
  if (socket.local.IsPublic()) return "bound to a public address";
  if (!socket.local.IsWildcard()) return "";
  if (internet)
    return "bound to every address of a machine that the internet reaches (public: true in the pool file)";
  for (const std::string& text : public_addresses) {
    const auto address = IpAddress::Parse(text);
    if (address && (address->v6 == socket.local.v6 || (socket.local.v6 && dual_stack))) {
      return absl::StrCat("bound to every address, among them the public ", text);
    }
  }
  return "";
}

}  // namespace

Finding CheckPublicPorts(const v1::CheckPlan& plan, const CheckContext& context) {
  Finding finding;
  finding.expected = plan.loopback_only() ? "every port of the pool is on the loopback interface"
                                          : "no port of the pool can be reached from the internet";
  std::vector<std::string> public_addresses;
  const auto addresses = context.facts.addresses ? context.facts.addresses() : ReadAddresses();
  for (const auto& [name, list] : addresses) {
    for (const std::string& text : list) {
      const auto address = IpAddress::Parse(text);
      if (address && address->IsPublic()) public_addresses.push_back(text);
    }
  }
  const std::set<uint32_t> ports(plan.ports().begin(), plan.ports().end());
  const std::set<uint32_t> relays(plan.relay_ports().begin(), plan.relay_ports().end());
  const std::set<int> pids = context.job_pids ? context.job_pids() : std::set<int>{};
  std::vector<Socket> sockets;
  for (const Socket& socket : ReadSockets(context.facts.root)) {
    if (socket.listening()) sockets.push_back(socket);
  }
  const size_t tcp = sockets.size();
  if (!pids.empty()) {
    const auto udp = ReadUdpSockets(context.facts.root);
    sockets.insert(sockets.end(), udp.begin(), udp.end());
  }
  std::set<uint64_t> inodes;
  for (const Socket& socket : sockets) inodes.insert(socket.inode);
  const auto owners = FindOwners(context.facts.root, inodes);
  const bool dual_stack = DualStack(context.facts.root);
  std::vector<std::string> exposed;
  int of_pool = 0;
  for (size_t i = 0; i < sockets.size(); ++i) {
    const Socket& socket = sockets[i];
    const auto owner = owners.find(socket.inode);
    const bool ours = owner != owners.end() && pids.count(owner->second.pid) != 0;
    const bool planned = i < tcp && ports.count(socket.port) != 0;
    if (!ours && !planned) continue;
    ++of_pool;
    const std::string text =
        absl::StrCat(i < tcp ? "tcp " : "udp ", socket.local.v6 ? "[" : "", socket.local.ToString(),
                     socket.local.v6 ? "]" : "", ":", socket.port, ", ", OwnerText(socket, owners));
    // The link to a public store is meant to be reached: TLS 1.3 that accepts only this job's keys.
    if (i < tcp && relays.count(socket.port) != 0) {
      AddLine(&finding.evidence, absl::StrCat(text, ": the TLS relay of the store"));
      continue;
    }
    const std::string why =
        Exposure(socket, plan.loopback_only(), public_addresses, dual_stack, plan.internet());
    AddLine(&finding.evidence, why.empty() ? text : absl::StrCat(text, ": ", why));
    if (!why.empty())
      exposed.push_back(
          absl::StrCat(text, " is ", why, planned ? "" : " (a side channel: not a port of the plan)"));
  }
  AddLine(&finding.evidence, public_addresses.empty()
                                 ? "this machine has no public address"
                                 : absl::StrCat("public addresses: ", Shorten(public_addresses)));
  if (exposed.empty()) {
    finding.observed = absl::StrCat(
        of_pool == 0 ? "no port of the pool is bound yet"
                     : absl::StrCat(of_pool, " sockets of the pool, none reachable"),
        public_addresses.empty() && !plan.internet() ? "; no public address on this machine" : "");
    return finding;
  }
  finding.outcome = v1::OUTCOME_FAIL;
  finding.observed = Shorten(exposed);
  finding.hint = "bind to the pool's private address or to 127.0.0.1; a firewall alone is not proof";
  return finding;
}

}  // namespace poolmark::agent
