#include "controller/steps/path_evidence.h"

#include <algorithm>
#include <set>

#include "controller/stacks/rdma.h"

namespace poolmark::controller {
namespace {

// By the address alone, for a pair that preflight did not measure.
results::PathBytes ByAddress(const JobRun& run, const std::string& machine,
                             const std::map<std::string, double>& sent) {
  results::PathBytes bytes{NotMeasured{"no RDMA counters on this machine"},
                           NotMeasured{"no counters of the network device that carries the pool's address"}};
  for (const spec::MachineSpec& spec : run.job->pool.machines) {
    if (spec.name != machine) continue;
    const auto facts = run.facts.find(machine);
    std::set<std::string> cards;  // their ports are counted together
    for (const std::string& device :
         PoolDevices(spec.rdma_devices, facts == run.facts.end() ? v1::Facts() : facts->second))
      cards.insert(device.substr(0, device.find(':')));
    for (const std::string& card : cards) {
      auto found = sent.find("rdma:" + card);
      if (found != sent.end()) bytes.rdma = bytes.rdma.value_or(0) + found->second;
    }
  }
  auto address = run.plan->addresses.find(machine);
  auto facts = run.facts.find(machine);
  if (address == run.plan->addresses.end() || facts == run.facts.end()) return bytes;
  for (const v1::Nic& nic : facts->second.nics()) {
    const bool carries =
        nic.address() == address->second ||
        std::find(nic.addresses().begin(), nic.addresses().end(), address->second) != nic.addresses().end();
    auto found = sent.find("net:" + nic.name());
    if (carries && found != sent.end()) bytes.tcp = found->second;
  }
  return bytes;
}

}  // namespace

std::vector<stats::PathEvidence> PathsOf(const JobRun& run,
                                         const std::vector<results::TransferFacts>& transfers,
                                         const results::SampleFacts& samples, bool simulated) {
  auto paths = results::PathsOf(
      transfers, samples, run.calibrations,
      [&](const std::string& machine, const std::map<std::string, double>& sent) {
        return ByAddress(run, machine, sent);
      },
      simulated);
  for (stats::PathEvidence& path : paths) {
    // No card that speaks RDMA: nothing went over it.
    const auto facts = run.facts.find(path.from);
    if (samples.sent_by_device.contains(path.from) && facts != run.facts.end() &&
        facts->second.rdma_ports().empty())
      path.rdma_bytes = 0.0;
  }
  return paths;
}

}  // namespace poolmark::controller
