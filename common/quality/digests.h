// The digests of the results directory: lower-case hex prefixes of SHA-256 over exactly the bytes that
// Python's json.dumps gives, so that any tool can recompute them (decision Q2). Pure, thread-safe.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "common/base/result.h"
#include "common/quality/types.h"

namespace poolmark::quality {

// 12 hex over the raw passage text, before padding.
std::string PassageId(std::string_view passage);
// 16 hex over json.dumps(messages, sort_keys=True).
std::string PromptHash(const Messages& messages);
// 16 hex over the list of every store request's messages, then every question's.
std::string PromptsDigest(const std::vector<StoreRequest>& stores, const std::vector<Sample>& samples);
// 16 hex over {"prompts_digest", "settings"}; `settings_json` is the object as it stands in plan.json.
Result<std::string> PlanFingerprint(const std::string& settings_json, const std::string& prompts_digest);
// 16 hex over {"settings", "verdict_metric", "prompts_digest"} and, with the judge, "judge_model",
// "judge_metric".
Result<std::string> RunFingerprint(const std::string& settings_json, const std::string& prompts_digest,
                                   const VerdictSettings& verdict);
// 64 hex over [metric id, judge model, question, answer, reference].
std::string JudgeKey(std::string_view judge_model, std::string_view question, std::string_view answer,
                     std::string_view reference);

}  // namespace poolmark::quality
