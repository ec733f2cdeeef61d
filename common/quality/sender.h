// Sends one chat request and reports its outcome as the answers file holds it. Requests, retries and what
// counts as a success are those of LMCache's released sender: temperature 0, no seed; three attempts on
// refused connections, 408, 409, 429 and 5xx; text of a broken stream is discarded. Not thread-safe per
// object.
#pragma once
#include <functional>
#include <optional>
#include <stop_token>
#include <string>
#include <utility>

#include "common/base/clock.h"
#include "common/http/client.h"
#include "common/quality/types.h"

namespace poolmark::quality {

struct SendOutcome {
  bool successful = false;
  std::string response;
  std::optional<double> ttft_seconds;  // of the last attempt
  int64_t num_output_tokens = 0;
  int attempts = 0;
  std::string error;    // why it failed
  std::string problem;  // why the last attempt failed that did, also when a later one succeeded
};

// "host:port", with or without scheme, trailing "/" and "/v1" -> the API's base, which ends in "/v1".
std::string ApiBase(std::string url);
// The same without "/v1".
std::string ServerRoot(std::string url);

class Sender {
 public:
  // Waits; returns early when a stop is requested.
  using Sleep = std::function<void(Nanoseconds)>;
  struct Options {
    std::string url;
    std::string model;
    std::string template_kwargs_json = "{}";
    std::string api_key;  // "" sends "sk-dummy", as the openai client's users do
    Nanoseconds timeout = std::chrono::seconds(600);
  };
  Sender(http::Client* client, const Clock* clock, Sleep sleep, std::stop_token stop, Options options);

  SendOutcome Send(const Messages& messages, int64_t max_tokens);
  // Before a pass: is the engine there, and does it serve the model? One that refuses the key is
  // refused; one without a list of models passes. What it tells of the longest prompt and answer together.
  Result<std::optional<int64_t>> CheckEngine();
  // GET /version, nothing on any failure.
  std::optional<std::string> EngineVersion();
  // The body of a request, for tests and records.
  std::string Body(const Messages& messages, int64_t max_tokens) const;

 private:
  std::pair<std::string, std::string> Authorization() const;
  // True when another attempt may help; `wait` is what the server asked for.
  bool Attempt(const std::string& body, SendOutcome* outcome, std::optional<Nanoseconds>* wait);

  http::Client* client_;
  const Clock* clock_;
  Sleep sleep_;
  std::stop_token stop_;
  Options options_;
};

}  // namespace poolmark::quality
