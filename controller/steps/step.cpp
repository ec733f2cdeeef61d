#include "controller/steps/step.h"

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "absl/strings/str_cat.h"

namespace poolmark::controller {

v1::Reason MakeReason(std::string code, std::string message, std::string machine, std::string check) {
  v1::Reason reason;
  reason.set_code(std::move(code));
  reason.set_message(std::move(message));
  reason.set_machine(std::move(machine));
  reason.set_check(std::move(check));
  return reason;
}

StepOutcome StepOutcome::Failed(std::string code, std::string message, std::string machine,
                                std::string check) {
  return {Kind::kFailed,
          {MakeReason(std::move(code), std::move(message), std::move(machine), std::move(check))}};
}
StepOutcome StepOutcome::Interrupted(std::string code, std::string message, std::string machine) {
  return {Kind::kInterrupted, {MakeReason(std::move(code), std::move(message), std::move(machine))}};
}

v1::Reason ReasonOf(const Status& status, const std::string& machine, const std::string& doing) {
  const Error error = ErrorOf(status);
  return MakeReason(error.code.empty() || error.code == "unavailable" ? "agent_unreachable" : error.code,
                    absl::StrCat(doing, " on ", machine, ": ", std::string(status.message())), machine);
}

v1::LeaseId JobRun::Lease(const std::string& machine) const {
  v1::LeaseId lease;
  lease.set_job_id(job_id);
  lease.set_epoch(registry->epoch(machine));
  return lease;
}

std::string JobRun::RequestId(const std::string& machine, const std::string& what) const {
  return absl::StrCat(job_id, "/", registry->epoch(machine), "/", machine, "/", what);
}

void JobRun::Note(const std::string& kind, const std::string& message, const std::string& machine) const {
  v1::JobEvent row;
  row.set_kind(kind);
  row.set_message(message);
  row.set_machine(machine);
  event(std::move(row));
}

void JobRun::Check(const v1::CheckResult& check) const {
  v1::JobEvent row;
  row.set_kind("check");
  row.set_machine(check.machine());
  row.set_message(absl::StrCat(check.id(), ": ", check.observed()));
  *row.mutable_check() = check;
  event(std::move(row));
}

void ForEachMachine(const std::vector<std::string>& machines,
                    const std::function<void(const std::string&)>& work) {
  constexpr size_t kThreads = 64;
  for (size_t begin = 0; begin < machines.size(); begin += kThreads) {
    std::vector<std::jthread> threads;
    for (size_t i = begin; i < std::min(machines.size(), begin + kThreads); ++i) {
      threads.emplace_back([&work, &machine = machines[i]] { work(machine); });
    }
  }
}

bool WaitFor(std::stop_token stop, Nanoseconds time) {
  std::mutex mutex;
  std::condition_variable_any wake;
  std::unique_lock lock(mutex);
  wake.wait_for(lock, stop, time, [] { return false; });
  return !stop.stop_requested();
}

}  // namespace poolmark::controller
