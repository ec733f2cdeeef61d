// The files of an accuracy run in quality/<stack> of a job's results directory: taking over an arm that a
// machine made, the comparison, and what they say. accuracy.json holds what the answer-quality format has no
// place for. One writer at a time.
#pragma once
#include <functional>
#include <stop_token>
#include <string>
#include <vector>

#include "common/spec/job.h"
#include "common/stats/attribution.h"
#include "common/stats/validity.h"
#include "controller/steps/plan.h"

namespace poolmark::controller {

// "quality/<stack>".
std::string AccuracyDirName(const std::string& stack);
// The labels of the reference's passes, or of the candidate's one.
std::vector<std::string> AccuracyLabels(const spec::AccuracySpec& spec, bool candidate);
bool HasAccuracyArm(const spec::AccuracySpec& spec, bool candidate, const std::string& directory);
bool HasAccuracyResult(const std::string& directory);

// Moves the passes of `incoming` into `directory`; the first arm brings the plan, a later one must have been
// asked the same (else an error that names what differs). `incoming` goes.
Status TakeAccuracyArm(const spec::AccuracySpec& spec, bool candidate, const std::string& incoming,
                       const std::string& directory);

// Where the prompt tokens of the candidate's counted pass came from.
struct AccuracyTokens {
  Measured<stats::TokenSources> sources = NotMeasured{"no pass yet"};
  std::vector<std::string> notes;
};
Status WriteAccuracyTokens(const std::string& directory, const PlannedAccuracy& planned,
                           const AccuracyTokens& tokens);

// What the metric judge needs on this machine, the controller's: the two templates, from
// <state>/quality/judge or else where `poolmark quality` finds them, and the key, a file of <state>/secrets.
struct JudgeAccess {
  std::string templates;  // directory
  std::string key;        // "": none
};
// Errors say what is missing. The metrics that ask nobody need nothing.
Result<JudgeAccess> JudgeAccessOf(const spec::AccuracySpec& spec, const std::string& state_dir);
// Does anything answer at the judge's URL? A job is not to ask questions for hours before it is told.
Status JudgeAnswers(const spec::AccuracySpec& spec, std::stop_token stop);

// rows, statistics, summary and report.html; the verdict in a line. `stop` ends a judge's work; `progress`
// may be empty.
using JudgeTick = std::function<void(int64_t done, int64_t total, int64_t unrated)>;
Result<std::string> CompareAccuracy(const spec::AccuracySpec& spec, const std::string& directory,
                                    const std::string& state_dir, const JudgeTick& progress,
                                    std::stop_token stop);

// Verdict and detail from summary.json and accuracy.json; the detail says so when they cannot be read. A PASS
// that vouches for nothing is no verdict: the reference gave no right answer, or the stack has `tiers` below
// the GPUs and the counted pass read nothing from them.
void DescribeAccuracyResult(const std::string& directory, bool tiers, stats::AccuracyEvidence* evidence);

}  // namespace poolmark::controller
