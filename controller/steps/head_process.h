// A process on the head that runs to its end and says on the way how far it is: the load, the questions of an
// accuracy run. Used by the job's runner thread.
#pragma once
#include <functional>
#include <string>

#include "controller/steps/process_watch.h"
#include "controller/steps/step.h"

namespace poolmark::controller {

// Of files that travel with a process: what still fits a call of 4 MiB. Larger ones are read where the
// controller keeps them, which only its own machine, the head, can.
inline constexpr uint64_t kMaxShipped = 3u << 20;

struct HeadProcess {
  v1::ProcessSpec spec;
  std::string request;        // makes the request ids unique: "load/<tag>"
  std::string what = "load";  // in messages
  std::string code = "load";  // of its reasons: "<code>_failed"
  // Exit code 2 with a reason ends the job, code "<code>_refused": another launch would not change it.
  bool refusal_is_final = false;
  std::function<void()> on_started;
  std::function<void(const std::string&)> on_line;  // a progress line; errors are kept for the reason
};

// kPassed: it ended with exit code 0. kFailed: a final refusal. kInterrupted: it failed otherwise, another
// process died, or no line came for the limits in `timing` while the head was heard. kStopped: it was told to
// end.
StepOutcome RunOnHead(JobRun* run, ProcessWatch* watch, const HeadProcess& process);

}  // namespace poolmark::controller
