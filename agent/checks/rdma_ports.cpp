// The RDMA ports that the pool uses are active.
#include "absl/strings/str_cat.h"
#include "agent/checks/each.h"
#include "agent/facts/network.h"
#include "agent/facts/text.h"

namespace poolmark::agent {

Finding CheckRdmaPorts(const v1::CheckPlan& plan, const CheckContext& context) {
  if (plan.rdma_devices().empty()) return Skipped("the plan moves no KV over RDMA here");
  Finding finding;
  std::vector<std::string> wanted(plan.rdma_devices().begin(), plan.rdma_devices().end()), good, bad;
  finding.expected = absl::StrCat("active: ", Shorten(wanted, 16));
  const auto ports = ReadRdmaPorts(context.facts.root);
  for (const RdmaPortInfo& port : ports) {
    AddLine(&finding.evidence,
            absl::StrCat(port.device, " port ", port.port, ": ", port.state, ", ", port.physical_state, ", ",
                         port.link_layer, ", ", port.rate, ", netdev ", port.netdev));
  }
  for (const std::string& device : wanted) {
    // "mlx5_0" or "mlx5_0:1"
    const size_t colon = device.find(':');
    const std::string name = device.substr(0, colon);
    const auto number = colon == std::string::npos ? std::nullopt : ToUint(device.substr(colon + 1));
    std::string state = "no such device";
    std::string rate;
    bool active = false;
    for (const RdmaPortInfo& port : ports) {
      if (port.device != name || (number && port.port != *number)) continue;
      if (active) continue;
      state = absl::StrCat(port.state, ", ", port.physical_state);
      rate = port.rate;
      active = port.state == "ACTIVE";
    }
    (active ? good : bad).push_back(absl::StrCat(device, " (", active ? rate : state, ")"));
  }
  finding.observed = absl::StrCat("active: ", good.empty() ? "none" : Shorten(good, 16));
  if (!bad.empty()) {
    finding.outcome = v1::OUTCOME_FAIL;
    finding.observed = absl::StrCat("not active: ", Shorten(bad, 16));
    finding.hint =
        ports.empty()
            ? "this machine shows no RDMA device in /sys/class/infiniband: load the driver or use a TCP stack"
            : "check cable, switch port and 'ibstat'; or name another device in the pool file";
  }
  return finding;
}

}  // namespace poolmark::agent
