// Token ids of texts and of chat requests as one model counts them: either asked of the engine's tokenize
// endpoint or computed here from a tokenizer.json (see local.h). Counting for load shapes has its own seam
// (common/workload/tokens.h). Implementations may be used by several threads at once.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/base/result.h"
#include "common/http/client.h"

namespace poolmark::tokenizer {

using TokenIds = std::vector<uint32_t>;
using ChatMessages = std::vector<std::pair<std::string, std::string>>;  // (role, content)

struct TokenizerCalls {
  int64_t requests = 0;
  int64_t sent_again = 0;  // after answers that may pass
};

class Tokenizer {
 public:
  virtual ~Tokenizer() = default;
  // Without begin- and end-of-text tokens; control tokens written in the text are recognised.
  virtual Result<TokenIds> Encode(std::string_view text) = 0;
  // With the tokens that the model's texts begin or end with, as engines read the prompt of a completion.
  virtual Result<TokenIds> EncodePrompt(std::string_view text) = 0;
  // The whole prompt of a chat request: template, generation prompt, `kwargs_json` (an object, "{}" for none)
  // given to the template.
  virtual Result<TokenIds> EncodeChat(const ChatMessages& messages, const std::string& kwargs_json) = 0;
  // The longest prompt and answer together, where the engine tells it. Known once it has answered.
  virtual std::optional<int64_t> MaxModelTokens() const { return std::nullopt; }
  // What an endpoint was asked; nothing else is asked anything.
  virtual TokenizerCalls Calls() const { return {}; }
  // What it is, for provenance: "endpoint http://… (vllm)", "file …/tokenizer.json".
  virtual std::string Description() const = 0;
};

// The tokenize endpoint of the engine at `base_url`: vLLM's and SGLang's (/tokenize with "messages" or
// "prompt") or llama.cpp's (/apply-template and /tokenize with "content"); which one is found by asking.
// Errors name the URL. `api_key` "" sends none. Answers that may pass (common/http/retry.h) are asked for
// again after `sleep`, which may return early when the caller stops; empty: once. `client` and what `sleep`
// refers to must outlive the result.
using Sleep = std::function<void(Nanoseconds)>;
Result<std::unique_ptr<Tokenizer>> OpenEndpoint(http::Client* client, const std::string& base_url,
                                                const std::string& model, const std::string& api_key = "",
                                                const Sleep& sleep = {});

struct TokenReply {
  TokenIds ids;
  std::optional<int64_t> max_model_len;  // vLLM and SGLang tell it
};
// A tokenize endpoint's answer; errors begin with `where`. A max_model_len that is no length is as none.
Result<TokenReply> ReadTokenReply(std::string_view body, const std::string& where);

}  // namespace poolmark::tokenizer
