// Step 7, Tear down: flush and remove the shared store, stop every process, delete every disk tier directory,
// with proof. Each agent replays its ledger; what it cannot prove gone is left over, and a machine that
// cannot be asked is unknown: both are quarantined. Never given up and never stopped by a cancel.
#pragma once
#include <string>
#include <utility>
#include <vector>

#include "controller/steps/step.h"

namespace poolmark::controller {

struct MachineTeardown {
  std::string machine;
  v1::TeardownVerdict verdict = v1::TEARDOWN_VERDICT_UNKNOWN;
  std::vector<v1::LedgerItem> items;
  std::vector<std::string> leftovers;
  std::string note;  // "stopped by its own lease deadline", "unreachable for 85 s"
};

struct TeardownResult {
  v1::TeardownVerdict verdict = v1::TEARDOWN_VERDICT_CLEAN;
  std::vector<MachineTeardown> machines;
  std::vector<v1::CheckResult> store;                           // flushed, and read back as empty
  std::vector<std::pair<std::string, std::string>> quarantine;  // machine, why
  std::vector<v1::Reason> reasons;
};

// `stack` may be null: nothing was launched. `keep_lease`: another cycle follows.
TeardownResult Teardown(JobRun* run, const StackPlan* stack, uint32_t cycle, const std::string& cause,
                        bool keep_lease, std::stop_token shutdown);

// After a tear-down that kept the leases when no cycle follows: lets them go on all machines that answered
// it. What is worse than before goes into `result`, with the items that it did not have.
void LetGo(JobRun* run, uint32_t cycle, const std::string& cause, TeardownResult* result,
           std::stop_token shutdown);

// The worst of the machines': UNKNOWN over DIRTY over CLEAN.
v1::TeardownVerdict Worst(v1::TeardownVerdict a, v1::TeardownVerdict b);

}  // namespace poolmark::controller
