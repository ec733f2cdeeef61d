// Step 4, Verify: the pool proves that it works before it measures anything. A request through the router
// returns tokens; on a split stack a decode machine generates from KV that a prefill machine computed; on a
// shared pool one machine loads KV that another computed. The reader's own counters, before and after, are
// the proof and are kept; a failure comes with a diagnosis.
#pragma once
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "controller/steps/kv_probe.h"
#include "controller/steps/step.h"

namespace poolmark::controller {

struct CounterProof {
  std::string process, machine, series;
  std::optional<double> before, after;
  std::string expected;
};

struct VerifyEvidence {
  std::vector<v1::CheckResult> checks;
  std::map<std::string, std::vector<CounterProof>> proofs;  // by check id
  std::string diagnosis;
  // For canaries after a reset: per engine the prompt that it certainly cached.
  std::map<std::string, std::string> canaries;
  std::string model;                            // as requests name it
  std::map<std::string, std::string> versions;  // process -> version it reports
  std::set<std::string> simulated;  // engines that say so of themselves, whatever the stack file calls them
};

// `run->stop` ends it. The evidence is complete as far as it came.
StepOutcome Verify(JobRun* run, const StackPlan& stack, uint32_t cycle, VerifyEvidence* evidence);

}  // namespace poolmark::controller
