// When a request is worth sending again, as the openai client decides it (LMCache's released sender relies on
// that): for the sender of questions, the judge, and whoever asks a tokenize endpoint. Load is never sent
// again by these rules. Thread-safe.
#pragma once
#include <functional>
#include <optional>

#include "common/http/client.h"

namespace poolmark::http {

// How often a request is sent in all.
constexpr int kAttempts = 3;

// 408, 409, 429 and 5xx.
bool StatusMayPass(int status);
// A connection that was refused or broke. Not a time limit, whose whole length would be waited again, and not
// a stop.
bool ErrorMayPass(const Status& error);
// retry-after-ms, else retry-after in seconds; dates and what is beyond a minute are not followed.
std::optional<Nanoseconds> RetryAfter(const Response& response);

// The wait before the next attempt: what the server asked for, else 0.5 s, 1 s, 2 s ... up to 8 s.
class Backoff {
 public:
  Nanoseconds Next(std::optional<Nanoseconds> asked_for);

 private:
  Nanoseconds next_ = std::chrono::milliseconds(500);
};

// The last of up to kAttempts answers. `sleep` waits, and may return early when the caller stops; empty: one
// attempt.
Result<Response> SendWithRetries(Client& client, const Request& request,
                                 const std::function<void(Nanoseconds)>& sleep);

}  // namespace poolmark::http
