// What a load is made of, apart from the sessions. Plain values; ValidateOptions says all that is wrong.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/clock.h"
#include "common/base/result.h"
#include "common/http/client.h"
#include "common/load/arrivals.h"

namespace poolmark::load {

// Nothing is sent twice unless asked; each record says how many attempts it took.
struct RetryPolicy {
  int attempts = 1;         // in all
  bool on_connect = false;  // no connection
  bool on_stale = false;    // a kept connection was closed before any byte of the answer
  bool on_429 = false;      // waits Retry-After where given
  bool on_5xx = false;
  Nanoseconds pause = std::chrono::milliseconds(100);  // before the second attempt; doubles each time
};

struct LoadOptions {
  enum class Mode {
    kClosed,  // `users` users, each with one session at a time
    kRate,    // arrivals at a set rate
    kTrace,   // the sessions' own times
  };

  std::vector<http::Url> urls;  // of the API, path included; session n goes to urls[n % size]
  http::Headers headers;        // authorization and such
  http::TlsOptions tls;

  Mode mode = Mode::kClosed;
  uint32_t users = 1;
  Nanoseconds ramp_up{0};  // closed loop: users start evenly over this time
  ArrivalOptions arrivals;
  // Rate: each arrival sends the next turn of a session that waits for one, else opens a session; with
  // `rate_of_sessions` each arrival opens a session whose further turns follow by themselves.
  bool rate_of_sessions = false;
  double speedup = 1;  // trace: times are divided by it
  double think_scale = 1;
  std::optional<Nanoseconds> think_cap;

  // Warm-up: the window begins when all that are set are over.
  Nanoseconds warm_up{0};
  uint64_t warm_up_requests = 0;
  uint64_t warm_up_sessions = 0;
  std::optional<Nanoseconds> duration;  // of the load with its warm-up; nothing: until the sessions end
  uint64_t max_requests = 0;            // 0: no limit; counted from the first, warm-up included
  uint64_t measured_requests = 0;       // 0: no limit; the load ends once so many began in the window
  Nanoseconds drain = std::chrono::minutes(10);

  Nanoseconds deadline = std::chrono::minutes(10);  // of a request, from its start
  Nanoseconds stall = std::chrono::minutes(2);      // between two bytes after the first output
  Nanoseconds connect_timeout = std::chrono::seconds(10);
  Nanoseconds keep_alive = std::chrono::seconds(4);  // idle connections older than this are not used again
  uint32_t max_connections = 0;                      // of the process; 0: no limit
  RetryPolicy retry;

  int loops = 0;  // threads of this process; 0: DefaultLoops()
  // Several processes or machines share one plan: this is part `worker` of `workers`.
  uint32_t worker = 0;
  uint32_t workers = 1;

  std::string request_id_prefix = "poolmark";  // X-Request-ID: <prefix>-<session>-<turn>
};

// Refuses what is no name of a header, headers that the program sets itself (a second one would make the
// request wrong or ambiguous), and values with a line end or another control character.
Status CheckHeader(std::string_view name, std::string_view value);
// Whether one of the URLs, as written, is an https one: only for those is it said how certificates are
// checked.
bool AnyHttps(const std::vector<std::string>& urls);
// All that is wrong with them, and the same as one status.
Errors OptionErrors(const LoadOptions& options);
Status ValidateOptions(const LoadOptions& options);

// Of `total` things that are dealt out in turn, those of part `index` of `count`.
constexpr uint32_t ShareOf(uint32_t total, uint32_t index, uint32_t count) {
  return total / count + (index < total % count ? 1 : 0);
}
// Refuses a closed loop whose users would wait for each other's connections: the concurrency would not be the
// one that was asked for. `loops` is set.
Status CheckConnections(const LoadOptions& options, int processes);

// One loop carries tens of thousands of requests a second, and on a machine that it shares with others it is
// more punctual than several: one for every 1 000 users or 2 000 requests a second of this process's part,
// at most its share of the cores (docs/performance.md has the figures).
int DefaultLoops(const LoadOptions& options, int cores, int processes);

}  // namespace poolmark::load
