#include "common/http/retry.h"

#include <algorithm>
#include <charconv>

namespace poolmark::http {

bool StatusMayPass(int status) {
  return status == 408 || status == 409 || status == 429 || status >= 500;
}

bool ErrorMayPass(const Status& error) {
  return !absl::IsCancelled(error) && ErrorOf(error).code != "timed_out";
}

std::optional<Nanoseconds> RetryAfter(const Response& response) {
  for (const auto& [name, unit] : {std::pair("retry-after-ms", 1e6), std::pair("retry-after", 1e9)}) {
    const std::string value = response.header(name).value_or("");
    if (value.empty()) continue;
    double number = 0;
    const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), number);
    double nanoseconds = number * unit;
    if (error == std::errc() && nanoseconds > 0 && nanoseconds <= 60e9)
      return Nanoseconds(static_cast<int64_t>(nanoseconds));
  }
  return std::nullopt;
}

Nanoseconds Backoff::Next(std::optional<Nanoseconds> asked_for) {
  const Nanoseconds wait = asked_for.value_or(next_);
  next_ = std::min<Nanoseconds>(next_ * 2, std::chrono::seconds(8));
  return wait;
}

Result<Response> SendWithRetries(Client& client, const Request& request,
                                 const std::function<void(Nanoseconds)>& sleep) {
  Backoff backoff;
  for (int attempt = 1;; ++attempt) {
    Result<Response> response = client.Send(request);
    const bool again = response.ok() ? StatusMayPass(response->status) : ErrorMayPass(response.status());
    if (!again || !sleep || attempt == kAttempts) return response;
    sleep(backoff.Next(response.ok() ? RetryAfter(*response) : std::nullopt));
  }
}

}  // namespace poolmark::http
