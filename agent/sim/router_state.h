// What the router knows and counts: its workers, whose turn it is, the vllm_router_* page. Thread-safe.
#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "agent/sim/metrics.h"
#include "common/http/client.h"
#include "common/model/router_policy.h"

namespace poolmark::sim {

class WorkerPool {
 public:
  static constexpr size_t kNobody = model::RouterPolicy::kNobody;
  // Errors name the URL or the policy.
  static Result<std::unique_ptr<WorkerPool>> Make(const std::vector<std::string>& urls,
                                                  const std::string& policy);

  // Picks a worker and counts it as active until Release. kNobody when none is healthy.
  size_t Take(const model::RouteRequest& request);
  void Release(size_t worker, bool success);
  void SetHealth(size_t worker, bool healthy);
  bool healthy(size_t worker) const;
  size_t healthy_count() const;
  size_t size() const { return urls_.size(); }
  size_t active() const;
  const http::Url& url(size_t worker) const { return urls_[worker]; }
  const std::string& name(size_t worker) const { return names_[worker]; }
  std::string policy() const { return std::string(policy_->name()); }
  uint64_t decisions(size_t worker) const;
  uint64_t successes(size_t worker) const;
  uint64_t failures(size_t worker) const;
  size_t active(size_t worker) const;

 private:
  WorkerPool() = default;
  struct Counts {
    uint64_t decisions = 0, successes = 0, failures = 0;
  };
  std::vector<http::Url> urls_;
  std::vector<std::string> names_;
  mutable std::mutex mutex_;  // guards the rest
  std::unique_ptr<model::RouterPolicy> policy_;
  std::vector<model::WorkerState> states_;
  std::vector<Counts> counts_;
};

// Counters beside those of the workers.
class RouterCounters {
 public:
  RouterCounters();
  void Request(const std::string& route, bool disaggregated);
  void Error(const std::string& route, const std::string& type);
  void Duration(const std::string& route, double seconds, bool disaggregated);
  void PrefillError(const std::string& worker);
  // `prefill` is nullptr without disaggregation; then `workers` are all.
  std::string Page(const WorkerPool& workers, const WorkerPool* prefill) const;

 private:
  mutable std::mutex mutex_;  // guards the rest
  std::map<std::string, uint64_t> requests_;
  std::map<std::string, uint64_t> pd_requests_;
  std::map<std::pair<std::string, std::string>, uint64_t> errors_;
  std::map<std::string, uint64_t> prefill_errors_;
  Histogram duration_;
  std::map<std::string, std::pair<double, uint64_t>> pd_duration_;
};

}  // namespace poolmark::sim
