// How long a workload's load takes at one level, for the plan's estimate, and whether its file can be read at
// all: a job over a broken trace is refused at submit, not after the launch. Reads the file; thread-safe.
// Not for the agentic shape, whose length is a setting.
#pragma once
#include <string>

#include "common/base/clock.h"
#include "common/base/result.h"
#include "common/spec/job.h"

namespace poolmark::controller {

// Larger files are not read for an estimate: the load reads them when its time has come.
inline constexpr int64_t kMaxEstimatedFileBytes = 64u << 20;

// What an answer takes when nobody measured it yet.
struct AnswerTime {
  Nanoseconds first = std::chrono::milliseconds(200);
  Nanoseconds per_token = std::chrono::milliseconds(20);
  auto operator<=>(const AnswerTime&) const = default;
};

// From a stack's parameters: a simulated engine's step is one of them, others get the usual time.
AnswerTime AnswerTimeOf(const spec::StackSpec& stack);

// `file`: where the workload's file lies, "" for shapes without one. Errors name it as the job does, with the
// line.
Result<Nanoseconds> WorkloadLength(const spec::WorkloadSpec& workload, const spec::LoadLevel& level,
                                   const std::string& file, const AnswerTime& answer);

}  // namespace poolmark::controller
