#include "controller/steps/launch.h"

#include <algorithm>
#include <mutex>
#include <set>

#include "absl/strings/str_cat.h"
#include "common/base/json.h"
#include "common/base/secrets.h"
#include "controller/stacks/place.h"
#include "controller/stacks/relay.h"

namespace poolmark::controller {
namespace {

constexpr const char* kStageNames[kLaunchStages] = {"store", "cache", "engine", "router"};

// The secrets of the job's other programs: what those say to this one must not come back in its output.
void NameRedactions(const Plan& plan, v1::ProcessSpec* spec) {
  std::set<std::string> names;
  for (const StackPlan& stack : plan.stacks) {
    for (const PlannedProcess& process : stack.processes) {
      for (const auto& [variable, secret] : process.spec.secrets()) names.insert(secret);
    }
  }
  for (const auto& [variable, secret] : spec->secrets()) names.erase(secret);
  int number = 0;
  for (const std::string& name : names)
    (*spec->mutable_secrets())[absl::StrCat(std::string(kRedactVariable), number++)] = name;
}

}  // namespace

bool MakesSharedDirectory(const StackPlan& stack, const PlannedProcess& process) {
  if (process.spec.directories().empty()) return false;
  return std::any_of(stack.processes.begin(), stack.processes.end(), [&](const PlannedProcess& other) {
    return other.template_name == process.template_name && other.spec.directories().empty();
  });
}

Status StartOne(JobRun* run, const std::string& machine, const v1::ProcessSpec& spec,
                const std::string& request, ProcessWatch* watch) {
  POOLMARK_ASSIGN_OR_RETURN(AgentLinkPtr link, run->registry->Link(machine));
  v1::StartProcessRequest start;
  start.set_request_id(run->RequestId(machine, request));
  *start.mutable_lease() = run->Lease(machine);
  *start.mutable_spec() = spec;
  NameRedactions(*run->plan, start.mutable_spec());
  POOLMARK_ASSIGN_OR_RETURN(v1::StartProcessResponse response, link->StartProcess(start, run->stop));
  if (response.status().id().empty())
    return Internal(machine, absl::StrCat("the agent's answer about ", spec.id(), " names no process"));
  watch->Set(machine, response.status());
  if (response.has_tool()) watch->SetTool(spec.id(), response.tool());
  return absl::OkStatus();
}

Nanoseconds ReadyWithin(const JobRun& run, const v1::ProcessSpec& spec) {
  return 3 * Nanoseconds(spec.ready().within_ns()) + run.timing.ready_margin;
}

StepOutcome NotTold(const std::string& id, const std::string& machine, Nanoseconds within) {
  return StepOutcome::Interrupted(
      "agent_silent",
      absl::StrCat(id, " on ", machine, ": for ", within.count() / 1'000'000'000,
                   " s its agent told neither that it is ready nor that it failed, though it answers"),
      machine);
}

v1::Reason DeathReason(JobRun* run, const ProcessWatch::Death& death, const std::string& code) {
  std::string text = DescribeEnd(death.status);
  if (text.find('\n') == std::string::npos) {
    auto link = run->registry->Link(death.machine);
    if (link.ok()) {
      v1::StreamLogsRequest logs;
      *logs.mutable_lease() = run->Lease(death.machine);
      logs.set_id(death.status.id());
      logs.set_tail_bytes(4096);
      std::string tail;
      // Not run->stop: the reason is wanted after a cancel too; the agent ends a stream that does not follow.
      (void)(*link)->StreamLogs(logs, run->shutdown, [&](const v1::StreamLogsResponse& response) {
        tail += response.data();
        return tail.size() < 8192;
      });
      if (!tail.empty()) absl::StrAppend(&text, "\n", ValidUtf8(tail));
    }
  }
  return MakeReason(code, text, death.machine);
}

StepOutcome Launch(JobRun* run, const StackPlan& stack, uint32_t cycle, ProcessWatch* watch) {
  std::map<std::string, std::vector<v1::InputFile>> relay_files;
  if (stack.relay) {
    auto made = MakeRelayFiles(stack, run->clock->Wall());
    if (!made.ok()) return StepOutcome::Failed("launch_failed", std::string(made.status().message()));
    relay_files = *std::move(made);
  }
  for (int stage = 0; stage < kLaunchStages; ++stage) {
    std::map<std::string, std::vector<const PlannedProcess*>> by_machine;
    std::vector<std::string> ids, machines;
    for (const PlannedProcess& process : stack.processes) {
      if (LaunchStage(process.role) != stage || process.attached) continue;
      by_machine[process.machine].push_back(&process);
      ids.push_back(process.spec.id());
    }
    if (ids.empty()) continue;
    for (const auto& [machine, list] : by_machine) machines.push_back(machine);
    run->Note("process",
              absl::StrCat("starting ", ids.size(), " ", kStageNames[stage], ids.size() == 1 ? "" : "s"));
    StepOutcome failure;
    std::mutex mutex;  // failure, run->tools
    bool makers = false;
    auto start = [&](const std::string& machine) {
      for (const PlannedProcess* process : by_machine[machine]) {
        if (MakesSharedDirectory(stack, *process) != makers) continue;
        if (run->stop.stop_requested() || watch->FirstDeath()) return;
        v1::ProcessSpec spec = process->spec;
        if (auto files = relay_files.find(spec.id()); files != relay_files.end())
          spec.mutable_files()->Add(files->second.begin(), files->second.end());
        Status status =
            StartOne(run, machine, spec, absl::StrCat("start/", cycle, "/", process->spec.id()), watch);
        if (status.ok()) continue;
        std::lock_guard lock(mutex);
        if (failure.reasons.empty())
          failure.reasons.push_back(ReasonOf(status, machine, absl::StrCat("starting ", process->spec.id())));
        return;
      }
    };
    for (makers = true;; makers = false) {
      ForEachMachine(machines, start);
      if (!makers || !failure.reasons.empty()) break;
    }
    if (run->stop.stop_requested()) return StepOutcome::Stopped();
    if (auto death = watch->FirstDeath())
      return {StepOutcome::Kind::kFailed, {DeathReason(run, *death, "launch_failed")}};
    if (!failure.reasons.empty()) {
      // An agent that was away says nothing about the plan: it may be back for the next cycle.
      const bool away = failure.reasons.front().code() == "agent_unreachable";
      failure.kind = away ? StepOutcome::Kind::kInterrupted : StepOutcome::Kind::kFailed;
      return failure;
    }
    Nanoseconds within{0};
    for (const auto& [machine, list] : by_machine) {
      for (const PlannedProcess* process : list) within = std::max(within, ReadyWithin(*run, process->spec));
    }
    if (!watch->AwaitReady(ids, run->clock->Steady() + within)) {
      if (auto death = watch->FirstDeath())
        return {StepOutcome::Kind::kFailed, {DeathReason(run, *death, "launch_failed")}};
      if (run->stop.stop_requested()) return StepOutcome::Stopped();
      for (const auto& [machine, list] : by_machine) {
        for (const PlannedProcess* process : list) {
          const auto status = watch->StatusOf(process->spec.id());
          if (!status || status->state() != v1::PROCESS_STATE_READY)
            return NotTold(process->spec.id(), machine, within);
        }
      }
    }
    for (const std::string& id : ids) {
      auto status = watch->StatusOf(id);
      run->Note("process", absl::StrCat(id, " is ready after ",
                                        status ? status->ready_after_ns() / 1'000'000 : 0, " ms"));
    }
  }
  return StepOutcome::Passed();
}

}  // namespace poolmark::controller
