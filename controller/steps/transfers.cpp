#include "controller/steps/transfers.h"

#include <algorithm>
#include <set>

#include "absl/strings/str_cat.h"
#include "controller/steps/counters.h"

namespace poolmark::controller {
namespace {

// Bytes that a decode engine received from prefill engines.
constexpr const char* kHandedOver[] = {"vllm:nixl_bytes_transferred_sum",
                                       "vllm:mooncake_bytes_transferred_sum"};
// Bytes that an engine read from, and wrote to, the shared store.
constexpr const char* kRemoteRead[] = {"poolmark_sim_tier_bytes_total{tier=remote,direction=read}",
                                       "lmcache:num_remote_read_bytes_total"};
constexpr const char* kRemoteWritten[] = {"poolmark_sim_tier_bytes_total{tier=remote,direction=write}",
                                          "lmcache:num_remote_write_bytes_total"};

struct Sum {
  double bytes = 0;
  std::string series;
  bool found() const { return !series.empty(); }
};

template <class Names, class Wanted>
Sum SumOver(const SampleFacts& samples, const Names& names, Wanted wanted) {
  Sum sum;
  for (const stats::EngineFacts& engine : samples.engines) {
    if (!wanted(engine)) continue;
    for (const char* name : names) {
      for (const stats::Deltas* deltas : {&engine.deltas, &engine.cache}) {
        auto found = deltas->find(name);
        if (found == deltas->end()) continue;
        sum.bytes += found->second;
        sum.series = name;
      }
    }
  }
  return sum;
}

bool HasRole(const StackPlan& stack, const std::string& machine, spec::Role role) {
  return std::any_of(stack.processes.begin(), stack.processes.end(), [&](const PlannedProcess& process) {
    return process.machine == machine && process.role == role;
  });
}

}  // namespace

std::vector<results::TransferFacts> TransfersOf(
    const StackPlan& stack, const SampleFacts& samples,
    const std::map<std::pair<std::string, std::string>, double>& line_rate_bits) {
  std::vector<results::TransferFacts> transfers;
  for (const KvLink& link : stack.links) {
    results::TransferFacts transfer;
    transfer.from = link.from;
    transfer.to = link.to;
    transfer.path = link.path;
    auto rate = line_rate_bits.find({link.from, link.to});
    if (rate != line_rate_bits.end()) {
      transfer.line_bits_per_second = rate->second;
    } else {
      transfer.line_bits_per_second = NotMeasured{"preflight did not measure this pair"};
    }
    double bytes = 0;
    std::string why = "no counter of these engines tells it";
    auto take = [&](const Sum& sum) {
      if (!sum.found()) return;
      bytes += sum.bytes;
      transfer.series =
          transfer.series.empty() ? sum.series : absl::StrCat(transfer.series, ", ", sum.series);
    };
    if (HasRole(stack, link.from, spec::Role::kPrefill) && HasRole(stack, link.to, spec::Role::kDecode)) {
      std::set<std::string> senders;
      for (const PlannedProcess& process : stack.processes) {
        if (process.role == spec::Role::kPrefill) senders.insert(process.machine);
      }
      if (senders.size() == 1) {
        take(SumOver(samples, kHandedOver, [&](const stats::EngineFacts& engine) {
          return engine.machine == link.to && engine.role == stats::EngineFacts::Role::kDecode;
        }));
      } else {
        why = absl::StrCat("the receiver's counter does not tell ", senders.size(), " senders apart");
      }
    }
    if (HasRole(stack, link.from, spec::Role::kStore)) {
      take(SumOver(samples, kRemoteRead,
                   [&](const stats::EngineFacts& engine) { return engine.machine == link.to; }));
    }
    if (HasRole(stack, link.to, spec::Role::kStore)) {
      take(SumOver(samples, kRemoteWritten,
                   [&](const stats::EngineFacts& engine) { return engine.machine == link.from; }));
    }
    if (transfer.series.empty()) {
      transfer.bytes = NotMeasured{why};
    } else {
      transfer.bytes = bytes;
    }
    transfers.push_back(std::move(transfer));
  }
  return transfers;
}

stats::PathEvidence PathOf(const JobRun& run, const results::TransferFacts& transfer,
                           const SampleFacts& samples, bool simulated) {
  stats::PathEvidence path;
  path.from = transfer.from;
  path.to = transfer.to;
  path.intended = transfer.path;
  path.expected_bytes = transfer.bytes.value_or(0);
  path.simulated = simulated;
  path.rdma_bytes = NotMeasured{"no RDMA counters on this machine"};
  path.tcp_bytes = NotMeasured{"no counters of the network device that carries the pool's address"};
  auto sent = samples.sent_by_device.find(transfer.from);
  if (sent == samples.sent_by_device.end()) return path;
  for (const spec::MachineSpec& machine : run.job->pool.machines) {
    if (machine.name != transfer.from) continue;
    for (const std::string& device : machine.rdma_devices) {
      auto bytes = sent->second.find("rdma:" + device);
      if (bytes != sent->second.end()) path.rdma_bytes = path.rdma_bytes.value_or(0) + bytes->second;
    }
  }
  auto address = run.plan->addresses.find(transfer.from);
  auto facts = run.facts.find(transfer.from);
  if (address == run.plan->addresses.end() || facts == run.facts.end()) return path;
  for (const v1::Nic& nic : facts->second.nics()) {
    const bool carries =
        nic.address() == address->second ||
        std::find(nic.addresses().begin(), nic.addresses().end(), address->second) != nic.addresses().end();
    auto bytes = sent->second.find("net:" + nic.name());
    if (carries && bytes != sent->second.end()) path.tcp_bytes = bytes->second;
  }
  return path;
}

}  // namespace poolmark::controller
