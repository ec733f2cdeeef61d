#include "controller/steps/preflight.h"

#include <mutex>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "controller/stacks/rdma.h"
#include "controller/steps/evidence_json.h"
#include "controller/steps/line_rate.h"
#include "controller/steps/pool_checks.h"

namespace poolmark::controller {
namespace {

// A machine has two dozen checks, and one for each RDMA card.
constexpr size_t kMaxChecks = 500;
constexpr size_t kMaxCheckBytes = 4u << 20;

// Lease, fresh facts and all checks of one machine.
Status ProveMachine(JobRun* run, const std::string& name, v1::AcquireLeaseResponse* lease, v1::Facts* facts,
                    std::vector<v1::CheckResult>* checks) {
  POOLMARK_ASSIGN_OR_RETURN(AgentLinkPtr link, run->registry->Link(name));
  v1::AcquireLeaseRequest acquire;
  acquire.set_request_id(run->RequestId(name, "lease"));
  *acquire.mutable_lease() = run->Lease(name);
  acquire.set_ttl_ns(run->registry->timing().lease.count());
  POOLMARK_ASSIGN_OR_RETURN(*lease, link->AcquireLease(acquire, run->stop));
  POOLMARK_RETURN_IF_ERROR(run->registry->NoteTaken(name, acquire.lease()));
  v1::GetFactsRequest ask;
  ask.set_refresh(true);
  POOLMARK_ASSIGN_OR_RETURN(v1::GetFactsResponse answer, link->GetFacts(ask, run->stop));
  *facts = answer.facts();
  v1::RunChecksRequest request;
  *request.mutable_lease() = run->Lease(name);
  auto plan = run->plan->checks.find(name);
  if (plan != run->plan->checks.end()) *request.mutable_plan() = plan->second;
  size_t bytes = 0;
  bool too_much = false;
  const auto ask_for = [&](const std::string& suffix) -> Status {
    bool complete = false;
    POOLMARK_RETURN_IF_ERROR(link->RunChecks(request, run->stop, [&](const v1::RunChecksResponse& response) {
      bytes += response.ByteSizeLong();
      too_much = too_much || checks->size() >= kMaxChecks || bytes > kMaxCheckBytes;
      if (too_much) return false;
      if (response.has_result()) {
        v1::CheckResult result = response.result();
        result.set_id(absl::StrCat(result.id(), suffix));
        result.set_machine(name);
        run->Check(result);
        checks->push_back(std::move(result));
      }
      complete = complete || response.last();
      return true;
    }));
    if (too_much)
      return ToStatus(Error{
          absl::StatusCode::kOutOfRange, "agent_sends_too_much", name,
          absl::StrCat("its agent answers with more than ", checks->size(), " checks in ", bytes, " bytes"),
          "look at the machine itself"});
    return complete ? absl::OkStatus() : Unavailable(name, "the agent ended its checks without the last one");
  };
  POOLMARK_RETURN_IF_ERROR(ask_for(""));
  auto cards = run->plan->rdma_checks.find(name);
  if (cards == run->plan->rdma_checks.end()) return absl::OkStatus();
  request.add_only("mtu");
  for (const v1::CheckPlan& card : cards->second) {
    *request.mutable_plan() = card;
    POOLMARK_RETURN_IF_ERROR(ask_for("_rdma"));
  }
  if (cards->second.empty()) {
    v1::CheckResult result;
    result.set_id("mtu_rdma");
    result.set_machine(name);
    result.set_outcome(v1::OUTCOME_SKIPPED);
    result.set_observed("the network devices of its RDMA cards have no address that could be pinged");
    run->Check(result);
    checks->push_back(std::move(result));
  }
  return absl::OkStatus();
}

// Multi-node NVLink: each machine's GPUs are in one fabric and clique, and it must be the same one
// everywhere. The machines' own checks say which ("… in cluster/clique X/Y, …").
std::optional<v1::CheckResult> OneFabric(const std::vector<v1::CheckResult>& checks) {
  std::map<std::string, std::vector<std::string>> found;
  for (const v1::CheckResult& check : checks) {
    constexpr std::string_view kMark = "cluster/clique ";
    const size_t at = check.observed().find(kMark);
    if (check.id() != "nvlink" || check.outcome() != v1::OUTCOME_PASS || at == std::string::npos) continue;
    const std::string fabric = check.observed().substr(at + kMark.size());
    found[fabric.substr(0, fabric.find(','))].push_back(check.machine());
  }
  if (found.empty()) return std::nullopt;
  v1::CheckResult result;
  result.set_id("one_nvlink_fabric");
  result.set_expected("the GPUs of all machines are in one NVLink cluster and clique");
  std::vector<std::string> seen;
  for (const auto& [fabric, machines] : found)
    seen.push_back(absl::StrCat(fabric, " on ", absl::StrJoin(machines, ", ")));
  result.set_observed(absl::StrJoin(seen, "; "));
  result.set_evidence("cluster/clique of the machines' own checks");
  result.set_outcome(found.size() == 1 ? v1::OUTCOME_PASS : v1::OUTCOME_FAIL);
  if (found.size() > 1)
    result.set_hint("take machines of one NVLink domain, or correct the fabric manager's partitions");
  return result;
}

MachineView ViewOf(const JobRun& run, const std::string& name) {
  MachineView view;
  view.facts = run.facts.at(name);
  view.address = run.plan->addresses.at(name);
  auto machine = run.registry->Get(name);
  if (machine.ok() && machine->has_clock_offset_ns()) {
    view.clock =
        ClockReading{Nanoseconds(machine->clock_offset_ns()), Nanoseconds(machine->clock_uncertainty_ns())};
  }
  for (const spec::MachineSpec& spec : run.job->pool.machines) {
    if (spec.name != name) continue;
    if (run.plan->rdma_checks.contains(name)) view.rdma_devices = PoolDevices(spec.rdma_devices, view.facts);
    view.has_engines = !(spec.gpus && *spec.gpus == 0);
  }
  for (const StackPlan& stack : run.plan->stacks) {
    for (const PlannedProcess& process : stack.processes) {
      if (process.machine == name && !process.attached)
        view.planned_gpus.insert(process.spec.gpus().begin(), process.spec.gpus().end());
    }
  }
  return view;
}

// The clock needs one complete exchange, which is two heartbeats, and one that did not wait on a busy
// machine: a reading that may be wrong by more than this says nothing about a limit of 100 ms. What is known
// at the end counts.
constexpr Nanoseconds kGoodReading = std::chrono::milliseconds(25);

void AwaitClocks(const JobRun& run) {
  const Nanoseconds began = run.clock->Steady();
  const Nanoseconds heartbeat = run.registry->timing().heartbeat;
  for (const std::string& name : run.plan->machines) {
    for (;;) {
      auto machine = run.registry->Get(name);
      const bool known = machine.ok() && machine->has_clock_offset_ns();
      const bool good = known && machine->clock_uncertainty_ns() <= kGoodReading.count();
      if (good || run.clock->Steady() - began > (known ? 8 : 4) * heartbeat) break;
      if (!WaitFor(run.stop, run.timing.poll)) return;
    }
  }
}

}  // namespace

StepOutcome Preflight(JobRun* run) {
  const Nanoseconds started = run->clock->Wall();
  StepOutcome outcome;
  std::vector<v1::CheckResult> checks;
  std::mutex mutex;  // outcome, checks, run->facts, run->work_dirs
  ForEachMachine(run->plan->machines, [&](const std::string& name) {
    v1::AcquireLeaseResponse lease;
    v1::Facts facts;
    std::vector<v1::CheckResult> mine;
    Status status = ProveMachine(run, name, &lease, &facts, &mine);
    std::lock_guard lock(mutex);
    checks.insert(checks.end(), mine.begin(), mine.end());
    if (status.ok()) {
      run->work_dirs[name] = lease.work_dir();
      run->facts[name] = std::move(facts);
    } else {
      outcome.reasons.push_back(ReasonOf(status, name, "preflight"));
    }
  });
  if (run->stop.stop_requested()) return StepOutcome::Stopped();
  std::vector<LineRate> rates;
  if (outcome.reasons.empty()) {
    AwaitClocks(*run);
    std::map<std::string, MachineView> views;
    for (const std::string& name : run->plan->machines) views[name] = ViewOf(*run, name);
    for (v1::CheckResult& check : CheckPool(views)) {
      run->Check(check);
      checks.push_back(std::move(check));
    }
    if (auto fabric = OneFabric(checks)) {
      run->Check(*fabric);
      checks.push_back(*std::move(fabric));
    }
    // A pool that already failed is not measured: it may be the wrong network.
    bool ready = true;
    for (const v1::CheckResult& check : checks) ready = ready && !Stops(check);
    if (ready) rates = MeasureLineRates(run, &checks);
    for (const LineRate& rate : rates) {
      for (v1::Tool tool : {rate.tool, rate.rdma_tool}) {
        if (tool.name().empty()) continue;
        tool.set_note("network line rate");
        run->tools[rate.link.from][tool.name()] = std::move(tool);
      }
    }
  }
  if (run->stop.stop_requested()) return StepOutcome::Stopped();
  for (const v1::CheckResult& check : checks) {
    if (!Stops(check)) continue;
    outcome.reasons.push_back(
        MakeReason("check_failed",
                   absl::StrCat("preflight check ", check.id(),
                                check.machine().empty() ? "" : absl::StrCat(" on ", check.machine()), ": ",
                                check.observed(), " (expected: ", check.expected(), ")",
                                check.hint().empty() ? "" : absl::StrCat("; ", check.hint())),
                   check.machine(), check.id()));
  }
  if (!outcome.reasons.empty()) outcome.kind = StepOutcome::Kind::kFailed;
  Status written = WritePreflight(*run, checks, rates, outcome.passed(), started);
  if (!written.ok()) return StepOutcome::Failed("disk", std::string(written.message()));
  return outcome;
}

}  // namespace poolmark::controller
