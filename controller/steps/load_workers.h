// The load of one repeat: one `poolmark load` process on the head, or one on each of the job's load machines,
// which share the plan and begin together. Starts them, follows their progress, ends them, fetches their
// records and merges those of several. Used by one runner thread.
#pragma once
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "controller/steps/load_plan.h"
#include "controller/steps/measure.h"
#include "controller/steps/process_watch.h"
#include "controller/steps/stall_watch.h"
#include "controller/steps/step.h"
#include "controller/steps/verify.h"

namespace poolmark::controller {

// The process id of a repeat's load; the cycle keeps it apart from an earlier try's. `kind`: "load" or
// "warm".
std::string LoadId(const StackPlan& stack, const PlannedRepeat& repeat, uint32_t cycle,
                   const std::string& kind = "load");
// The processes of a repeat's measured load as (machine, id).
std::vector<std::pair<std::string, std::string>> LoadProcesses(const Plan& plan, const StackPlan& stack,
                                                               const PlannedRepeat& repeat, uint32_t cycle);

class LoadWorkers {
 public:
  // `kind`: "load", or "warm" for the unmeasured pass. `tag` makes request ids unique.
  LoadWorkers(JobRun* run, const StackPlan& stack, const PlannedRepeat& repeat, uint32_t cycle,
              const spec::WorkloadSpec& workload, const VerifyEvidence& verified, ProcessWatch* watch,
              std::string tag, std::string kind);

  // To the end of all, or the first failure, which ends the others. `measurement` may be null.
  StepOutcome Run(Measurement* measurement);
  bool started() const { return started_; }
  // requests.jsonl.zst, timeline.jsonl and load.json into `directory`; those of several workers merged, and
  // each one's own load.json below load/<machine>/. What could not be had is in `notes`.
  void Fetch(const std::string& directory, std::vector<std::string>* notes);

 private:
  struct Worker {
    std::string machine;
    std::string id;
    std::string directory;  // of its results, on its machine
    Nanoseconds clock_offset{0};
    Nanoseconds last_line{0};
    bool first = true;
    bool ended = false;
    std::string error;
    std::string last_progress;
  };

  Result<v1::ProcessSpec> SpecOf(const Worker& worker, uint32_t number, std::optional<Nanoseconds> start);
  Status AddFile(const Worker& worker, v1::ProcessSpec* spec, std::string* path);
  Status ReadShipped();
  void TakeProgress(size_t index, Measurement* measurement);
  void Tick(const std::string& phase);
  StepOutcome Follow(Measurement* measurement);
  StepOutcome Stop();
  Status FetchOf(const Worker& worker, const std::string& to, std::vector<std::string>* notes);

  JobRun& run_;
  const StackPlan& stack_;
  const PlannedRepeat repeat_;
  const uint32_t cycle_;
  const spec::WorkloadSpec& workload_;
  const VerifyEvidence& verified_;
  ProcessWatch& watch_;
  const std::string tag_, kind_;
  std::vector<Worker> workers_;
  std::optional<StallWatch> stall_;
  std::string shipped_name_,
      shipped_;  // the workload's file as workers get it; "": the head reads it in place
  bool started_ = false;
};

}  // namespace poolmark::controller
