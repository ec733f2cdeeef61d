#include "controller/steps/benchmark.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/base/files.h"
#include "common/results/layout.h"
#include "controller/steps/load_workers.h"
#include "controller/steps/measure.h"

namespace poolmark::controller {
namespace {

class Repeat {
 public:
  Repeat(JobRun* run, const StackPlan& stack, const PlannedRepeat& repeat, uint32_t cycle,
         const VerifyEvidence& verified, ProcessWatch* watch, RepeatRecord* record)
      : run_(*run),
        stack_(stack),
        repeat_(repeat),
        cycle_(cycle),
        verified_(verified),
        watch_(*watch),
        record_(*record) {
    for (const spec::WorkloadSpec& workload : run_.job->workloads) {
      if (workload.name == repeat.workload) workload_ = &workload;
    }
    tag_ = absl::StrCat(cycle, "/", repeat.workload, "-", repeat.level.Name(), "/", repeat.repeat);
  }

  StepOutcome Run() {
    record_.repeat = repeat_;
    record_.cycle = cycle_;
    record_.directory = JoinPath(run_.results_dir, results::RepeatDir(stack_.name, repeat_.workload,
                                                                      repeat_.level.Name(), repeat_.repeat));
    record_.began_wall = run_.clock->Wall();
    if (workload_ == nullptr)
      return StepOutcome::Failed(
          "internal",
          absl::StrCat("the plan names a workload that the job does not have: ", repeat_.workload));
    // What an interrupted try of this repeat left is void.
    auto removed = RemoveTree(record_.directory);
    if (!removed.ok()) return StepOutcome::Failed("disk", std::string(removed.status().message()));
    if (Status made = MakeDirs(record_.directory, 0750); !made.ok())
      return StepOutcome::Failed("disk", std::string(made.message()));

    ResetResult reset;
    StepOutcome outcome = ResetPool(&run_, stack_, tag_, verified_, &watch_, &reset);
    record_.state = reset.state;
    Append(reset.notes);
    if (!outcome.passed()) return Interrupt(std::move(outcome));
    if (run_.job->starting_state == "warm") {
      LoadWorkers warm(&run_, stack_, repeat_, cycle_, *workload_, verified_, &watch_, tag_, "warm");
      outcome = Load(&warm, nullptr);
      if (!outcome.passed()) return Interrupt(std::move(outcome));
    }
    for (const std::string& machine : run_.plan->machines) run_.registry->Watch(machine);
    auto measurement = Measurement::Start(
        &run_, stack_, JoinPath(record_.directory, std::string(results::kSamplesDir)), tag_);
    if (!measurement.ok()) {
      return Interrupt(
          run_.stop.stop_requested()
              ? StepOutcome::Stopped()
              : StepOutcome::Interrupted("sampling_failed", std::string(measurement.status().message())));
    }
    // Counters need a reading before the first request.
    if (!(*measurement)->AwaitFirst(std::chrono::seconds(10)) && !run_.stop.stop_requested()) {
      record_.notes.push_back("a machine had sent no sample when the load began");
    }
    LoadWorkers workers(&run_, stack_, repeat_, cycle_, *workload_, verified_, &watch_, tag_, "load");
    outcome = Load(&workers, measurement->get());
    // Presence first: what follows is no longer the repeat.
    for (const std::string& machine : run_.plan->machines)
      record_.presence[machine] = run_.registry->PresenceOf(machine);
    (void)(*measurement)->Finish();
    record_.samples = (*measurement)->files();
    Append((*measurement)->notes());
    FetchRecords(&workers);
    record_.ended_wall = run_.clock->Wall();
    if (outcome.passed() && (!record_.load_json || !record_.has_requests)) {
      outcome = StepOutcome::Interrupted(
          "records_lost", "the load ended, but its records could not be fetched", run_.plan->head);
    }
    return Interrupt(std::move(outcome));
  }

 private:
  void Append(const std::vector<std::string>& notes) {
    record_.notes.insert(record_.notes.end(), notes.begin(), notes.end());
  }

  StepOutcome Interrupt(StepOutcome outcome) {
    if (record_.ended_wall.count() == 0) record_.ended_wall = run_.clock->Wall();
    if (outcome.passed()) return outcome;
    record_.interrupted = outcome.reasons.empty() ? "stopped" : outcome.reasons.front().message();
    return outcome;
  }

  StepOutcome Load(LoadWorkers* workers, Measurement* measurement) {
    StepOutcome outcome = workers->Run(measurement);
    if (measurement != nullptr) record_.load_started = workers->started();
    return outcome;
  }

  void FetchRecords(LoadWorkers* workers) {
    workers->Fetch(record_.directory, &record_.notes);
    record_.has_requests = FileExists(JoinPath(record_.directory, std::string(results::kRequestsFile)));
    if (auto text = ReadFile(JoinPath(record_.directory, "load.json"), 16u << 20); text.ok())
      record_.load_json = *text;
  }

  JobRun& run_;
  const StackPlan& stack_;
  const PlannedRepeat repeat_;
  const uint32_t cycle_;
  const VerifyEvidence& verified_;
  ProcessWatch& watch_;
  RepeatRecord& record_;
  const spec::WorkloadSpec* workload_ = nullptr;
  std::string tag_;
};

}  // namespace

StepOutcome Benchmark(JobRun* run, const StackPlan& stack, const PlannedRepeat& repeat, uint32_t cycle,
                      const VerifyEvidence& verified, ProcessWatch* watch, RepeatRecord* record) {
  return Repeat(run, stack, repeat, cycle, verified, watch, record).Run();
}

}  // namespace poolmark::controller
