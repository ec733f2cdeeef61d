// Whether a candidate really reused KV: the gates that keep a run that reused nothing from passing. Pure,
// thread-safe.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "common/quality/types.h"

namespace poolmark::quality {

// Sum over the plan; nothing when a question has no figure (older plans).
std::optional<int64_t> ExpectedTokens(const Plan& plan);

// Share of the blended in the looked-up tokens, and of the reused in the expected ones, over the windows of
// ten questions. Tokens whose reading failed are in the next one that did not.
std::vector<double> BlendWindows(const Pass& candidate);
std::vector<double> ReuseWindows(const Plan& plan, const Pass& candidate);

// The engagement block of summary.json. Blend gate: share of looked-up tokens served by blending, over the
// pass and its lowest window; concatenated: reused over expected tokens.
Engagement EngagementOf(const Plan& plan, const Pass& candidate, const VerdictSettings& settings);

// What the chunks that the store requests registered say about the cache before the pass: nothing when there
// were as many as a cold one registers at least.
std::optional<std::string> WarmStart(const Plan& plan, double registered);

// The reason for INVALID, or nothing when engaged: which value is too low, where, and what the counters say
// about the cause.
std::optional<std::string> WhyNotEngaged(const Plan& plan, const Pass& candidate,
                                         const Engagement& engagement, const VerdictSettings& settings);

// The question after which the counters were read for the last time, where later ones had no reading.
std::optional<std::string> LastRead(const Pass& candidate);

// A counter that fell during the pass, or between two questions of it, was reset (decision Q11).
std::optional<std::string> CounterReset(const Pass& candidate);

}  // namespace poolmark::quality
