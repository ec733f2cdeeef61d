// Rates answers with a language model: ragas 0.4.3's nv_accuracy over an OpenAI-compatible URL that the user
// gives. Two prompts for each answer, at most five tries each, ratings read from the first digit 0 to 4 found
// in that order. Calls run in parallel; every finished rating is in the cache at once.
#pragma once
#include <functional>
#include <stop_token>
#include <string>
#include <string_view>

#include "common/base/clock.h"
#include "common/base/result.h"
#include "common/http/client.h"
#include "common/quality/analyze.h"
#include "common/quality/judge_cache.h"
#include "common/quality/judge_templates.h"

namespace poolmark::quality {

// The rating in a judge's reply, 0 to 1, as ragas reads it: the smallest digit of 0..4 that occurs anywhere,
// by 4.
std::optional<double> ParseRating(std::string_view reply);

struct JudgeOptions {
  std::string url;
  std::string model;
  std::string api_key;
  int parallel = 8;
  Nanoseconds timeout = std::chrono::seconds(120);
};

struct JudgeProgress {
  int64_t done = 0;
  int64_t total = 0;
  int64_t unrated = 0;
};

struct JudgeContext {
  http::Client* client = nullptr;
  std::function<void(Nanoseconds)> sleep;
  std::stop_token stop;
  std::function<void(const JudgeProgress&)>
      progress;  // may be empty; called from several threads, one at a time
};

// Ratings of every distinct (question, answer, first gold) of the directory, from the cache or the judge.
// Before the first call one right and one wrong known answer are rated; a judge that cannot tell them apart
// rates nothing and the table says why. Errors: the judge cannot be reached at all, the cache cannot be
// written, interrupted.
Result<JudgeTable> RateAnswers(const LoadedDirectory& directory, const JudgeOptions& options,
                               const JudgeTemplates& templates, JudgeCache* cache,
                               const JudgeContext& context);

}  // namespace poolmark::quality
