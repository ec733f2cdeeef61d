// The files of an accuracy run in quality/<stack> of a job's results directory: taking over an arm that a
// machine made, the comparison, and what they say. accuracy.json holds what the answer-quality format has no
// place for. One writer at a time.
#pragma once
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

// rows, statistics, summary and report.html; the verdict in a line. `stop` ends a judge's work. The judge's
// key is the controller's OPENAI_API_KEY.
Result<std::string> CompareAccuracy(const spec::AccuracySpec& spec, const std::string& directory,
                                    std::stop_token stop);

// Verdict and detail from summary.json and accuracy.json; the detail says so when they cannot be read.
void DescribeAccuracyResult(const std::string& directory, stats::AccuracyEvidence* evidence);

}  // namespace poolmark::controller
