// The MTU of the interfaces that carry this machine's addresses in one of the pool's networks is as expected
// and is carried end to end: pings of full size with "don't fragment" to every peer, so that a switch with a
// small MTU shows. The controller asks once for the TCP network and once for each RDMA card.
#include <algorithm>
#include <map>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "agent/checks/each.h"
#include "agent/facts/network.h"
#include "agent/facts/sockets.h"

namespace poolmark::agent {
namespace {

// Peers are tried side by side, and no longer than this: a large pool that lets no ping pass must still end
// with this check's own words, inside the time that the call for all checks has.
constexpr size_t kAtOnce = 32;
constexpr Nanoseconds kAllPeers = std::chrono::seconds(75);
constexpr Nanoseconds kOnePing = std::chrono::seconds(5);
constexpr uint32_t kSmall = 56;

bool IsV6(const std::string& address) {
  const auto parsed = IpAddress::Parse(address);
  return parsed && parsed->v6;
}

// From the pool's own address, so that it leaves by the pool's interface where routes go by source.
Command Ping(const v1::CheckPlan& plan, const std::string& peer, uint32_t payload) {
  const bool v6 = IsV6(peer);
  Command ping{{"ping", v6 ? "-6" : "-4", "-n", "-q", "-M", "do", "-c", "2", "-i", "0.2", "-W", "1", "-s",
                std::to_string(payload)},
               {}};
  for (const std::string& own : plan.net_addresses()) {
    if (IsV6(own) != v6) continue;
    ping.argv.insert(ping.argv.end(), {"-I", own});
    break;
  }
  ping.argv.push_back(peer);
  return ping;
}

enum class Reach { kFull, kSmallOnly, kSilent, kNoTool, kNotTried };

struct Peer {
  std::string address;
  Reach reach = Reach::kNotTried;
  std::string evidence;
};

// One ping of `payload` to each of `peers`, all at once. Nothing where there is no such tool.
std::vector<std::optional<CommandOutput>> PingAll(Spawner& spawner, const v1::CheckPlan& plan,
                                                  const std::vector<Peer*>& peers, uint32_t payload,
                                                  bool v6_larger) {
  std::vector<std::unique_ptr<Child>> children;
  for (const Peer* peer : peers) {
    const uint32_t less = v6_larger && IsV6(peer->address) ? 20 : 0;
    auto child = spawner.Start(Ping(plan, peer->address, payload > less ? payload - less : 0));
    children.push_back(child.ok() ? *std::move(child) : nullptr);
  }
  const Nanoseconds deadline = RealClock().Steady() + kOnePing;
  std::vector<std::optional<CommandOutput>> outputs;
  for (const auto& child : children) {
    if (child == nullptr) {
      outputs.emplace_back();
      continue;
    }
    const bool ended = child->Wait(std::max(Nanoseconds(0), deadline - RealClock().Steady()));
    outputs.emplace_back(child->Stop(Nanoseconds(0)));
    outputs.back()->timed_out = !ended;
  }
  return outputs;
}

void Try(Spawner& spawner, const v1::CheckPlan& plan, const std::vector<Peer*>& peers, uint32_t mtu) {
  constexpr uint32_t kHeaders = 28;  // IP and ICMP; IP version 6 has 20 more
  std::vector<Peer*> failed;
  auto outputs = PingAll(spawner, plan, peers, mtu > kHeaders ? mtu - kHeaders : 0, true);
  for (size_t i = 0; i < peers.size(); ++i) {
    Peer& peer = *peers[i];
    if (!outputs[i]) {
      peer.reach = Reach::kNoTool;
    } else if (outputs[i]->ok()) {
      peer.reach = Reach::kFull;
      peer.evidence = absl::StrCat(peer.address, ": ", mtu, " bytes, not fragmented: answered");
    } else {
      peer.evidence =
          absl::StrCat(peer.address, ": ", mtu, " bytes: ", Describe(Command{{"ping"}, {}}, *outputs[i]));
      failed.push_back(&peer);
    }
  }
  outputs = PingAll(spawner, plan, failed, kSmall, false);
  for (size_t i = 0; i < failed.size(); ++i)
    failed[i]->reach = outputs[i] && outputs[i]->ok() ? Reach::kSmallOnly : Reach::kSilent;
}

std::vector<Peer> TryPeers(Spawner& spawner, const v1::CheckPlan& plan, uint32_t mtu) {
  std::vector<Peer> peers;
  for (const std::string& address : plan.peers()) peers.push_back({address, Reach::kNotTried, ""});
  const Nanoseconds end = RealClock().Steady() + kAllPeers;
  for (size_t at = 0; at < peers.size() && RealClock().Steady() < end; at += kAtOnce) {
    std::vector<Peer*> some;
    for (size_t i = at; i < std::min(peers.size(), at + kAtOnce); ++i) some.push_back(&peers[i]);
    Try(spawner, plan, some, mtu);
  }
  return peers;
}

// Interfaces of this network on this machine, with their MTU.
std::map<std::string, uint32_t> PoolInterfaces(const v1::CheckPlan& plan, const CheckContext& context) {
  std::map<std::string, uint32_t> interfaces;
  const auto nics =
      ReadNics(context.facts.root, context.facts.addresses ? context.facts.addresses() : ReadAddresses());
  const auto has = [&](const NicInfo& nic) {
    return std::any_of(
        plan.net_addresses().begin(), plan.net_addresses().end(), [&](const std::string& wanted) {
          return std::find(nic.addresses.begin(), nic.addresses.end(), wanted) != nic.addresses.end();
        });
  };
  for (const NicInfo& nic : nics) {
    if (has(nic)) interfaces[nic.name] = nic.mtu;
  }
  return interfaces;
}

}  // namespace

Finding CheckMtu(const v1::CheckPlan& plan, const CheckContext& context) {
  if (plan.loopback_only()) return Skipped("the whole pool lives on the loopback interface");
  Finding finding;
  finding.expected = plan.has_mtu() ? absl::StrCat("MTU ", plan.mtu(),
                                                   " on every interface of the pool, carried to every peer")
                                    : "one MTU on every interface of the pool, carried to every peer";
  const auto interfaces = PoolInterfaces(plan, context);
  if (interfaces.empty()) {
    finding.outcome = v1::OUTCOME_FAIL;
    finding.observed =
        absl::StrCat("no interface of this machine has ", absl::StrJoin(plan.net_addresses(), " or "));
    finding.hint = "give this machine's own address in the pool file";
    return finding;
  }
  std::vector<std::string> listed;
  std::set<uint32_t> mtus;
  for (const auto& [name, mtu] : interfaces) {
    listed.push_back(absl::StrCat(name, " ", mtu));
    mtus.insert(mtu);
  }
  finding.observed = Shorten(listed, 16);
  const uint32_t wanted = plan.has_mtu() ? plan.mtu() : *mtus.begin();
  if (mtus.size() > 1 || *mtus.begin() != wanted) {
    finding.outcome = v1::OUTCOME_FAIL;
    finding.hint = absl::StrCat("set one MTU everywhere: ip link set dev <interface> mtu ",
                                std::max(wanted, *mtus.rbegin()));
    return finding;
  }
  if (plan.peers().empty() || context.facts.spawner == nullptr) return finding;
  std::vector<std::string> small, silent, untried;
  bool no_tool = false;
  for (const Peer& peer : TryPeers(*context.facts.spawner, plan, wanted)) {
    if (!peer.evidence.empty()) AddLine(&finding.evidence, peer.evidence);
    if (peer.reach == Reach::kSmallOnly) small.push_back(peer.address);
    if (peer.reach == Reach::kSilent) silent.push_back(peer.address);
    if (peer.reach == Reach::kNotTried) untried.push_back(peer.address);
    no_tool |= peer.reach == Reach::kNoTool;
  }
  if (!small.empty()) {
    finding.outcome = v1::OUTCOME_FAIL;
    absl::StrAppend(&finding.observed, "; packets of that size do not reach ", Shorten(small));
    finding.hint =
        "a switch or the peer has a smaller MTU: raise it on every hop, or lower it on every machine";
  } else if (no_tool) {
    finding.outcome = v1::OUTCOME_NOT_MEASURED;
    absl::StrAppend(&finding.observed, "; not tried end to end: no ping on this machine");
    finding.hint = "install iputils-ping";
  } else if (!silent.empty() || !untried.empty()) {
    finding.outcome = v1::OUTCOME_NOT_MEASURED;
    if (!silent.empty()) absl::StrAppend(&finding.observed, "; no answer to any ping from ", Shorten(silent));
    if (!untried.empty()) absl::StrAppend(&finding.observed, "; no time was left to try ", Shorten(untried));
    finding.hint = "let ICMP echo pass between the machines of the pool";
  } else {
    absl::StrAppend(&finding.observed, "; carried to ", plan.peers_size(),
                    plan.peers_size() == 1 ? " peer" : " peers");
  }
  return finding;
}

}  // namespace poolmark::agent
