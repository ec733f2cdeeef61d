// For programs, what report_text.h gives people: lost questions, a comparison of two directories, what
// `verify` found. One JSON value each, strict, with stable names (docs/quality.md). Pure, thread-safe.
#pragma once
#include <string>
#include <vector>

#include "common/base/result.h"
#include "common/quality/directory.h"
#include "common/quality/report_text.h"
#include "common/quality/types.h"
#include "common/quality/verify.h"

namespace poolmark::quality {

// An array of rows as in rows.jsonl, each with "request_id" and "question" too, and with `options.responses`
// with "responses" (label -> text). Texts are whole.
Result<std::string> ShowJson(const std::vector<Row>& rows, const LoadedDirectory& directory,
                             const ShowOptions& options);
// {"sound", "checked", "warnings", "problems"}.
Result<std::string> VerifyJson(const VerifyReport& report);
// {"run_fingerprint", "a", "b" (verdict, mean_score, delta, standard_error, unscored_questions), "delta",
// "standard_error" (B against A, question by question), "questions", "changed": [{qid, scores, answers}]}.
Result<std::string> CompareJson(const Summary& a, const std::vector<Row>& a_rows, const Summary& b,
                                const std::vector<Row>& b_rows);

}  // namespace poolmark::quality
