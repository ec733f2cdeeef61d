#include "common/results/transfers.h"

#include <algorithm>
#include <set>

#include "absl/strings/str_cat.h"

namespace poolmark::results {
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

bool HasRole(const PlanStack& stack, const std::string& machine, std::string_view role) {
  return std::any_of(stack.processes.begin(), stack.processes.end(), [&](const PlanProcess& process) {
    return process.machine == machine && process.role == role;
  });
}

}  // namespace

std::vector<TransferFacts> TransfersOf(
    const PlanStack& stack, const SampleFacts& samples,
    const std::map<std::pair<std::string, std::string>, double>& line_rate_bits) {
  std::vector<TransferFacts> transfers;
  for (const PlanLink& link : stack.links) {
    TransferFacts transfer;
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
    if (HasRole(stack, link.from, "prefill") && HasRole(stack, link.to, "decode")) {
      std::set<std::string> senders;
      for (const PlanProcess& process : stack.processes) {
        if (process.role == "prefill") senders.insert(process.machine);
      }
      if (senders.size() == 1) {
        take(SumOver(samples, kHandedOver, [&](const stats::EngineFacts& engine) {
          return engine.machine == link.to && engine.role == stats::EngineFacts::Role::kDecode;
        }));
      } else {
        why = absl::StrCat("the receiver's counter does not tell ", senders.size(), " senders apart");
      }
    }
    if (HasRole(stack, link.from, "store")) {
      take(SumOver(samples, kRemoteRead,
                   [&](const stats::EngineFacts& engine) { return engine.machine == link.to; }));
    }
    if (HasRole(stack, link.to, "store")) {
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

Measured<double> Part(const Measured<double>& bytes, double share) {
  if (!bytes.has_value()) return bytes;
  return *bytes * share;
}

}  // namespace

double ShareOfSender(const std::vector<TransferFacts>& transfers, const TransferFacts& transfer) {
  double all = 0;
  for (const TransferFacts& other : transfers) {
    if (other.from == transfer.from) all += other.bytes.value_or(0);
  }
  return transfer.bytes.has_value() && all > 0 ? *transfer.bytes / all : 1;
}

std::vector<stats::PathEvidence> PathsOf(const std::vector<TransferFacts>& transfers,
                                         const SampleFacts& samples,
                                         const std::map<std::string, PathCalibration>& calibrations,
                                         const SentBytes& otherwise, bool simulated) {
  std::vector<stats::PathEvidence> paths;
  for (const TransferFacts& transfer : transfers) {
    stats::PathEvidence path;
    path.from = transfer.from;
    path.to = transfer.to;
    path.intended = transfer.path;
    path.expected_bytes = transfer.bytes;
    path.simulated = simulated;
    path.rdma_bytes = NotMeasured{"no network counters of " + transfer.from};
    path.tcp_bytes = path.rdma_bytes;
    if (auto sent = samples.sent_by_device.find(transfer.from); sent != samples.sent_by_device.end()) {
      auto calibration = calibrations.find(transfer.from);
      const PathBytes bytes = calibration != calibrations.end() && !calibration->second.tcp.empty()
                                  ? ReadThrough(calibration->second, sent->second)
                                  : otherwise(transfer.from, sent->second);
      const double share = ShareOfSender(transfers, transfer);
      path.rdma_bytes = Part(bytes.rdma, share);
      path.tcp_bytes = Part(bytes.tcp, share);
    }
    paths.push_back(std::move(path));
  }
  return paths;
}

}  // namespace poolmark::results
