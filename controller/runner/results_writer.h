// The results directory of a job, but for what the steps write themselves: job.json, plan.json, inputs/,
// manifest.json, summary.json, report.html, events.jsonl, SHA256SUMS. Complete and strict whenever a job
// ends, whatever the cause (decision M16). Used by one thread per job.
#pragma once
#include <string>

#include "common/results/manifest_file.h"
#include "controller/runner/environment.h"
#include "controller/runner/planning.h"

namespace poolmark::controller {

std::string ResultsDir(const Environment& environment, const std::string& job_id);

// At the lock: the plan and the inputs themselves (those above 64 MiB by digest only, named in
// inputs/inputs.json).
Status WriteInputs(const Environment& environment, const StoredJob& job, const PlannedJob* planned);

// Everything that is still missing, for a job that is about to be `state` with `verdict`. `planned` may be
// null (the inputs cannot be read any more). Events are written by WriteEvents afterwards.
Status WriteFinal(const Environment& environment, const StoredJob& job, v1::JobState state,
                  v1::TeardownVerdict verdict, const PlannedJob* planned,
                  const results::ManifestFile& manifest);

// events.jsonl as stored, then SHA256SUMS, which closes the directory.
Status WriteEvents(const Environment& environment, const std::string& job_id);
// All that a job which has ended still lacks, because the controller was cut off or its disk was full, then
// WriteEvents. What the steps could not write stays missing.
Status CloseResults(const Environment& environment, const std::string& job_id);
// SHA256SUMS is there: nothing will be written any more.
bool IsClosed(const Environment& environment, const std::string& job_id);

}  // namespace poolmark::controller
