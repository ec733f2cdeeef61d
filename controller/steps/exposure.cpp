#include "controller/steps/exposure.h"

#include <mutex>

#include "controller/steps/patience.h"

namespace poolmark::controller {
namespace {

constexpr char kCheck[] = "public_ports";

}  // namespace

Result<v1::CheckResult> AskCheck(JobRun* run, const std::string& machine, const std::string& check) {
  POOLMARK_ASSIGN_OR_RETURN(AgentLinkPtr link, run->registry->Link(machine));
  v1::RunChecksRequest request;
  *request.mutable_lease() = run->Lease(machine);
  if (auto plan = run->plan->checks.find(machine); plan != run->plan->checks.end())
    *request.mutable_plan() = plan->second;
  request.add_only(check);
  std::optional<v1::CheckResult> result;
  POOLMARK_RETURN_IF_ERROR(link->RunChecks(request, run->stop, [&](const v1::RunChecksResponse& response) {
    if (response.has_result() && response.result().id() == check) result = response.result();
    return true;
  }));
  if (!result.has_value()) return Unavailable(machine, "the agent did not answer the check");
  return *result;
}

void CheckExposure(JobRun* run, std::vector<v1::CheckResult>* checks) {
  std::mutex mutex;  // checks
  ForEachMachine(run->plan->machines, [&](const std::string& machine) {
    auto answer = Patiently(*run, [&] { return AskCheck(run, machine, kCheck); });
    if (run->stop.stop_requested()) return;
    v1::CheckResult result;
    if (answer.ok()) {
      result = *answer;
    } else {
      result.set_id(kCheck);
      result.set_outcome(v1::OUTCOME_FAIL);
      result.set_expected("no port of the pool can be reached from the internet");
      result.set_observed(std::string(answer.status().message()));
      result.set_hint("see the agent's log on that machine");
    }
    result.set_machine(machine);
    run->Check(result);
    std::lock_guard lock(mutex);
    checks->push_back(std::move(result));
  });
}

}  // namespace poolmark::controller
