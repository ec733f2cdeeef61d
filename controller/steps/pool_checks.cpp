#include "controller/steps/pool_checks.h"

#include <algorithm>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "controller/stacks/rdma.h"

namespace poolmark::controller {
namespace {

std::string Milliseconds(Nanoseconds time) {
  // Two decimals without locale: 12.34 ms.
  const int64_t hundredths = std::chrono::abs(time).count() / 10'000;
  return absl::StrCat(time.count() < 0 ? "-" : "", hundredths / 100, ".", hundredths % 100 < 10 ? "0" : "",
                      hundredths % 100, " ms");
}

v1::CheckResult Start(const char* id, const char* expected) {
  v1::CheckResult result;
  result.set_id(id);
  result.set_expected(expected);
  return result;
}

}  // namespace

v1::CheckResult CheckClocks(const std::map<std::string, MachineView>& machines) {
  v1::CheckResult result = Start("clock", "all clocks within 100 ms of each other (a note above 10 ms)");
  std::vector<std::string> evidence, unknown;
  std::string earliest, latest;
  Nanoseconds low{0}, high{0};
  for (const auto& [name, machine] : machines) {
    if (!machine.clock) {
      unknown.push_back(name);
      continue;
    }
    // Against the controller's clock. Preflight asks again until the uncertainty is small beside the limits.
    const Nanoseconds offset = machine.clock->offset;
    evidence.push_back(
        absl::StrCat(name, " ", Milliseconds(offset), " (+-", Milliseconds(machine.clock->uncertainty), ")"));
    if (earliest.empty() || offset < low) {
      low = offset;
      earliest = name;
    }
    if (latest.empty() || offset > high) {
      high = offset;
      latest = name;
    }
  }
  result.set_evidence(absl::StrCat("against the controller, smallest round trip of eight heartbeats: ",
                                   absl::StrJoin(evidence, ", ")));
  if (!unknown.empty()) {
    result.set_outcome(v1::OUTCOME_NOT_MEASURED);
    result.set_observed(absl::StrCat("no complete clock exchange yet with ", absl::StrJoin(unknown, ", ")));
    result.set_hint("see whether the heartbeats of these machines arrive");
    return result;
  }
  const Nanoseconds spread = high - low;
  result.set_observed(
      absl::StrCat("largest difference ", Milliseconds(spread),
                   earliest == latest ? "" : absl::StrCat(", between ", earliest, " and ", latest)));
  result.set_outcome(spread > kClockLimit  ? v1::OUTCOME_FAIL
                     : spread > kClockNote ? v1::OUTCOME_NOTE
                                           : v1::OUTCOME_PASS);
  if (result.outcome() != v1::OUTCOME_PASS)
    result.set_hint("let all machines follow one time server (chrony, systemd-timesyncd)");
  return result;
}

v1::CheckResult CheckGpuFamily(const std::map<std::string, MachineView>& machines) {
  v1::CheckResult result =
      Start("gpu_family", "one vendor and one GPU model in the whole pool, every GPU of the plan listed");
  std::map<std::string, std::set<std::string>> families;
  std::vector<std::string> evidence, missing;
  size_t gpus = 0;
  for (const auto& [name, machine] : machines) {
    if (!machine.has_engines) continue;
    evidence.push_back(
        absl::StrCat(name, ": ", machine.facts.gpus_size(), " GPUs",
                     machine.facts.gpu_tool().empty() ? "" : absl::StrCat(" by ", machine.facts.gpu_tool())));
    for (const v1::Gpu& gpu : machine.facts.gpus()) {
      families[absl::StrCat(gpu.vendor(), " ", gpu.model())].insert(name);
      ++gpus;
    }
    // Since the plan was made one may have fallen off the bus, or the tool stopped answering.
    std::set<uint32_t> gone = machine.planned_gpus;
    for (const v1::Gpu& gpu : machine.facts.gpus()) gone.erase(gpu.index());
    if (!gone.empty())
      missing.push_back(absl::StrCat("GPU ", absl::StrJoin(gone, ", "), " of ", name, " (it lists ",
                                     machine.facts.gpus_size(), ")"));
  }
  result.set_evidence(absl::StrJoin(evidence, ", "));
  if (families.empty() && missing.empty()) {
    result.set_outcome(v1::OUTCOME_SKIPPED);
    result.set_observed("no machine of this pool has a GPU");
    return result;
  }
  std::vector<std::string> seen;
  for (const auto& [family, names] : families)
    seen.push_back(absl::StrCat(family, " on ", absl::StrJoin(names, ", ")));
  result.set_observed(absl::StrCat(gpus, " GPUs: ", absl::StrJoin(seen, "; ")));
  result.set_outcome(families.size() == 1 && missing.empty() ? v1::OUTCOME_PASS : v1::OUTCOME_FAIL);
  if (families.size() > 1) result.set_hint("make one pool per GPU model");
  if (!missing.empty()) {
    result.set_observed(absl::StrCat("not listed any more: ", absl::StrJoin(missing, "; "), "; ", gpus,
                                     " GPUs", seen.empty() ? "" : ": ", absl::StrJoin(seen, "; ")));
    result.set_hint(
        "see what the vendor's tool says on the machine, and its kernel's log (dmesg): a GPU that fell off "
        "the "
        "bus comes back with a reset or a reboot");
  }
  return result;
}

namespace {

// MTU -> "n0 eth0": who has it.
using ByMtu = std::map<uint32_t, std::vector<std::string>>;

// The devices of a machine that carry its address in the pool; false where none does.
bool AddTcp(const std::string& name, const MachineView& machine, ByMtu* found) {
  bool any = false;
  for (const v1::Nic& nic : machine.facts.nics()) {
    const bool carries =
        std::find(nic.addresses().begin(), nic.addresses().end(), machine.address) != nic.addresses().end() ||
        nic.address() == machine.address;
    // Any address of 127.0.0.0/8 belongs to the loopback device, whichever is configured.
    if (!carries && !(nic.name() == "lo" && machine.address.rfind("127.", 0) == 0)) continue;
    any = true;
    (*found)[nic.mtu()].push_back(absl::StrCat(name, " ", nic.name()));
  }
  return any;
}

// The RDMA cards that the pool uses; `unknown`: those whose MTU the facts do not tell.
void AddRdma(const std::string& name, const MachineView& machine, ByMtu* found,
             std::vector<std::string>* unknown) {
  if (machine.rdma_devices.empty()) return;
  for (const v1::RdmaPort& port : PoolPorts(machine.rdma_devices, machine.facts)) {
    const std::string where =
        absl::StrCat(name, " ", port.device(), port.port() > 1 ? absl::StrCat(":", port.port()) : "",
                     port.netdev().empty() ? "" : absl::StrCat(" (", port.netdev(), ")"));
    const uint32_t mtu = RdmaMtuOf(port, machine.facts);
    if (mtu == 0) {
      unknown->push_back(where);
    } else {
      (*found)[mtu].push_back(where);
    }
  }
}

std::string Listed(const ByMtu& found) {
  std::vector<std::string> seen;
  for (const auto& [mtu, names] : found)
    seen.push_back(absl::StrCat(mtu, " on ", absl::StrJoin(names, ", ")));
  return absl::StrJoin(seen, "; ");
}

}  // namespace

v1::CheckResult CheckMtu(const std::map<std::string, MachineView>& machines) {
  v1::CheckResult result =
      Start("mtu_equal", "one MTU on the devices of the pool's TCP network, and one on its RDMA cards");
  ByMtu tcp, rdma;
  std::vector<std::string> nowhere, unknown, evidence;
  for (const auto& [name, machine] : machines) {
    std::vector<std::string> devices;
    for (const v1::Nic& nic : machine.facts.nics())
      devices.push_back(
          absl::StrCat(nic.name(), " ", nic.mtu(), nic.address().empty() ? "" : " ", nic.address()));
    evidence.push_back(absl::StrCat(name, ": ", absl::StrJoin(devices, ", ")));
    if (!AddTcp(name, machine, &tcp)) nowhere.push_back(absl::StrCat(name, " (", machine.address, ")"));
    AddRdma(name, machine, &rdma, &unknown);
  }
  result.set_evidence(absl::StrJoin(evidence, "; "));
  if (!nowhere.empty()) {
    result.set_outcome(v1::OUTCOME_NOT_MEASURED);
    result.set_observed(
        absl::StrCat("no network device carries the pool's address of ", absl::StrJoin(nowhere, ", ")));
    result.set_hint("correct net.tcp of these machines in the pool file");
    return result;
  }
  result.set_observed(
      absl::StrCat(Listed(tcp), rdma.empty() ? "" : "; RDMA: ", Listed(rdma),
                   unknown.empty() ? "" : "; RDMA, not known: ", absl::StrJoin(unknown, ", ")));
  const bool equal = tcp.size() <= 1 && rdma.size() <= 1;
  result.set_outcome(!equal ? v1::OUTCOME_FAIL : !unknown.empty() ? v1::OUTCOME_NOTE : v1::OUTCOME_PASS);
  if (!equal)
    result.set_hint(absl::StrCat("set the same MTU on all ", tcp.size() > 1 ? "of them" : "RDMA cards",
                                 ", and on the switch ports between"));
  else if (!unknown.empty())
    result.set_hint("install ibv_devinfo on these machines: it tells the MTU of an InfiniBand port");
  return result;
}

std::vector<v1::CheckResult> CheckPool(const std::map<std::string, MachineView>& machines) {
  return {CheckClocks(machines), CheckGpuFamily(machines), CheckMtu(machines)};
}

bool Stops(const v1::CheckResult& result) {
  return result.outcome() != v1::OUTCOME_PASS && result.outcome() != v1::OUTCOME_NOTE &&
         result.outcome() != v1::OUTCOME_SKIPPED;
}

}  // namespace poolmark::controller
