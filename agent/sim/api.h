// The OpenAI-compatible wire format of the simulated engine: requests in, replies and stream events out,
// in the shapes that vLLM 0.32 sends. Pure, thread-safe.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "agent/sim/tokenizer.h"

namespace poolmark::sim {

// kv_transfer_params of vLLM's NixlConnector, as far as a hand-over needs them.
struct TransferParams {
  bool do_remote_decode = false;   // to the prefill side: keep the blocks for another engine
  bool do_remote_prefill = false;  // to the decode side: fetch the blocks from another engine
  std::string engine_id;
  std::string request_id;
  std::string host;
  int port = 0;
  int64_t num_tokens = 0;
};

struct GenerateRequest {
  bool chat = false;
  std::string model;
  std::vector<Token> prompt;
  // The prompt's text as it came, messages joined by line ends; empty for a prompt given as ids.
  std::string text;
  std::optional<int64_t> max_tokens;
  bool stream = false;
  bool include_usage = false;
  bool continuous_usage = false;
  std::optional<TransferParams> transfer;
  std::string session;  // the fields session_id or user, for routers
};

struct ApiError {
  int status = 400;
  std::string type = "BadRequestError";
  std::string message;
  std::string param;  // "" is null
  std::string ToJson() const;
};

struct Usage {
  int64_t prompt_tokens = 0;
  int64_t completion_tokens = 0;
  int64_t cached_tokens = 0;
  int64_t created_cache_tokens = 0;
};

// The body of /v1/chat/completions (`chat`) or /v1/completions.
std::optional<ApiError> ParseGenerate(std::string_view body, bool chat, GenerateRequest* request);
// The body of /tokenize: messages or prompt.
std::optional<ApiError> ParseTokenize(std::string_view body, std::vector<Token>* tokens, bool* with_strings);
// The body of /detokenize.
std::optional<ApiError> ParseDetokenize(std::string_view body, std::vector<Token>* tokens);
// The body of /sim/fault: {"fault": "crash:after=2s"}, or the bare text.
std::optional<ApiError> ParseFaultBody(std::string_view body, std::string* text);

// What replies to one request have in common.
struct ReplyHead {
  bool chat = false;
  std::string id;
  std::string model;
  int64_t created = 0;
};

// Stream events, each "data: {...}\n\n".
std::string RoleEvent(const ReplyHead& head);
// `field` is content, reasoning or reasoning_content (chat); completions only have text.
std::string TextEvent(const ReplyHead& head, std::string_view field, std::string_view text,
                      const Usage* usage);
std::string FinishEvent(const ReplyHead& head, std::string_view reason, const Usage* usage);
std::string UsageEvent(const ReplyHead& head, const Usage& usage);
std::string ErrorEvent(const ApiError& error, bool as_error_event);
inline constexpr std::string_view kDoneEvent = "data: [DONE]\n\n";

// A whole reply. `usage` and `transfer` may be nullptr.
std::string WholeReply(const ReplyHead& head, std::string_view text, std::string_view reasoning,
                       std::string_view finish_reason, const Usage* usage, const TransferParams* transfer,
                       size_t transfer_blocks);

std::string ModelsReply(const std::string& model, int64_t created, int64_t max_model_len);
std::string TokenizeReply(const std::vector<Token>& tokens, bool with_strings, int64_t max_model_len);
std::string DetokenizeReply(const std::vector<Token>& tokens);

// Quotes and escapes; invalid UTF-8 becomes U+FFFD.
void AppendJsonString(std::string_view text, std::string* out);

}  // namespace poolmark::sim
