// The MTU of the pool's interfaces is as expected and is carried end to end: pings of full size with "don't
// fragment" to every peer, so that a switch with a small MTU shows.
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

Command Ping(const std::string& peer, bool v6, uint32_t payload) {
  return {{"ping", v6 ? "-6" : "-4", "-n", "-q", "-M", "do", "-c", "2", "-i", "0.2", "-W", "1", "-s",
           std::to_string(payload), peer},
          {}};
}

enum class Reach { kFull, kSmallOnly, kSilent, kNoTool };

Reach Try(Spawner& spawner, const std::string& peer, uint32_t mtu, std::string* evidence) {
  const auto address = IpAddress::Parse(peer);
  const bool v6 = address && address->v6;
  const uint32_t headers = v6 ? 48 : 28;  // IP and ICMP
  const Command full = Ping(peer, v6, mtu > headers ? mtu - headers : 0);
  const auto output = RunCommand(spawner, full, std::chrono::seconds(5));
  if (!output.ok()) return Reach::kNoTool;
  if (output->ok()) {
    AddLine(evidence, absl::StrCat(peer, ": ", mtu, " bytes, not fragmented: answered"));
    return Reach::kFull;
  }
  AddLine(evidence, absl::StrCat(peer, ": ", mtu, " bytes: ", Describe(full, *output)));
  const Command small = Ping(peer, v6, 56);
  const auto retry = RunCommand(spawner, small, std::chrono::seconds(5));
  return retry.ok() && retry->ok() ? Reach::kSmallOnly : Reach::kSilent;
}

// Interfaces of the pool on this machine, with their MTU.
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
  std::set<std::string> netdevs;
  for (const RdmaPortInfo& port : ReadRdmaPorts(context.facts.root)) {
    for (const std::string& device : plan.rdma_devices()) {
      if (device.substr(0, device.find(':')) == port.device && port.link_layer == "Ethernet")
        netdevs.insert(port.netdev);
    }
  }
  for (const NicInfo& nic : nics) {
    if (netdevs.count(nic.name) != 0) interfaces[nic.name] = nic.mtu;
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
  std::vector<std::string> small, silent;
  bool no_tool = false;
  for (const std::string& peer : plan.peers()) {
    const Reach reach = Try(*context.facts.spawner, peer, wanted, &finding.evidence);
    if (reach == Reach::kSmallOnly) small.push_back(peer);
    if (reach == Reach::kSilent) silent.push_back(peer);
    no_tool |= reach == Reach::kNoTool;
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
  } else if (!silent.empty()) {
    finding.outcome = v1::OUTCOME_NOT_MEASURED;
    absl::StrAppend(&finding.observed, "; no answer to any ping from ", Shorten(silent));
    finding.hint = "let ICMP echo pass between the machines of the pool";
  } else {
    absl::StrAppend(&finding.observed, "; carried to ", plan.peers_size(),
                    plan.peers_size() == 1 ? " peer" : " peers");
  }
  return finding;
}

}  // namespace poolmark::agent
