// The accuracy run of a stack that compresses KV, inside a job: the same questions go to a stack that
// computes without loss (reference) and to the stack itself (candidate), each in its own cycle before its
// first repeat, and are compared as soon as both are there (common/quality). Everything lies in
// quality/<stack> of the results directory, so it is made once, also over restarts. Used by the job's runner
// thread.
#pragma once
#include <string>

#include "common/stats/validity.h"
#include "controller/steps/process_watch.h"
#include "controller/steps/step.h"
#include "controller/steps/verify.h"

namespace poolmark::controller {

// "<results>/quality/<stack>".
std::string AccuracyDir(const JobRun& run, const std::string& stack);

// Does `stack` still owe answers, as a candidate or as a reference of others?
bool AccuracyMissing(const JobRun& run, const StackPlan& stack);

// Asks the questions that `stack` still owes, through its entry. The candidate answers everything twice: the
// first pass writes KV, then the engines' own caches are emptied where the stack says how (`evict`), and the
// second pass, which counts, reads KV back from below. kFailed: the questions or the judge are refused, with
// the reason. `ids` gets the process ids, for their logs.
StepOutcome RunAccuracy(JobRun* run, const StackPlan& stack, uint32_t cycle, const VerifyEvidence& verified,
                        ProcessWatch* watch, std::vector<std::string>* ids);

// What the files say, for a repeat's evidence. Without a result: the compression alone.
stats::AccuracyEvidence AccuracyOf(const JobRun& run, const StackPlan& stack);

}  // namespace poolmark::controller
