// One pass of one arm: store requests, then every measured question, with the blend server's counters around
// each. Internal to the runner. Not thread-safe.
#pragma once
#include <optional>
#include <string>

#include "common/base/result.h"
#include "common/quality/blend_counters.h"
#include "common/quality/plan.h"
#include "common/quality/runner.h"
#include "common/quality/sender.h"
#include "common/quality/types.h"

namespace poolmark::quality {

// Reports progress at most twice a second, with an estimate of the time left.
class Pace {
 public:
  Pace(const RunContext& context, std::string stage);
  void Step(int64_t done, int64_t total, int64_t failed);

 private:
  const RunContext& context_;
  std::string stage_;
  Nanoseconds start_;
  Nanoseconds last_{0};
};

struct ArmRunOptions {
  Sender::Options sender;
  bool stores = true;             // reference passes send none
  std::string blend_metrics_url;  // "": no counters
  Nanoseconds settle{0};
  const PlanNotes* notes = nullptr;  // how long the requests are; outlives the pass
};

// Nothing when interrupted. An error when the counters cannot be read where the pass needs them.
Result<std::optional<Pass>> RunArm(const Plan& plan, const std::string& role, int64_t run_index,
                                   const ArmRunOptions& options, const RunContext& context);

}  // namespace poolmark::quality
