#include "agent/sim/router_state.h"

namespace poolmark::sim {

Result<std::unique_ptr<WorkerPool>> WorkerPool::Make(const std::vector<std::string>& urls,
                                                     const std::string& policy) {
  std::unique_ptr<WorkerPool> pool(new WorkerPool());
  POOLMARK_ASSIGN_OR_RETURN(pool->policy_, model::MakeRouterPolicy(policy));
  for (const std::string& text : urls) {
    POOLMARK_ASSIGN_OR_RETURN(http::Url url, http::ParseUrl(text));
    if (url.scheme != "http") return InvalidInput(text, "the router speaks http only");
    pool->urls_.push_back(url);
    std::string name = text;
    while (!name.empty() && name.back() == '/') name.pop_back();
    pool->names_.push_back(name);
  }
  pool->states_.resize(urls.size());
  for (model::WorkerState& state : pool->states_) state.healthy = false;  // until it has answered
  pool->counts_.resize(urls.size());
  return pool;
}

size_t WorkerPool::Take(const model::RouteRequest& request) {
  std::lock_guard lock(mutex_);
  size_t worker = policy_->Choose(request, states_);
  if (worker == kNobody) return worker;
  ++states_[worker].active_requests;
  ++counts_[worker].decisions;
  return worker;
}

void WorkerPool::Release(size_t worker, bool success) {
  std::lock_guard lock(mutex_);
  --states_[worker].active_requests;
  ++(success ? counts_[worker].successes : counts_[worker].failures);
}

void WorkerPool::SetHealth(size_t worker, bool healthy) {
  std::lock_guard lock(mutex_);
  states_[worker].healthy = healthy;
}

bool WorkerPool::healthy(size_t worker) const {
  std::lock_guard lock(mutex_);
  return states_[worker].healthy;
}

size_t WorkerPool::healthy_count() const {
  std::lock_guard lock(mutex_);
  size_t count = 0;
  for (const model::WorkerState& state : states_) count += state.healthy;
  return count;
}

size_t WorkerPool::active() const {
  std::lock_guard lock(mutex_);
  size_t count = 0;
  for (const model::WorkerState& state : states_) count += state.active_requests;
  return count;
}

size_t WorkerPool::active(size_t worker) const {
  std::lock_guard lock(mutex_);
  return states_[worker].active_requests;
}

uint64_t WorkerPool::decisions(size_t worker) const {
  std::lock_guard lock(mutex_);
  return counts_[worker].decisions;
}

uint64_t WorkerPool::successes(size_t worker) const {
  std::lock_guard lock(mutex_);
  return counts_[worker].successes;
}

uint64_t WorkerPool::failures(size_t worker) const {
  std::lock_guard lock(mutex_);
  return counts_[worker].failures;
}

RouterCounters::RouterCounters()
    : duration_({0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1,  2,
                 5,     10,    15,    30,   45,   60,   90,  120, 180, 240}) {}

void RouterCounters::Request(const std::string& route, bool disaggregated) {
  std::lock_guard lock(mutex_);
  ++(disaggregated ? pd_requests_ : requests_)[route];
}

void RouterCounters::Error(const std::string& route, const std::string& type) {
  std::lock_guard lock(mutex_);
  ++errors_[{route, type}];
}

void RouterCounters::Duration(const std::string& route, double seconds, bool disaggregated) {
  std::lock_guard lock(mutex_);
  if (!disaggregated) return duration_.Observe(seconds);
  auto& [sum, count] = pd_duration_[route];
  sum += seconds;
  ++count;
}

void RouterCounters::PrefillError(const std::string& worker) {
  std::lock_guard lock(mutex_);
  ++prefill_errors_[worker];
}

// Families appear with their first event, as vllm-router's do; only health is always there.
std::string RouterCounters::Page(const WorkerPool& workers, const WorkerPool* prefill) const {
  PageWriter page;
  auto number = [](uint64_t value) { return static_cast<double>(value); };
  page.Family("poolmark_sim_info", "gauge", "This router is simulated.");
  page.Sample("poolmark_sim_info", {{"simulated", "true"}, {"role", "router"}}, 1);
  std::vector<const WorkerPool*> pools = {&workers};
  if (prefill != nullptr) pools.push_back(prefill);
  auto per_worker = [&](const char* name, const char* type, auto value, bool always) {
    bool begun = false;
    for (const WorkerPool* pool : pools) {
      for (size_t i = 0; i < pool->size(); ++i) {
        uint64_t count = value(*pool, i);
        if (count == 0 && !always) continue;
        if (!begun) page.Family(name, type);
        begun = true;
        page.Sample(name, {{"worker", pool->name(i)}}, number(count));
      }
    }
  };
  auto per_decision = [&](const char* name, auto labels) {
    bool begun = false;
    for (const WorkerPool* pool : pools) {
      for (size_t i = 0; i < pool->size(); ++i) {
        for (const auto& [more, count] : labels(*pool, i)) {
          if (count == 0) continue;
          if (!begun) page.Family(name, "counter");
          begun = true;
          page.Sample(name, more, number(count));
        }
      }
    }
  };
  using Many = std::vector<std::pair<PageWriter::Labels, uint64_t>>;
  per_decision("vllm_router_policy_decisions_total", [](const WorkerPool& pool, size_t i) {
    return Many{{{{"policy", pool.policy()}, {"worker", pool.name(i)}}, pool.decisions(i)}};
  });
  per_decision("vllm_router_cb_outcomes_total", [](const WorkerPool& pool, size_t i) {
    return Many{{{{"worker", pool.name(i)}, {"outcome", "success"}}, pool.successes(i)},
                {{{"worker", pool.name(i)}, {"outcome", "failure"}}, pool.failures(i)}};
  });
  per_worker(
      "vllm_router_processed_requests_total", "counter",
      [](const WorkerPool& pool, size_t i) { return pool.successes(i) + pool.failures(i); }, false);
  per_worker(
      "vllm_router_worker_health", "gauge",
      [](const WorkerPool& pool, size_t i) { return static_cast<uint64_t>(pool.healthy(i)); }, true);
  page.Family("vllm_router_active_workers", "gauge");
  size_t healthy = 0;
  for (const WorkerPool* pool : pools) healthy += pool->healthy_count();
  page.Sample("vllm_router_active_workers", {}, number(healthy));

  std::lock_guard lock(mutex_);
  auto by_route = [&](const char* name, const std::map<std::string, uint64_t>& counts, const char* label) {
    if (counts.empty()) return;
    page.Family(name, "counter");
    for (const auto& [key, count] : counts) page.Sample(name, {{label, key}}, number(count));
  };
  by_route("vllm_router_requests_total", requests_, "route");
  by_route("vllm_router_pd_requests_total", pd_requests_, "route");
  by_route("vllm_router_pd_prefill_errors_total", prefill_errors_, "worker");
  if (!errors_.empty()) {
    page.Family("vllm_router_request_errors_total", "counter");
    for (const auto& [key, count] : errors_) {
      page.Sample("vllm_router_request_errors_total", {{"route", key.first}, {"error_type", key.second}},
                  number(count));
    }
  }
  if (prefill != nullptr) {
    auto pd = [&](const char* name, const WorkerPool& pool) {
      bool begun = false;
      for (size_t i = 0; i < pool.size(); ++i) {
        if (pool.decisions(i) == 0) continue;
        if (!begun) page.Family(name, "counter");
        begun = true;
        page.Sample(name, {{"worker", pool.name(i)}}, number(pool.decisions(i)));
      }
    };
    pd("vllm_router_pd_prefill_requests_total", *prefill);
    pd("vllm_router_pd_decode_requests_total", workers);
    page.Family("vllm_router_pd_active_decode_requests", "gauge");
    for (size_t i = 0; i < workers.size(); ++i) {
      page.Sample("vllm_router_pd_active_decode_requests",
                  {{"worker", workers.name(i)}, {"rank", "aggregate"}}, number(workers.active(i)));
    }
    if (!pd_duration_.empty()) page.Family("vllm_router_pd_request_duration_seconds", "histogram");
    for (const auto& [route, entry] : pd_duration_) {
      page.Sample("vllm_router_pd_request_duration_seconds_sum", {{"route", route}}, entry.first);
      page.Sample("vllm_router_pd_request_duration_seconds_count", {{"route", route}}, number(entry.second));
    }
  }
  if (duration_.count() > 0) {
    page.Family("vllm_router_generate_duration_seconds", "histogram");
    uint64_t below = 0;
    for (size_t i = 0; i < duration_.counts().size(); ++i) {
      below += duration_.counts()[i];
      std::string bound = i < duration_.bounds().size() ? std::to_string(duration_.bounds()[i]) : "+Inf";
      page.Sample("vllm_router_generate_duration_seconds_bucket", {{"le", bound}}, number(below));
    }
    page.Sample("vllm_router_generate_duration_seconds_sum", {}, duration_.sum());
    page.Sample("vllm_router_generate_duration_seconds_count", {}, number(duration_.count()));
  }
  return page.Take();
}

}  // namespace poolmark::sim
