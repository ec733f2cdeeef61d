#include <atomic>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "common/base/json.h"
#include "common/http/retry.h"
#include "common/tokenizer/tokenizer.h"

namespace poolmark::tokenizer {
namespace {

// "http://host:port" of a base URL that may end in "/" or "/v1" and may lack its scheme.
std::string Root(std::string url) {
  while (!url.empty() && url.back() == '/') url.pop_back();
  if (url.find("://") == url.npos && !url.starts_with("unix:")) url = "http://" + url;
  if (url.ends_with("/v1")) url.resize(url.size() - 3);
  return url;
}

class Endpoint : public Tokenizer {
 public:
  Endpoint(http::Client* client, std::string root, std::string model, std::string api_key, Sleep sleep)
      : client_(client),
        root_(std::move(root)),
        model_(std::move(model)),
        api_key_(std::move(api_key)),
        sleep_(std::move(sleep)) {}

  std::optional<int64_t> MaxModelTokens() const override {
    const int64_t tokens = max_model_len_;
    return tokens > 0 ? std::optional(tokens) : std::nullopt;
  }
  TokenizerCalls Calls() const override { return {requests_, sent_again_}; }

 protected:
  Result<std::string> Post(const std::string& path, const Json& body) {
    std::string where = root_ + path;
    http::Request request;
    request.method = "POST";
    POOLMARK_ASSIGN_OR_RETURN(request.url, http::ParseUrl(where));
    request.headers = {{"Content-Type", "application/json"}};
    if (!api_key_.empty()) request.headers.emplace_back("Authorization", "Bearer " + api_key_);
    POOLMARK_ASSIGN_OR_RETURN(request.body, DumpJson(body));
    request.timeout = std::chrono::seconds(60);
    ++requests_;
    Sleep counted;
    if (sleep_) {
      counted = [this](Nanoseconds wait) {
        ++sent_again_;
        sleep_(wait);
      };
    }
    // A plan asks thousands of times and nothing of it is saved before the end.
    POOLMARK_ASSIGN_OR_RETURN(http::Response response, http::SendWithRetries(*client_, request, counted));
    if (response.status != 200) {
      return Unavailable(
          where, absl::StrCat("answered ", response.status, ": ", ValidUtf8(response.body.substr(0, 200))));
    }
    return std::move(response.body);
  }

  Result<TokenIds> Ids(const std::string& path, const Json& body) {
    POOLMARK_ASSIGN_OR_RETURN(std::string answer, Post(path, body));
    POOLMARK_ASSIGN_OR_RETURN(TokenReply reply, ReadTokenReply(answer, root_ + path));
    if (reply.max_model_len) max_model_len_ = *reply.max_model_len;
    return std::move(reply.ids);
  }

  http::Client* client_;
  std::string root_;
  std::string model_;
  std::string api_key_;
  Sleep sleep_;

