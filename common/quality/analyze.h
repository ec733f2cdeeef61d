// The comparison of the arms: rows, verdict and everything in summary.json, from the plan and the passes
// alone. No tokenizer, data set, engine or network; the judge's ratings come in as a table. Pure,
// thread-safe.
#pragma once
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "common/base/result.h"
#include "common/quality/directory.h"
#include "common/quality/types.h"

namespace poolmark::quality {

// Both prompts' ratings of one answer; a missing one stayed unrated after every try.
struct JudgeRating {
  std::optional<double> answer_first;
  std::optional<double> reference_first;
  std::optional<double> cached_score;  // as the cache line says, where the rating comes from there
  // The mean of what is there.
  std::optional<double> score() const;
};

struct JudgeTable {
  std::map<std::string, JudgeRating> by_key;  // JudgeKey() -> rating
  std::optional<std::string> insane;          // why the sanity check failed
  int64_t unrated = 0;                        // answers that were asked about and got no rating
  int64_t not_asked = 0;                      // given up: the judge had been silent too often in a row
  std::string problem;                        // the last one, of an answer without rating
};

// How a pass's requests went.
struct RequestTotals {
  int64_t requests = 0;
  int64_t sent_again = 0;
  int64_t failed = 0;
};

// Figures beside the verdict, for statistics.json.
struct ExtraStatistics {
  int64_t questions = 0;  // scored by every pass
  int64_t losses = 0;     // candidate below reference_1
  int64_t wins = 0;
  double sign_test_p = 1;
  double loss_rate_upper_95 = 1;
  std::optional<double> delta_low_95;  // delta -/+ 1.96 standard errors
  std::optional<double> delta_high_95;
  int64_t judged_twice = 0;  // judge metric: ratings from both prompts, and how often they differ
  int64_t judge_disagreements = 0;
  double judge_order_bias = 0;                    // mean of answer_first - reference_first
  std::optional<double> reference_noise;          // mean |reference_k - reference_1| over k > 1
  PerArm<std::optional<RequestTotals>> requests;  // nothing: other programs do not tell
};

struct Analysis {
  std::vector<Row> rows;
  Summary summary;
  ExtraStatistics statistics;
  std::vector<std::string> warnings;
};

// Errors: an unknown metric; the judge metric without a model or a table; no reference_1 or no candidate
// pass.
Result<Analysis> Analyze(const LoadedDirectory& directory, const VerdictSettings& settings,
                         const JudgeTable* judge);

// statistics.json.
Result<std::string> EncodeStatistics(const Analysis& analysis);

}  // namespace poolmark::quality
