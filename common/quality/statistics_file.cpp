#include <nlohmann/json.hpp>

#include "common/base/json_text.h"
#include "common/base/version.h"
#include "common/quality/analyze.h"
#include "common/quality/codec_parts.h"

namespace poolmark::quality {

Result<std::string> EncodeStatistics(const Analysis& analysis) {
  const ExtraStatistics& x = analysis.statistics;
  Json out = {{"schema_version", kSchemaVersion},
              {"poolmark_version", Version()},
              {"run_fingerprint", analysis.summary.run_fingerprint},
              {"questions", x.questions},
              {"losses", x.losses},
              {"wins", x.wins},
              {"sign_test_p", x.sign_test_p},
              {"loss_rate_upper_95", x.loss_rate_upper_95},
              {"delta_low_95", OrNull(x.delta_low_95)},
              {"delta_high_95", OrNull(x.delta_high_95)},
              {"reference_noise", OrNull(x.reference_noise)}};
  if (analysis.summary.verdict_settings.judge_model) {
    out["judge"] = {{"rated_by_both_prompts", x.judged_twice},
                    {"disagreements", x.judge_disagreements},
                    {"order_bias", x.judge_order_bias}};
  }
  Json requests = Json::object();
  for (const auto& [label, totals] : x.requests) {
    requests[label] = nullptr;
    if (totals)
      requests[label] = {
          {"requests", totals->requests}, {"sent_again", totals->sent_again}, {"failed", totals->failed}};
  }
  out["requests"] = std::move(requests);
  out["warnings"] = analysis.warnings;
  POOLMARK_ASSIGN_OR_RETURN(std::string text, WriteJson(out, 2));
  return text + "\n";
}

}  // namespace poolmark::quality
