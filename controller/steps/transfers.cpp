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
  std::set<std::string> series;
  std::string missing;  // who should have counted and could not be read: the rest would look like the whole
};

// Why what this engine and its cache server counted is not all that they moved; "": it is.
std::string WhyNotAll(const SampleFacts& samples, const stats::EngineFacts& engine) {
  if (!engine.unreadable.empty()) return absl::StrCat(engine.process, ": ", engine.unreadable);
  if (engine.reset) return absl::StrCat(engine.process, ": a counter went backwards");
  const auto cache = samples.unread_caches.find(engine.process);
  return cache == samples.unread_caches.end() ? "" : cache->second;
}

template <class Names, class Wanted>
Sum SumOver(const SampleFacts& samples, const Names& names, Wanted wanted) {
  Sum sum;
  for (const stats::EngineFacts& engine : samples.engines) {
    if (!wanted(engine)) continue;
    if (sum.missing.empty()) sum.missing = WhyNotAll(samples, engine);
    for (const char* name : names) {
      for (const stats::Deltas* deltas : {&engine.deltas, &engine.cache}) {
        auto found = deltas->find(name);
        if (found == deltas->end()) continue;
        sum.bytes += found->second;
        sum.series.insert(name);
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
    std::string why = "no counter of these engines tells it", missing;
    auto take = [&](const Sum& sum) {
      if (missing.empty()) missing = sum.missing;
      bytes += sum.bytes;
      for (const std::string& name : sum.series)
        absl::StrAppend(&transfer.series, transfer.series.empty() ? "" : ", ", name);
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
    if (!missing.empty()) {
      transfer.bytes = NotMeasured{missing};
    } else if (transfer.series.empty()) {
      transfer.bytes = NotMeasured{why};
    } else {
      transfer.bytes = bytes;
    }
    transfers.push_back(std::move(transfer));
  }
  return transfers;
}

namespace {

// By the address alone, for a pair that preflight did not measure.
PathBytes ByAddress(const JobRun& run, const std::string& machine,
                    const std::map<std::string, double>& sent) {
  PathBytes bytes{NotMeasured{"no RDMA counters on this machine"},
                  NotMeasured{"no counters of the network device that carries the pool's address"}};
  for (const spec::MachineSpec& spec : run.job->pool.machines) {
    if (spec.name != machine) continue;
    for (const std::string& device : spec.rdma_devices) {
      auto found = sent.find("rdma:" + device.substr(0, device.find(':')));
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

Measured<double> Part(const Measured<double>& bytes, double share) {
  if (!bytes.has_value()) return bytes;
  return *bytes * share;
}

}  // namespace

std::vector<stats::PathEvidence> PathsOf(const JobRun& run,
                                         const std::vector<results::TransferFacts>& transfers,
                                         const SampleFacts& samples, bool simulated) {
  std::vector<stats::PathEvidence> paths;
  for (const results::TransferFacts& transfer : transfers) {
    stats::PathEvidence path;
    path.from = transfer.from;
    path.to = transfer.to;
    path.intended = transfer.path;
    path.expected_bytes = transfer.bytes;
    path.simulated = simulated;
    path.rdma_bytes = NotMeasured{"no network counters of " + transfer.from};
    path.tcp_bytes = path.rdma_bytes;
    if (auto sent = samples.sent_by_device.find(transfer.from); sent != samples.sent_by_device.end()) {
      auto calibration = run.calibrations.find(transfer.from);
      const PathBytes bytes = calibration != run.calibrations.end() && !calibration->second.tcp.empty()
                                  ? ReadThrough(calibration->second, sent->second)
                                  : ByAddress(run, transfer.from, sent->second);
      // The sender's cards count what went to all its peers: each pair gets the part that its KV is of all
      // KV.
      double all = 0;
      for (const results::TransferFacts& other : transfers) {
        if (other.from == transfer.from) all += other.bytes.value_or(0);
      }
      const double share = transfer.bytes.has_value() && all > 0 ? *transfer.bytes / all : 1;
      path.rdma_bytes = Part(bytes.rdma, share);
      // No card that speaks RDMA: nothing went over it.
      auto facts = run.facts.find(transfer.from);
      if (facts != run.facts.end() && facts->second.rdma_ports().empty()) path.rdma_bytes = 0.0;
      path.tcp_bytes = Part(bytes.tcp, share);
    }
    paths.push_back(std::move(path));
  }
  return paths;
}

}  // namespace poolmark::controller
