// One running job, from the lock of its machines to its end: interprets the job table and runs the steps. A
// runner has one thread (Run); Cancel and MachineLost may be called from any.
#pragma once
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "controller/runner/environment.h"
#include "controller/runner/manifest_builder.h"
#include "controller/runner/planning.h"
#include "controller/steps/benchmark.h"
#include "controller/steps/process_watch.h"
#include "controller/steps/verify.h"

namespace poolmark::controller {

// What a cycle launched, for live logs. The epoch tells the runs of a machine apart: within one, a process
// that is started again goes on in its log.
struct LiveProcess {
  std::string machine;
  std::string process;
  uint64_t epoch = 0;
};

class JobRunner {
 public:
  // `planned` may be null after a restart (the inputs are gone): then the job is torn down and ends.
  JobRunner(const Environment& environment, const std::string& job_id, std::unique_ptr<PlannedJob> planned);

  // Until the job has ended, or `shutdown`: then the job stays where it is, for the next start.
  void Run(std::stop_token shutdown);
  // The store has the request already; this ends the step that runs now.
  void Cancel(bool force, const std::string& who);
  void MachineLost(const std::string& machine);
  // Everything that this cycle launched. Any thread.
  std::vector<LiveProcess> LiveProcesses();

 private:
  struct Decision {
    JobEventKind event;
    Change change;
  };

  // One per action; each returns the event that the table takes next, or nothing at a shutdown.
  std::optional<Decision> DoPreflight();
  std::optional<Decision> DoLaunch(const StoredJob& job);
  std::optional<Decision> DoVerify();
  std::optional<Decision> DoBenchmark(const StoredJob& job);
  std::optional<Decision> DoCollect();
  std::optional<Decision> DoTearDown(const StoredJob& job);

  // What an outcome means in this state; a stop is a cancel, a lost machine or a shutdown.
  std::optional<Decision> Decide(const StepOutcome& outcome);
  std::optional<Decision> Stopped();
  // The repeat's files with what there is; `valid` of the outcome.
  Result<bool> KeepRepeat(const RepeatRecord& record, std::vector<v1::Reason>* invalid);
  // After a repeat that is kept: what comes next.
  Decision AfterRepeat(StoredRepeat kept, bool interrupted, std::vector<v1::Reason> reasons);

  // A fresh stop token for the next step; already stopped when something came meanwhile.
  void ArmStop();
  bool no_continue() const { return request_.no_continue(); }
  void EndCycle();

  const Environment& environment_;
  const std::string job_id_;
  std::unique_ptr<PlannedJob> planned_;
  Plan bare_plan_;  // machines only, where there is no plan
  spec::JobSpec bare_job_;
  v1::SubmitJobRequest request_;
  JobRun run_;
  ManifestBuilder manifest_;
  std::stop_token shutdown_;

  // Of the cycle that runs.
  std::optional<PlannedCycle> cycle_;
  uint32_t cycle_number_ = 0;
  const StackPlan* stack_ = nullptr;
  std::unique_ptr<ProcessWatch> watch_;
  VerifyEvidence verified_;
  RepeatRecord record_;
  std::vector<std::pair<std::string, std::string>>
      loads_;          // the cycle's loads as (machine, id), for their logs
  std::string cause_;  // of the tear-down

  std::mutex mutex_;  // the next six
  std::vector<LiveProcess> live_;
  std::stop_source step_stop_;
  bool cancel_ = false;
  std::string cancelled_by_;
  bool force_ = false;
  std::string lost_machine_;
};

}  // namespace poolmark::controller
