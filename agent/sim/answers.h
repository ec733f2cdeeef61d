// What the engine says. Normally words that follow from the prompt (the same prompt gives the same text on
// every engine, as greedy decoding does). With a data set it answers questions by looking them up in the
// passages of the prompt, and spoils a set share of answers; as a judge it rates answers. Thread-safe after
// construction.
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "agent/sim/tokenizer.h"
#include "common/base/result.h"

namespace poolmark::sim {

// The i-th word of plain text for a prompt with this hash; always one token.
Token PlainWord(uint64_t prompt_hash, int64_t index);

struct AnswerOptions {
  std::string dataset;     // JSON or JSONL with question, answers, passages; "" : plain words
  double spoil_share = 0;  // of answers that were made from moved (blended) KV
  std::string spoil_kinds = "wrong,wording,abstain,empty,cut";
  double abstain_share = 0;  // of all questions
  double cut_share = 0;      // of all questions: the answer tag never closes
  uint64_t seed = 0;
  bool judge = false;
  std::string judge_fault;  // "", lying, garbage, silent, yes-man
};

struct Answer {
  std::string text;
  bool cut = false;  // ends for length
};

class Answerer {
 public:
  static Result<std::unique_ptr<Answerer>> Make(const AnswerOptions& options);
  // Nothing: plain words. `moved`: KV from other positions took part.
  std::optional<Answer> For(const std::string& prompt_text, bool moved) const;

 private:
  struct Question {
    std::string question;
    std::string gold;
    std::vector<std::string> passages;  // of the answer, when the data set marks or contains it
  };
  explicit Answerer(const AnswerOptions& options) : options_(options) {}
  Answer Look(const Question& question, const std::string& prompt_text, bool moved) const;
  Answer Spoil(const Question& question, const std::string& kind) const;
  Answer Rate(const std::string& prompt_text) const;

  AnswerOptions options_;
  std::vector<Question> questions_;
};

// The judge's rule: replies for an answer and its reference (see docs/simulator.md).
std::string JudgeReply(std::string_view answer, std::string_view reference, bool answer_first);

}  // namespace poolmark::sim
