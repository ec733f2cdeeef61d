// What the fuzzers of the answer-quality benchmark do with an input: read it as every file, or as every kind
// of text, and check what must hold whatever was read. Used by libFuzzer and, on recorded and mutated inputs,
// by a test.
#pragma once
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/json.h"
#include "common/base/json_repair.h"
#include "common/quality/accuracy_file.h"
#include "common/quality/analyze.h"
#include "common/quality/blend_counters.h"
#include "common/quality/chat_stream.h"
#include "common/quality/codec.h"
#include "common/quality/dataset.h"
#include "common/quality/extract.h"
#include "common/quality/judge.h"
#include "common/quality/judge_cache.h"
#include "common/quality/plan.h"
#include "common/quality/plan_split.h"
#include "common/quality/scoring.h"
#include "common/quality/statistics_check.h"
#include "common/tokenizer/config.h"
#include "common/tokenizer/tokenizer.h"

namespace poolmark::test {

inline void Must(bool holds) {
  if (!holds) std::abort();
}

inline constexpr int kQualityFileKinds = 13;

// What was read is written and read again to the same bytes.
template <class Decoded, class Encode, class Decode>
void SameAgain(const Decoded& decoded, const Encode& encode, const Decode& decode) {
  if (!decoded.ok()) return;
  Result<std::string> first = encode(*decoded);
  Must(first.ok());
  auto again = decode(*first);
  Must(again.ok());
  Must(*encode(*again) == *first);
}

// A directory of one question and two passes.
inline quality::LoadedDirectory OneQuestion() {
  using namespace quality;
  LoadedDirectory one;
  one.plan.settings_json = "{}";
  Sample sample;
  sample.qid = "a";
  sample.question = "q";
  sample.answers = {"x"};
  one.plan.samples.push_back(sample);
  for (const char* role : {"reference", "candidate"}) {
    Pass pass;
    pass.arm.role = role;
    pass.arm.label = ArmLabel(role, 0);
    Answer answer;
    answer.qid = "a";
    answer.successful = true;
    answer.answer = "x";
    pass.answers.push_back(answer);
    one.passes.push_back(std::move(pass));
  }
  return one;
}

// One reader of a results directory; `kind` in [0, kQualityFileKinds).
inline void FuzzQualityFile(int kind, std::string_view text) {
  using namespace quality;
  auto answers_text = [](const std::vector<Answer>& answers) -> Result<std::string> {
    std::string out;
    for (const Answer& a : answers) {
      POOLMARK_ASSIGN_OR_RETURN(std::string line, EncodeAnswer(a));
      out += line;
    }
    return out;
  };
  switch (kind) {
    case 0: {
      // Every byte of the text is in one piece or between them.
      const SplitPlan split = SplitPlanText(text);
      size_t pieces = split.rest.size();
      for (const auto* list : {&split.store_requests, &split.samples}) {
        for (std::string_view piece : *list) pieces += piece.size();
      }
      Must(pieces <= text.size());
      SameAgain(DecodePlan(text, "f"), EncodePlan, [](const std::string& t) { return DecodePlan(t, "f"); });
      break;
    }
    case 1:
      (void)DecodeManifest(text, "f");
      break;
    case 2:
      SameAgain(DecodeArm(text, "f"), EncodeArm, [](const std::string& t) { return DecodeArm(t, "f"); });
      break;
    case 3:
      SameAgain(DecodeAnswers(text, "f", true), answers_text,
                [](const std::string& t) { return DecodeAnswers(t, "f", true); });
      break;
    case 4:
      SameAgain(DecodeRows(text, "f"), EncodeRows, [](const std::string& t) { return DecodeRows(t, "f"); });
      break;
    case 5:
      SameAgain(DecodeSummary(text, "f"), EncodeSummary,
                [](const std::string& t) { return DecodeSummary(t, "f"); });
      // The settings are used again by whoever recomputes.
      if (Result<Summary> summary = DecodeSummary(text, "f"); summary.ok()) {
        const LoadedDirectory one = OneQuestion();
        const JudgeTable table;
        Must(Analyze(one, summary->verdict_settings,
                     summary->verdict_settings.metric == "judge" ? &table : nullptr)
                 .ok());
      }
      break;
    case 6: {
      const auto cache = DecodeCache(text);
      for (const auto& [key, rating] : cache)
        Must(rating.score() && *rating.score() >= 0 && *rating.score() <= 1);
      break;
    }
    case 10: {
      // As `verify` reads statistics.json.
      Recomputed again;
      again.analysis = Analyze(OneQuestion(), {}, nullptr).value();
      again.stored_reasons = again.reasons = {"unscored: x"};
      if (Result<StatisticsCheck> found = CheckStatistics(text, "f", again); found.ok())
        Must(found->problems.size() <= 3 && found->warnings.size() <= 1);
      break;
    }
    case 11:
      // The accuracy run of a job.
      SameAgain(DecodeAccuracyFile(text, "f"), EncodeAccuracyFile,
                [](const std::string& t) { return DecodeAccuracyFile(t, "f"); });
      if (Result<AccuracyFile> file = DecodeAccuracyFile(text, "f"); file.ok())
        Must(!DescribeSources(*file).empty());
      break;
    case 12:
      for (const bool with_template : {false, true})
        (void)tokenizer::ReadTokenizerConfig(text, "f", with_template);
      break;
    case 9:
      SameAgain(DecodeRequests(text, "f"), EncodeRequests,
                [](const std::string& t) { return DecodeRequests(t, "f"); });
      break;
    default: {
      Result<Dataset> dataset = ParseDataset(text, "f", kind == 8, 0);
      if (!dataset.ok()) break;
      Must((dataset->skipped_records == 0) == dataset->first_skipped.empty());
      for (const Question& q : dataset->questions) {
        Must(!q.question.empty() && !q.answers.empty() && !q.documents.empty());
        for (int64_t index : q.evidence) Must(index >= 0 && static_cast<size_t>(index) < q.documents.size());
      }
    }
  }
}

// Model output, streams, pages and arguments.
inline void FuzzQualityText(std::string_view text) {
  using namespace quality;
  std::string answer = ExtractAnswer(text);
  Must(ValidUtf8(answer) == answer);
  size_t half = text.size() / 2;
  std::vector<std::string> golds{std::string(text.substr(half))};
  double f1 = BestF1(text.substr(0, half), golds);
  Must(f1 >= 0 && f1 <= 1);
  (void)Matches(text.substr(0, half), golds);
  (void)IsAbstention(text);
  (void)Normalize(text);
  std::optional<double> rating = ParseRating(text);
  Must(!rating || (*rating >= 0 && *rating <= 1));
  (void)ParseBlendPage(text);
  (void)tokenizer::ReadTokenReply(text, "f");
  (void)ParseTemplateKwargs({std::string(text)});
  std::string repaired = RepairJson(text);
  Must(ValidUtf8(repaired) == repaired);
  // A stream gives the same, however it is cut.
  ChatStream whole, cut;
  whole.Feed(text, Nanoseconds(1));
  whole.End();
  for (char c : text) {
    if (!cut.Feed(std::string_view(&c, 1), Nanoseconds(1))) break;
  }
  cut.End();
  Must(whole.failed() == cut.failed());
  if (!whole.failed()) Must(whole.text() == cut.text() && whole.output_tokens() == cut.output_tokens());
}

}  // namespace poolmark::test