 private:
  std::atomic<int64_t> max_model_len_ = 0;  // 0: not told
  std::atomic<int64_t> requests_ = 0;
  std::atomic<int64_t> sent_again_ = 0;
};

class VllmEndpoint final : public Endpoint {
 public:
  using Endpoint::Endpoint;
  Result<TokenIds> Encode(std::string_view text) override {
    return Ids("/tokenize", {{"model", model_}, {"prompt", ValidUtf8(text)}, {"add_special_tokens", false}});
  }
  Result<TokenIds> EncodePrompt(std::string_view text) override {
    return Ids("/tokenize", {{"model", model_}, {"prompt", ValidUtf8(text)}, {"add_special_tokens", true}});
  }
  Result<TokenIds> EncodeChat(const ChatMessages& messages, const std::string& kwargs_json) override {
    Json body = {{"model", model_}, {"add_generation_prompt", true}, {"add_special_tokens", false}};
    body["messages"] = Json::array();
    for (const auto& [role, content] : messages)
      body["messages"].push_back({{"role", role}, {"content", content}});
    POOLMARK_ASSIGN_OR_RETURN(Json kwargs, ParseJson(kwargs_json, "template kwargs"));
    if (!kwargs.empty()) body["chat_template_kwargs"] = std::move(kwargs);
    return Ids("/tokenize", body);
  }
  std::string Description() const override { return absl::StrCat("endpoint ", root_, "/tokenize"); }
};

class LlamaEndpoint final : public Endpoint {
 public:
  using Endpoint::Endpoint;
  Result<TokenIds> Encode(std::string_view text) override {
    return Ids("/tokenize", {{"content", ValidUtf8(text)}, {"add_special", false}, {"parse_special", true}});
  }
  Result<TokenIds> EncodePrompt(std::string_view text) override {
    return Ids("/tokenize", {{"content", ValidUtf8(text)}, {"add_special", true}, {"parse_special", true}});
  }
  Result<TokenIds> EncodeChat(const ChatMessages& messages, const std::string& kwargs_json) override {
    Json body = {{"add_generation_prompt", true}};
    body["messages"] = Json::array();
    for (const auto& [role, content] : messages)
      body["messages"].push_back({{"role", role}, {"content", content}});
    POOLMARK_ASSIGN_OR_RETURN(Json kwargs, ParseJson(kwargs_json, "template kwargs"));
    if (!kwargs.empty()) body["chat_template_kwargs"] = std::move(kwargs);
    POOLMARK_ASSIGN_OR_RETURN(std::string answer, Post("/apply-template", body));
    POOLMARK_ASSIGN_OR_RETURN(Json rendered, ParseJson(answer, root_ + "/apply-template"));
    if (!rendered.is_object() || !rendered.contains("prompt") || !rendered["prompt"].is_string()) {
      return InvalidInput(root_ + "/apply-template", "the answer has no text 'prompt'");
    }
    return Encode(rendered["prompt"].get<std::string>());
  }
  std::string Description() const override {
    return absl::StrCat("endpoint ", root_, "/apply-template + /tokenize");
  }
};

}  // namespace

Result<TokenReply> ReadTokenReply(std::string_view body, const std::string& where) {
  POOLMARK_ASSIGN_OR_RETURN(Json answer, ParseJson(body, where));
  if (!answer.is_object() || !answer.contains("tokens") || !answer["tokens"].is_array()) {
    return InvalidInput(where, "the answer has no array 'tokens'",
                        "give --tokenizer with a tokenizer.json instead");
  }
  TokenReply reply;
  for (const Json& token : answer["tokens"]) {
    if (!token.is_number_unsigned() || token.get<uint64_t>() > UINT32_MAX) {
      return InvalidInput(where, "'tokens' holds something that is no token id");
    }
    reply.ids.push_back(token.get<uint32_t>());
  }
  const Json longest = answer.value("max_model_len", Json());
  // Beyond 2^53 it is a mark for "no limit".
  if (longest.is_number_unsigned() && longest.get<uint64_t>() > 0 && longest.get<uint64_t>() < 1ull << 53)
    reply.max_model_len = longest.get<int64_t>();
  return reply;
}

Result<std::unique_ptr<Tokenizer>> OpenEndpoint(http::Client* client, const std::string& base_url,
                                                const std::string& model, const std::string& api_key,
                                                const Sleep& sleep) {
  std::string root = Root(base_url);
  const ChatMessages probe = {{"user", "a b"}};
  std::unique_ptr<Tokenizer> vllm = std::make_unique<VllmEndpoint>(client, root, model, api_key, sleep);
  Result<TokenIds> first = vllm->EncodeChat(probe, "{}");
  // llama.cpp answers any /tokenize, with no tokens when there is no "content".
  if (first.ok() && !first->empty()) return vllm;
  std::unique_ptr<Tokenizer> llama = std::make_unique<LlamaEndpoint>(client, root, model, api_key, sleep);
  Result<TokenIds> second = llama->EncodeChat(probe, "{}");
  if (second.ok() && !second->empty()) return llama;
  return Unavailable(
      root + "/tokenize",
      absl::StrCat("no tokenize endpoint that is known here answers (",
                   std::string(first.ok() ? second.status().message() : first.status().message()), ")"),
      "give --tokenizer with the model's tokenizer.json or its directory");
}

}  // namespace poolmark::tokenizer
