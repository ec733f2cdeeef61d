// The text of each file of a results directory, to and from plain values. Readers take whatever a writer of
// the same schema may have written (unknown keys are ignored, older plans may lack what is marked so in
// types.h) and name file, line and field of what they refuse. Pure, thread-safe.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/result.h"
#include "common/quality/types.h"

namespace poolmark::quality {

// No file of a results directory is larger: such a one is neither written nor read.
inline constexpr uint64_t kMaxFileBytes = uint64_t{1} << 30;

// The settings object of plan.json in file order, one line.
Result<std::string> EncodeSettings(const Settings& settings);

// plan.json. Decoding refuses another schema_version first (error code "schema"), then checks that samples
// have distinct ids and consistent positions.
Result<std::string> EncodePlan(const Plan& plan);
// `keep_messages` false drops the prompts, which a comparison does not need.
Result<Plan> DecodePlan(std::string_view text, const std::string& where, bool keep_messages = true);
// manifest.jsonl, from the plan's samples.
Result<std::string> EncodeManifest(const Plan& plan);
Result<std::vector<Sample>> DecodeManifest(std::string_view text, const std::string& where);

// arm_<label>.json; role, run_index and label must agree.
Result<std::string> EncodeArm(const Arm& arm);
Result<Arm> DecodeArm(std::string_view text, const std::string& where);

// answers_<label>.jsonl. `keep_responses` false drops the full texts, which analyze does not need.
Result<std::string> EncodeAnswer(const Answer& answer);  // one line with its line end
Result<std::vector<Answer>> DecodeAnswers(std::string_view text, const std::string& where,
                                          bool keep_responses);

// requests_<label>.json. The totals are computed from its list.
Result<std::string> EncodeRequests(const RequestLog& log);
Result<RequestLog> DecodeRequests(std::string_view text, const std::string& where);

Result<std::string> EncodeRows(const std::vector<Row>& rows);
Result<std::vector<Row>> DecodeRows(std::string_view text, const std::string& where);

Result<std::string> EncodeSummary(const Summary& summary);
Result<Summary> DecodeSummary(std::string_view text, const std::string& where);

// "reference_<run_index + 1>", "control" or "candidate".
std::string ArmLabel(std::string_view role, int64_t run_index);

}  // namespace poolmark::quality
