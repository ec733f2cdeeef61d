// Exact lengths of text prompts (M23). A prompt of words is exact when each word is one token; which words
// are, the engine's own tokenizer says. Token ids sent to /v1/completions need none of this.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/base/result.h"

namespace poolmark::workload {

// Counts tokens as one engine does. Not thread-safe.
class TokenCounter {
 public:
  virtual ~TokenCounter() = default;
  // The prompt of a completion: with what begins or ends every text of this model (a beginning-of-text
  // token).
  virtual Result<int64_t> CountText(std::string_view text) = 0;
  // The whole prompt of a chat request, template included; (role, content) pairs.
  virtual Result<int64_t> CountChat(const std::vector<std::pair<std::string, std::string>>& messages) = 0;
};

// More tokens than any text has: an engine that counts more is not believed.
inline constexpr int64_t kMostCounted = 1'000'000'000;

// POST to the engine: path and JSON body in, JSON body out.
using Post = std::function<Result<std::string>(const std::string& path, const std::string& body)>;
// The tokenize endpoints of vLLM ({"count": n}) and of llama.cpp ({"tokens": [...]}); which one is
// found by asking.
std::unique_ptr<TokenCounter> EngineCounter(Post post, std::string model);

struct TextTokens {
  std::vector<std::string> words;
  int64_t text_overhead = 0;     // tokens that any text prompt has besides its words (a beginning of text)
  int64_t chat_overhead = 0;     // and any chat prompt
  int64_t message_overhead = 0;  // per message of a user or an assistant
  int64_t system_overhead = 0;   // of a first message of the system; below 0 where it takes a default's place
  bool exact = false;
};

// Common short English words without any check.
const std::vector<std::string>& PlainWords();

// Keeps the words that are one token each, and measures the template's overhead. Asks the counter a few
// dozen times. `system`: chats begin with a message of the system. Fails when fewer than 64 words are left,
// when the counter is not consistent, and when a template takes no system message that is wanted.
Result<TextTokens> CalibrateWords(TokenCounter* counter, bool chat, bool system);

}  // namespace poolmark::workload
