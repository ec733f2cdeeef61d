#include "common/load/quick_source.h"

#include <array>
#include <nlohmann/json.hpp>

#include "common/base/json.h"
#include "common/base/random.h"

namespace poolmark::load {
namespace {

// Common short words, one token each in most vocabularies.
constexpr std::array<std::string_view, 64> kWords = {
    "the",   "of",    "and",   "to",    "in",    "a",    "is",   "that", "for",   "it",   "as",
    "was",   "with",  "be",    "by",    "on",    "not",  "he",   "are",  "at",    "from", "this",
    "or",    "an",    "his",   "they",  "which", "you",  "one",  "we",   "all",   "were", "her",
    "she",   "there", "would", "their", "will",  "when", "who",  "him",  "been",  "has",  "more",
    "if",    "no",    "out",   "so",    "what",  "time", "up",   "go",   "about", "than", "into",
    "could", "state", "only",  "new",   "year",  "some", "take", "come", "these"};

class QuickSession final : public Session {
 public:
  QuickSession(const QuickOptions& options, const std::string& head, const std::string& tail, uint64_t number)
      : options_(options), head_(head), tail_(tail), number_(number), id_("q" + std::to_string(number)) {}
  std::string_view id() const override { return id_; }
  size_t turns() const override { return 1; }
  TurnPlan turn(size_t) const override {
    TurnPlan plan;
    plan.input_tokens = options_.input_tokens;
    plan.output_tokens = options_.output_tokens;
    return plan;
  }
  void Render(size_t, std::string* body) override {
    SplitMix64 random(options_.seed * 0x9e3779b97f4a7c15ull + number_);
    body->reserve(head_.size() + tail_.size() + static_cast<size_t>(options_.input_tokens) * 6);
    *body += head_;
    const std::vector<std::string>& words = options_.words;
    const int64_t length = options_.input_tokens - options_.overhead_tokens;
    for (int64_t i = 0; i < length; ++i) {
      if (options_.prompt_ids) {
        if (i > 0) *body += ',';
        *body += std::to_string(100 + random.Below(options_.vocabulary - 100));
      } else {
        if (i > 0) *body += ' ';
        body->append(words.empty() ? kWords[random.Next() & 63]
                                   : std::string_view(words[random.Below(words.size())]));
      }
    }
    *body += tail_;
  }

 private:
  const QuickOptions& options_;
  const std::string& head_;
  const std::string& tail_;
  uint64_t number_;
  std::string id_;
};

class QuickSource final : public SessionSource {
 public:
  explicit QuickSource(const QuickOptions& options, const std::string& model) : options_(options) {
    head_ = "{\"model\":" + model +
            ",\"stream\":true,\"stream_options\":{\"include_usage\":true},\"max_tokens\":" +
            std::to_string(options.output_tokens);
    if (options.ignore_eos) head_ += ",\"ignore_eos\":true";
    head_ += ",\"temperature\":0,";
    if (options.prompt_ids) {
      head_ += "\"prompt\":[";
      tail_ = "]}";
    } else if (options.chat) {
      head_ += R"("messages":[{"role":"user","content":")";
      tail_ = "\"}]}";
    } else {
      head_ += "\"prompt\":\"";
      tail_ = "\"}";
    }
  }
  std::optional<uint64_t> size() const override { return options_.requests; }
  std::unique_ptr<Session> Open(uint64_t number) override {
    if (options_.requests.has_value() && number >= *options_.requests) return nullptr;
    return std::make_unique<QuickSession>(options_, head_, tail_, number);
  }
  std::string_view api_path() const override {
    return options_.chat ? "/v1/chat/completions" : "/v1/completions";
  }

 private:
  const QuickOptions options_;
  std::string head_;
  std::string tail_;
};

}  // namespace

Result<std::unique_ptr<SessionSource>> MakeQuickSource(const QuickOptions& options) {
  if (options.model.empty())
    return InvalidInput("load", "no model", "give --model NAME, as the server lists it under /v1/models");
  if (options.prompt_ids && options.chat)
    return InvalidInput("load", "token ids cannot be sent to the chat API",
                        "use --api completions with --prompt-ids");
  if (options.input_tokens < 1 || options.input_tokens > 10'000'000) {
    return InvalidInput(
        "load", std::to_string(options.input_tokens) + " input tokens are not between 1 and 10000000");
  }
  if (options.input_tokens <= options.overhead_tokens) {
    return InvalidInput("load",
                        std::to_string(options.input_tokens) + " input tokens leave none for words: " +
                            std::to_string(options.overhead_tokens) + " are of the chat template alone",
                        "give more --input-tokens");
  }
  if (options.output_tokens < 1 || options.output_tokens > 10'000'000) {
    return InvalidInput(
        "load", std::to_string(options.output_tokens) + " output tokens are not between 1 and 10000000");
  }
  if (options.vocabulary < 200) return InvalidInput("load", "the vocabulary has fewer than 200 ids");
  POOLMARK_ASSIGN_OR_RETURN(const std::string model, DumpJson(Json(options.model)));
  return std::unique_ptr<SessionSource>(new QuickSource(options, model));
}

}  // namespace poolmark::load
