#include "common/quality/sender.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "common/base/json.h"
#include "common/base/secrets.h"
#include "common/http/retry.h"
#include "common/quality/chat_stream.h"

namespace poolmark::quality {
namespace {

// Half to even on the exact value, as Python's round(x, 4).
double RoundTo4(double seconds) {
  char buffer[400];
  auto [end, error] = std::to_chars(buffer, buffer + sizeof buffer, seconds, std::chars_format::fixed, 4);
  if (error != std::errc()) return seconds;
  double rounded = seconds;
  std::from_chars(buffer, end, rounded);
  return rounded;
}

// Of an entry in vLLM's list of models.
std::optional<int64_t> MaxModelLength(const Json& model) {
  const Json longest = model.value("max_model_len", Json());
  if (!longest.is_number_unsigned() || longest.get<uint64_t>() == 0 || longest.get<uint64_t>() >= 1ull << 53)
    return std::nullopt;
  return longest.get<int64_t>();
}

}  // namespace

std::string ApiBase(std::string url) {
  while (!url.empty() && url.back() == '/') url.pop_back();
  if (url.find("://") == url.npos && !url.starts_with("unix:")) url.insert(0, "http://");
  if (!url.ends_with("/v1")) url += "/v1";
  return url;
}

std::string ServerRoot(std::string url) {
  std::string base = ApiBase(std::move(url));
  base.resize(base.size() - 3);
  return base;
}

Sender::Sender(http::Client* client, const Clock* clock, Sleep sleep, std::stop_token stop, Options options)
    : client_(client),
      clock_(clock),
      sleep_(std::move(sleep)),
      stop_(std::move(stop)),
      options_(std::move(options)) {}

std::string Sender::Body(const Messages& messages, int64_t max_tokens) const {
  Json list = Json::array();
  for (const Message& m : messages) list.push_back({{"role", m.role}, {"content", m.content}});
  Json body = {{"model", options_.model}, {"stream", true}};
  body["messages"] = std::move(list);
  body["max_tokens"] = max_tokens;
  body["stream_options"] = {{"include_usage", true}};
  body["temperature"] = 0.0;
  Result<Json> kwargs = ParseJson(options_.template_kwargs_json, "template kwargs");
  if (kwargs.ok() && !kwargs->empty()) body["chat_template_kwargs"] = *std::move(kwargs);
  return DumpJson(body).value_or("");
}

std::pair<std::string, std::string> Sender::Authorization() const {
  return {"Authorization", absl::StrCat("Bearer ", options_.api_key.empty() ? "sk-dummy" : options_.api_key)};
}

SendOutcome Sender::Send(const Messages& messages, int64_t max_tokens) {
  SendOutcome outcome;
  std::string body = Body(messages, max_tokens);
  http::Backoff backoff;
  while (outcome.attempts < http::kAttempts) {
    ++outcome.attempts;
    std::optional<Nanoseconds> wait;
    const bool again = Attempt(body, &outcome, &wait);
    if (!outcome.successful) outcome.problem = outcome.error;
    if (!again || outcome.attempts == http::kAttempts || stop_.stop_requested()) break;
    sleep_(backoff.Next(wait));
    if (stop_.stop_requested()) break;
  }
  return outcome;
}

bool Sender::Attempt(const std::string& body, SendOutcome* outcome, std::optional<Nanoseconds>* wait) {
  http::Request request;
  request.method = "POST";
  Result<http::Url> url = http::ParseUrl(ApiBase(options_.url) + "/chat/completions");
  if (!url.ok()) {
    outcome->error = std::string(url.status().message());
    return false;
  }
  request.url = *std::move(url);
  request.headers = {{"Content-Type", "application/json"}, {"Accept", "application/json"}, Authorization()};
  request.body = body;
  request.timeout = options_.timeout;
  request.idle_timeout = options_.timeout;
  request.max_body_bytes = 512u << 20;
  ChatStream stream;
  bool streaming = false;
  Nanoseconds start = clock_->Steady();
  Result<http::Response> response = client_->Stream(request, [&](std::string_view piece, Nanoseconds now) {
    streaming = true;
    return stream.Feed(piece, now) && !stop_.stop_requested();
  });
  outcome->error.clear();
  if (!response.ok()) {
    outcome->error = std::string(response.status().message());
    // A stream that broke, or a request that ran into its limit, is not sent again.
    return !streaming && http::ErrorMayPass(response.status());
  }
  if (response->status < 200 || response->status > 299) {
    outcome->error = absl::StrCat("HTTP ", response->status, ": ",
                                  ValidUtf8(std::string_view(Redacted(response->body)).substr(0, 300)));
    *wait = http::RetryAfter(*response);
    return http::StatusMayPass(response->status);
  }
  if (stop_.stop_requested()) {
    outcome->error = "interrupted";
    return false;
  }
  stream.End();
  std::optional<Nanoseconds> first = stream.first_output();
  if (stream.failed() || !first) {
    outcome->error = stream.failed() ? stream.error() : "no output";
    return false;
  }
  outcome->successful = true;
  outcome->response = ValidUtf8(stream.text());
  outcome->num_output_tokens = stream.output_tokens();
  outcome->ttft_seconds = RoundTo4(std::max(0.0, std::chrono::duration<double>(*first - start).count()));
  return false;
}

Result<std::optional<int64_t>> Sender::CheckEngine() {
  http::Request request;
  POOLMARK_ASSIGN_OR_RETURN(request.url, http::ParseUrl(ApiBase(options_.url) + "/models"));
  request.headers = {Authorization()};
  Result<http::Response> response = client_->Send(request);
  if (stop_.stop_requested()) return absl::CancelledError("interrupted");
  if (!response.ok()) {
    return Unavailable(
        options_.url,
        absl::StrCat("the engine cannot be reached: ", std::string(response.status().message())),
        "nothing of this arm was sent; earlier passes stand");
  }
  if (response->status == 401 || response->status == 403) {
    return Precondition(
        options_.url,
        absl::StrCat("answers ", response->status, " to ", options_.api_key.empty() ? "no" : "this",
                     " key: nothing of this arm was sent, earlier passes stand"),
        "give --api-key-file with the engine's key, or set OPENAI_API_KEY");
  }
  Result<Json> json = ParseJson(response->body, "models");
  if (response->status != 200 || !json.ok() || !json->is_object() || !json->contains("data") ||
      !(*json)["data"].is_array() || (*json)["data"].empty())
    return std::optional<int64_t>();
  std::string served;
  for (const Json& model : (*json)["data"]) {
    if (!model.is_object() || !model.contains("id") || !model["id"].is_string()) continue;
    const std::string id = ValidUtf8(model["id"].get<std::string>());
    if (id == options_.model) return MaxModelLength(model);
    absl::StrAppend(&served, served.empty() ? "" : ", ", id.substr(0, 100));
  }
  if (served.empty()) return std::optional<int64_t>();
  return Precondition(
      options_.url,
      absl::StrCat("does not serve the model '", options_.model, "', it serves ", served.substr(0, 400)),
      "give --model as the engine lists it");
}

std::optional<std::string> Sender::EngineVersion() {
  http::Request request;
  if (!options_.api_key.empty())
    request.headers = {{"Authorization", absl::StrCat("Bearer ", options_.api_key)}};
  Result<http::Url> url = http::ParseUrl(ServerRoot(options_.url) + "/version");
  if (!url.ok()) return std::nullopt;
  request.url = *std::move(url);
  Result<http::Response> response = client_->Send(request);
  if (!response.ok() || response->status != 200) return std::nullopt;
  Result<Json> json = ParseJson(response->body, "version");
  if (!json.ok() || !json->is_object() || !json->contains("version") || !(*json)["version"].is_string())
    return std::nullopt;
  return ValidUtf8((*json)["version"].get<std::string>());
}

}  // namespace poolmark::quality
