#include "cli/commands/load_tokens.h"

#include <thread>

#include "cli/commands/load_support.h"
#include "common/base/clock.h"
#include "common/http/retry.h"
#include "common/tokenizer/local.h"

namespace poolmark::cli {
namespace {

class FileCounter final : public workload::TokenCounter {
 public:
  explicit FileCounter(std::unique_ptr<tokenizer::Tokenizer> tokenizer) : tokenizer_(std::move(tokenizer)) {}
  Result<int64_t> CountText(std::string_view text) override {
    POOLMARK_ASSIGN_OR_RETURN(const tokenizer::TokenIds ids, tokenizer_->EncodePrompt(text));
    return static_cast<int64_t>(ids.size());
  }
  Result<int64_t> CountChat(const std::vector<std::pair<std::string, std::string>>& messages) override {
    POOLMARK_ASSIGN_OR_RETURN(const tokenizer::TokenIds ids, tokenizer_->EncodeChat(messages, "{}"));
    return static_cast<int64_t>(ids.size());
  }

 private:
  std::unique_ptr<tokenizer::Tokenizer> tokenizer_;
};

// The endpoint lies beside /v1, not below it.
Result<http::Url> TokenizeUrl(std::string base, const std::string& path) {
  while (base.ends_with('/')) base.pop_back();
  if (base.ends_with("/v1")) base.resize(base.size() - 3);
  const bool has_scheme = base.find("://") != std::string::npos || base.starts_with("unix:");
  return http::JoinApi(has_scheme ? base : "http://" + base, path);
}

// Ctrl-C ends it: between two looks at the flag that signals set.
void WaitUnlessStopped(Nanoseconds wait) {
  const Nanoseconds end = RealClock().Steady() + wait;
  while (LoadStop().load() == 0 && RealClock().Steady() < end)
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
}

}  // namespace

Result<Counter> OpenCounter(const TokenCounting& how) {
  Counter counter;
  if (!how.tokenize_url.empty() && !how.tokenizer_file.empty())
    return InvalidInput("load", "both a tokenize endpoint and a tokenizer file are to count the prompts",
                        "give one of them");
  if (!how.tokenizer_file.empty()) {
    POOLMARK_ASSIGN_OR_RETURN(auto tokenizer, tokenizer::OpenLocal(how.tokenizer_file));
    counter.name = tokenizer->Description();
    counter.tokens = std::make_unique<FileCounter>(std::move(tokenizer));
  }
  if (!how.tokenize_url.empty()) {
    POOLMARK_ASSIGN_OR_RETURN(const http::Url url, TokenizeUrl(how.tokenize_url, "/tokenize"));
    counter.name = url.ToString();
    counter.tokens = workload::EngineCounter(
        [how](const std::string& path, const std::string& body) -> Result<std::string> {
          http::Request request;
          request.method = "POST";
          POOLMARK_ASSIGN_OR_RETURN(request.url, TokenizeUrl(how.tokenize_url, path));
          request.headers = how.headers;
          request.headers.emplace_back("Content-Type", "application/json");
          request.body = body;
          request.tls = how.tls;
          POOLMARK_ASSIGN_OR_RETURN(const http::Response response,
                                    http::SendWithRetries(*http::MakeClient(), request, WaitUnlessStopped));
          if (response.status != 200)
            return Unavailable(request.url.ToString(), "HTTP " + std::to_string(response.status) + ": " +
                                                           response.body.substr(0, 200));
          return response.body;
        },
        how.model);
  }
  return counter;
}

}  // namespace poolmark::cli
