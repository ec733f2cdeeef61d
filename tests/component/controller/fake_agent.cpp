// Its pool, leases, facts, checks and line rates.
#include "tests/component/controller/fake_agent.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace poolmark::test {

FakePool::FakePool(const std::vector<std::string>& machines) {
  for (const std::string& machine : machines) agents_[machine] = std::make_shared<FakeAgent>(this, machine);
}
controller::LinkFactory FakePool::Factory() {
  return [this](const std::string& machine, const std::string&) -> controller::AgentLinkPtr {
    auto found = agents_.find(machine);
    return found == agents_.end() ? nullptr : found->second;
  };
}
void FakePool::SetHook(Hook hook) {
  std::lock_guard lock(mutex_);
  hook_ = std::move(hook);
}
Status FakePool::CallHook(const std::string& machine, const std::string& call, std::stop_token stop) {
  Hook hook;
  {
    std::lock_guard lock(mutex_);
    hook = hook_;
  }
  return hook ? hook(machine, call, std::move(stop)) : absl::OkStatus();
}

v1::Facts FakeAgent::Facts() {
  v1::Facts facts;
  facts.set_hostname("fake");
  facts.set_boot_id("boot-1");
  facts.set_cpus(2);
  facts.set_memory_bytes(8ull << 30);
  facts.set_memory_available_bytes(8ull << 30);
  facts.set_work_dir(kWorkDir);
  facts.set_work_dir_free_bytes(100ull << 30);
  for (const char* name : {"poolmark", "poolmark-sim", "redis-server"}) facts.add_executables(name);
  v1::Nic* nic = facts.add_nics();
  nic->set_name("lo");
  nic->set_address("127.0.0.1");
  nic->add_addresses("127.0.0.1");
  nic->set_mtu(65536);
  return facts;
}

void FakeAgent::SetFacts(v1::Facts facts) {
  std::lock_guard lock(mutex_);
  facts_ = std::move(facts);
}

Status FakeAgent::Enter(const char* call, const v1::LeaseId& lease, std::stop_token stop) {
  POOLMARK_RETURN_IF_ERROR(pool_->CallHook(machine_, call, stop));
  if (stop.stop_requested()) return absl::CancelledError("stopped");
  std::lock_guard lock(mutex_);
  if (lease.epoch() <= ended_epoch_ && lease.job_id() == ended_job_ && std::string(call) != "Teardown") {
    return ToStatus(Error{absl::StatusCode::kFailedPrecondition,
                          std::string(call) == "AcquireLease" ? "lease_ended" : "no_lease", machine_,
                          "its guard died", ""});
  }
  if (lease.epoch() < epoch_ || (lease.epoch() == epoch_ && !job_.empty() && lease.job_id() != job_)) {
    return ToStatus(
        Error{absl::StatusCode::kFailedPrecondition, "stale_epoch", machine_, "a lower epoch", ""});
  }
  return absl::OkStatus();
}

Result<v1::AcquireLeaseResponse> FakeAgent::AcquireLease(const v1::AcquireLeaseRequest& request,
                                                         std::stop_token stop) {
  POOLMARK_RETURN_IF_ERROR(Enter("AcquireLease", request.lease(), stop));
  std::lock_guard lock(mutex_);
  if (!job_.empty() && job_ != request.lease().job_id()) {
    return ToStatus(Error{absl::StatusCode::kFailedPrecondition, "leased", machine_,
                          absl::StrCat("job ", job_, " holds it"), ""});
  }
  epoch_ = request.lease().epoch();
  job_ = request.lease().job_id();
  v1::AcquireLeaseResponse response;
  response.set_work_dir(absl::StrCat(kWorkDir, "/", job_));
  return response;
}

Result<v1::GetFactsResponse> FakeAgent::GetFacts(const v1::GetFactsRequest&, std::stop_token stop) {
  POOLMARK_RETURN_IF_ERROR(pool_->CallHook(machine_, "GetFacts", stop));
  v1::GetFactsResponse response;
  std::lock_guard lock(mutex_);
  *response.mutable_facts() = facts_;
  return response;
}

