// The repeats of a cycle: measure one, keep it, and say what comes after it.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/log.h"
#include "controller/runner/job_runner.h"
#include "controller/runner/progress.h"
#include "controller/steps/accuracy.h"
#include "controller/steps/collect.h"
#include "controller/steps/load_plan.h"
#include "controller/steps/load_workers.h"

namespace poolmark::controller {

std::optional<JobRunner::Decision> JobRunner::DoBenchmark(const StoredJob&) {
  if (run_.stop.stop_requested()) return Stopped();
  const PlannedRepeat repeat = cycle_->repeats.front();
  auto done = environment_.store->Repeats(job_id_);
  Change change;
  change.position = v1::JobPosition();
  change.position->set_cycle(cycle_number_);
  change.position->set_stack(stack_->name);
  change.position->set_workload(ScenarioName(planned_->job, repeat.workload));
  change.position->set_level(repeat.level.Name());
  change.position->set_repeat(static_cast<uint32_t>(repeat.repeat));
  change.position->set_done_repeats(done.ok() ? static_cast<uint32_t>(done->size()) : 0);
  change.position->set_total_repeats(TotalRepeats(planned_->plan));
  change.message = absl::StrCat(stack_->name, ", ", ScenarioName(planned_->job, repeat.workload), " ",
                                repeat.level.Name(), ", repeat ", repeat.repeat);
  (void)environment_.store->Update(job_id_, change);
  if (AccuracyMissing(run_, *stack_)) {
    std::vector<std::string> ids;
    StepOutcome outcome = RunAccuracy(&run_, *stack_, cycle_number_, verified_, watch_.get(), &ids);
    for (const std::string& id : ids) loads_.emplace_back(planned_->plan.head, id);
    if (!outcome.passed()) return Decide(outcome);
  }
  record_ = {};
  const auto loads = LoadProcesses(planned_->plan, *stack_, repeat, cycle_number_);
  loads_.insert(loads_.end(), loads.begin(), loads.end());
  {
    std::lock_guard lock(mutex_);
    for (const auto& [machine, id] : loads)
      live_.push_back({machine, id, environment_.registry->epoch(machine)});
  }
  StepOutcome outcome = Benchmark(&run_, *stack_, repeat, cycle_number_, verified_, watch_.get(), &record_);
  if (outcome.passed()) return Decision{JobEventKind::kPassed, {}};
  // The repeat is void, its files go with the next try.
  if (shutdown_.stop_requested()) return std::nullopt;
  if (outcome.kind == StepOutcome::Kind::kStopped) {
    auto decision = Stopped();
    if (!decision) return std::nullopt;
    record_.interrupted = decision->change.reasons.front().message();
    (void)KeepRepeat(record_, nullptr);
    return decision;
  }
  if (outcome.kind == StepOutcome::Kind::kFailed) {
    (void)KeepRepeat(record_, nullptr);
    return Decide(outcome);
  }
  // Something of the pool went away: the repeat is kept as invalid, with the reason.
  (void)KeepRepeat(record_, nullptr);
  StoredRepeat kept{KeyOf(stack_->name, repeat), false, cycle_number_};
  return AfterRepeat(std::move(kept), true, outcome.reasons);
}

Result<bool> JobRunner::KeepRepeat(const RepeatRecord& record, std::vector<v1::Reason>* invalid) {
  auto file = Collect(run_, *stack_, record, verified_);
  if (!file.ok()) {
    Log(LogLevel::kError, "repeat.not_written",
        {{"job", job_id_}, {"error", std::string(file.status().message())}});
    return file.status();
  }
  manifest_.Repeat(run_, *stack_, *file, verified_);
  (void)manifest_.Write();
  v1::JobEvent row;
  row.set_kind("repeat");
  const std::string scenario = ScenarioName(planned_->job, record.repeat.workload);
  std::string text = absl::StrCat(stack_->name, ", ", scenario, " ", record.repeat.level.Name(), ", repeat ",
                                  record.repeat.repeat, ": ", file->figures.valid ? "valid" : "INVALID");
  for (const stats::InvalidReason& reason : file->figures.reasons) {
    absl::StrAppend(&text, "; ", reason.detail);
    if (invalid != nullptr) {
      invalid->push_back(
          MakeReason(std::string(stats::ReasonName(reason.reason)),
                     absl::StrCat(stack_->name, ", ", scenario, " ", record.repeat.level.Name(), ", repeat ",
                                  record.repeat.repeat, ": ", reason.detail)));
    }
  }
  row.set_message(text);
  run_.event(std::move(row));
  return file->figures.valid;
}

JobRunner::Decision JobRunner::AfterRepeat(StoredRepeat kept, bool interrupted,
                                           std::vector<v1::Reason> reasons) {
  Decision decision{JobEventKind::kMoreInCycle, {}};
  decision.change.reasons = std::move(reasons);
  auto done = environment_.store->Repeats(job_id_);
  std::vector<StoredRepeat> repeats = done.ok() ? *done : std::vector<StoredRepeat>();
  std::erase_if(repeats, [&](const StoredRepeat& repeat) { return repeat.key == kept.key; });
  repeats.push_back(kept);
  v1::JobPosition position;
  position.set_cycle(cycle_number_);
  position.set_stack(stack_->name);
  position.set_workload(ScenarioName(planned_->job, cycle_->repeats.front().workload));
  position.set_level(cycle_->repeats.front().level.Name());
  position.set_repeat(static_cast<uint32_t>(cycle_->repeats.front().repeat));
  position.set_done_repeats(static_cast<uint32_t>(repeats.size()));
  position.set_total_repeats(TotalRepeats(planned_->plan));
  decision.change.position = std::move(position);
  decision.change.repeat = std::move(kept);
  if (auto now = environment_.store->Get(job_id_); now.ok() && now->job.has_position()) {
    decision.change.position = now->job.position();
    decision.change.position->set_done_repeats(static_cast<uint32_t>(repeats.size()));
  }
  cycle_->repeats.erase(cycle_->repeats.begin());
  if (interrupted && no_continue()) {
    decision.event = JobEventKind::kFinishedInvalid;
  } else if (!NextCycle(planned_->plan, repeats)) {
    const std::vector<std::string> missing = PointsWithoutValid(planned_->plan, repeats);
    decision.event = missing.empty() ? JobEventKind::kFinishedValid : JobEventKind::kFinishedInvalid;
    if (!missing.empty())
      decision.change.reasons.push_back(
          MakeReason("no_valid_repeat", absl::StrCat("no valid repeat of ", absl::StrJoin(missing, ", "))));
  } else if (interrupted) {
    decision.event = JobEventKind::kInterrupted;
  } else if (cycle_->repeats.empty()) {
    decision.event = JobEventKind::kCycleDone;
  }
  if (decision.event != JobEventKind::kMoreInCycle && cause_.empty()) {
    cause_ = interrupted && !decision.change.reasons.empty() ? decision.change.reasons.front().message()
                                                             : "all repeats of the cycle are done";
  }
  return decision;
}

std::optional<JobRunner::Decision> JobRunner::DoCollect() {
  std::vector<v1::Reason> invalid;
  auto valid = KeepRepeat(record_, &invalid);
  if (run_.stop.stop_requested()) return Stopped();
  if (!valid.ok()) return Decide(StepOutcome::Failed("collect", std::string(valid.status().message())));
  return AfterRepeat({KeyOf(stack_->name, record_.repeat), *valid, cycle_number_}, false, std::move(invalid));
}

}  // namespace poolmark::controller
