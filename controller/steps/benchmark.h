// Step 5, Benchmark: one repeat of one test point. Clears the pool and reads it back as empty, starts the
// sampling (step 6) and the load in processes of its own on the load machines, follows its progress and
// fetches its records. A machine that falls silent, a process that dies and a load that stalls are noticed at
// once.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "controller/steps/process_watch.h"
#include "controller/steps/reset.h"
#include "controller/steps/step.h"
#include "controller/steps/verify.h"

namespace poolmark::controller {

// What a repeat left behind, whole or not; Collect makes repeat.json of it.
struct RepeatRecord {
  PlannedRepeat repeat;
  uint32_t cycle = 0;
  std::string directory;  // absolute, of the repeat
  stats::StateEvidence state;
  Nanoseconds began_wall{0}, ended_wall{0};
  bool load_started = false;
  std::optional<std::string> load_json;        // load.json of the load, when it came to its end
  bool has_requests = false;                   // requests.jsonl.zst was fetched
  std::map<std::string, std::string> samples;  // machine -> file
  std::map<std::string, Presence> presence;
  std::vector<std::string> notes;
  std::string interrupted;  // why it did not run to its end; empty: it did
};

// The outcome is kPassed when the load came to its end. The record is as complete as can be in every case.
StepOutcome Benchmark(JobRun* run, const StackPlan& stack, const PlannedRepeat& repeat, uint32_t cycle,
                      const VerifyEvidence& verified, ProcessWatch* watch, RepeatRecord* record);

}  // namespace poolmark::controller