Status FakeAgent::RunChecks(const v1::RunChecksRequest& request, std::stop_token stop,
                            const controller::OnMessage<v1::RunChecksResponse>& on_message) {
  POOLMARK_RETURN_IF_ERROR(Enter("RunChecks", request.lease(), stop));
  for (const char* id : {"disk_space", "ports_free", "public_ports"}) {
    const auto& only = request.only();
    if (!only.empty() && std::find(only.begin(), only.end(), id) == only.end()) continue;
    v1::RunChecksResponse response;
    response.mutable_result()->set_id(id);
    response.mutable_result()->set_outcome(pool_->failing_checks.contains(id) ? v1::OUTCOME_FAIL
                                                                              : v1::OUTCOME_PASS);
    response.mutable_result()->set_expected("room");
    response.mutable_result()->set_observed(pool_->failing_checks.contains(id) ? "none" : "enough");
    if (!on_message(response)) return absl::OkStatus();
  }
  if (pool_->Floods("RunChecks", machine_)) {
    v1::RunChecksResponse response;
    response.mutable_result()->set_id("once_more");
    response.mutable_result()->set_outcome(v1::OUTCOME_PASS);
    while (on_message(response)) {
    }
    return absl::OkStatus();
  }
  // Of one network only, as preflight asks for each RDMA card: which, is in what it says.
  if (request.only_size() == 1 && request.only(0) == "mtu") {
    const std::string address = request.plan().net_addresses(0);
    v1::RunChecksResponse response;
    v1::CheckResult& result = *response.mutable_result();
    result.set_id("mtu");
    const bool fails = pool_->failing_checks.contains("mtu " + address);
    result.set_outcome(fails ? v1::OUTCOME_FAIL : v1::OUTCOME_PASS);
    result.set_expected("one MTU");
    result.set_observed(absl::StrCat("device of ", address, fails ? ", not carried to " : ", carried to ",
                                     absl::StrJoin(request.plan().peers(), ", ")));
    if (!on_message(response)) return absl::OkStatus();
  }
  if (const auto fabric = pool_->fabrics.find(machine_);
      fabric != pool_->fabrics.end() && request.only().empty()) {
    v1::RunChecksResponse response;
    response.mutable_result()->set_id("nvlink");
    response.mutable_result()->set_outcome(v1::OUTCOME_PASS);
    response.mutable_result()->set_observed("4 GPUs in cluster/clique " + fabric->second +
                                            ", IMEX domain up");
    if (!on_message(response)) return absl::OkStatus();
  }
  v1::RunChecksResponse last;
  last.set_last(true);
  (void)on_message(last);
  return absl::OkStatus();
}

Result<v1::MeasureLineResponse> FakeAgent::MeasureLine(const v1::MeasureLineRequest& request,
                                                       std::stop_token stop) {
  POOLMARK_RETURN_IF_ERROR(Enter("MeasureLine", request.lease(), stop));
  v1::MeasureLineResponse response;
  response.mutable_tool()->set_name("iperf3");
  const bool tcp = request.kind() == v1::LINE_KIND_IPERF3;
  if (request.server() || request.stop_server()) {
    std::lock_guard lock(pool_->lines_mutex);
    std::set<uint32_t>& ports = pool_->line_servers[machine_];
    if (request.stop_server()) {
      ports.erase(request.port());
    } else if (!ports.insert(request.port()).second) {
      response.set_failure("port is already held");
    }
    return response;
  }
  if (request.kind() == v1::LINE_KIND_IB_WRITE_LAT) {
    response.set_latency_p50_us(2);
    response.set_latency_p99_us(3);
    return response;
  }
  double rate = 1e9;
  if (tcp && pool_->line_bits > 0) {
    std::lock_guard lock(pool_->lines_mutex);
    size_t servers = 0;
    for (const auto& [name, ports] : pool_->line_servers) servers += ports.size();
    rate = std::min(pool_->server_bits, pool_->line_bits / static_cast<double>(servers));
    pool_->line_clients.push_back({request.port(), request.streams(), request.seconds()});
  }
  response.set_bits_per_second(rate);
  response.set_payload_bytes(1e9);
  (*response.mutable_sent_by_device())[tcp ? "net:eth0"
                                           : absl::StrCat("rdma:", request.rdma_device().substr(
                                                                       0, request.rdma_device().find(':')))] =
      1e9;
  return response;
}

std::vector<int64_t> FakeAgent::graces() {
  std::lock_guard lock(mutex_);
  return graces_;
}

void FakeAgent::KillGuard() {
  std::lock_guard lock(mutex_);
  processes_.clear();
  ended_job_ = job_;
  ended_epoch_ = epoch_;
  job_.clear();
  ++guards_died_;
  changed_.notify_all();
}

uint64_t FakeAgent::epoch() {
  std::lock_guard lock(mutex_);
  return epoch_;
}

}  // namespace poolmark::test
