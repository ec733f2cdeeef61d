// What the seven steps share: the job they work for, its machines, and what a step says when it ends.
// A step blocks; it runs on its job's runner thread, may fan out over the machines, and ends early when
// `stop` fires (cancel, a machine lost, the controller ending). A JobRun is used by one runner.
#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <stop_token>
#include <string>
#include <vector>

#include "common/base/clock.h"
#include "common/base/result.h"
#include "common/results/path_calibration.h"
#include "common/spec/job.h"
#include "common/stats/requests.h"
#include "controller/machines/registry.h"
#include "controller/steps/plan.h"
#include "poolmark/v1/controller.pb.h"

namespace poolmark::controller {

struct StepOutcome {
  enum class Kind {
    kPassed,
    kFailed,       // for good: a check failed, a plan does not work in reality
    kInterrupted,  // a process or a machine went away; a new cycle may do better
    kStopped,      // `stop` fired
  };
  Kind kind = Kind::kPassed;
  std::vector<v1::Reason> reasons;

  bool passed() const { return kind == Kind::kPassed; }
  static StepOutcome Passed() { return {}; }
  static StepOutcome Stopped() { return {Kind::kStopped, {}}; }
  static StepOutcome Failed(std::string code, std::string message, std::string machine = "",
                            std::string check = "");
  static StepOutcome Interrupted(std::string code, std::string message, std::string machine = "");
};

v1::Reason MakeReason(std::string code, std::string message, std::string machine = "",
                      std::string check = "");
// What a call's error says, as a reason of that machine.
v1::Reason ReasonOf(const Status& status, const std::string& machine, const std::string& doing);

// How often things are looked at and how long they may take; tests shorten them.
struct StepTiming {
  Nanoseconds poll = std::chrono::milliseconds(200);
  Nanoseconds kv_settle = std::chrono::seconds(20);    // until KV must have reached the store
  Nanoseconds stop_grace = std::chrono::seconds(30);   // SIGTERM to SIGKILL
  Nanoseconds load_stall = std::chrono::seconds(60);   // no progress line of the load
  Nanoseconds load_start = std::chrono::seconds(120);  // to its first progress line
  // To an agent's word that a process is ready or has failed, beyond the time that it may give it.
  Nanoseconds ready_margin = std::chrono::seconds(60);
};

struct JobRun {
  std::string job_id;
  const spec::JobSpec* job = nullptr;
  const Plan* plan = nullptr;
  Registry* registry = nullptr;
  const Clock* clock = nullptr;
  StepTiming timing;
  std::string state_dir;                           // the controller's
  std::string results_dir;                         // <state>/results/<job>
  std::string catalogue_dir;                       // deploy/catalogue
  std::map<std::string, std::string> input_files;  // path in the specs -> stored file
  std::vector<stats::Slo> slos;                    // that the job names
  std::stop_token stop;
  std::stop_token shutdown;                 // the controller ends; a cancel does not fire it
  std::function<void(v1::JobEvent)> event;  // stored
  std::function<void(v1::JobEvent)> tick;   // live only
  std::function<bool()> force;              // a second cancel: no grace
  // Since the machines were locked:
  std::map<std::string, v1::Facts> facts;
  std::map<std::string, std::string> work_dirs;                  // of this job
  std::map<std::string, std::map<std::string, v1::Tool>> tools;  // machine -> what measures on it
  std::map<std::string, v1::Tool> executables;                   // process of the stack -> what it runs
  std::map<std::pair<std::string, std::string>, double> line_rate_bits;  // from, to: measured in preflight
  std::map<std::string, results::PathCalibration>
      calibrations;  // sending machine -> its counters, in preflight

  v1::LeaseId Lease(const std::string& machine) const;
  // Repeated after a restart or a lost reply it is the same request: one effect.
  std::string RequestId(const std::string& machine, const std::string& what) const;
  void Note(const std::string& kind, const std::string& message, const std::string& machine = "") const;
  void Check(const v1::CheckResult& check) const;
};

// Calls `work` for every machine at once (at most 64 threads) and waits for all.
void ForEachMachine(const std::vector<std::string>& machines,
                    const std::function<void(const std::string&)>& work);

// Waits for `time` on the steady clock or until stopped; false when stopped.
bool WaitFor(std::stop_token stop, Nanoseconds time);

}  // namespace poolmark::controller
