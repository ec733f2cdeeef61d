// Is a process ready? One look at a time, and how long to go on looking. Thread-safe.
#pragma once
#include <string>

#include "common/base/clock.h"
#include "common/base/result.h"
#include "common/http/client.h"

namespace poolmark::process {

struct ReadinessSpec {
  std::string http_url;       // 2xx
  std::string redis_address;  // host:port that answers PING with PONG
  std::string tcp_address;    // host:port that accepts
  Nanoseconds within = std::chrono::minutes(30);
  bool empty() const { return http_url.empty() && redis_address.empty() && tcp_address.empty(); }
};

// OK: all that is asked for answers as it should now. Otherwise what did not.
Status LookOnce(const ReadinessSpec& spec, http::Client& client, Nanoseconds timeout);

// "host:port" or "[v6]:port".
Status SplitHostPort(const std::string& text, std::string* host, uint16_t* port);

// The patience with a slow start: `within`, again as long as the log grew meanwhile, three times in all.
class Patience {
 public:
  Patience(Nanoseconds within, Nanoseconds now) : within_(within), begin_(now), deadline_(now + within) {}
  // True when it is over. `log_end` is the length of the log so far.
  bool Over(Nanoseconds now, uint64_t log_end);
  Nanoseconds waited(Nanoseconds now) const { return now - begin_; }

 private:
  Nanoseconds within_;
  Nanoseconds begin_;
  Nanoseconds deadline_;
  uint64_t log_at_extension_ = 0;
  int periods_ = 1;
};

}  // namespace poolmark::process
