// A streaming server for tests of the load: sends a chat stream token by token on its own schedule, keeps
// what it saw (requests, their ids and bodies, how many were in flight at once). Threads: one a connection.
#pragma once
#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "tests/support/raw_server.h"

namespace poolmark::test {

// A whole answer of one token, without a usage.
std::string OneToken();

// The same of so many tokens, an event each, with a usage.
std::string StreamOf(int tokens);

// The answer of a server that hangs: none, until the client gives the connection up (two seconds at most).
bool Silence(RawConnection& connection, const std::string& request, int number);

struct TokenServerOptions {
  int tokens = 4;
  std::chrono::microseconds first{0};    // from the request to the first token
  std::chrono::microseconds between{0};  // between tokens
  std::string unix_path = {};
  bool ipv6 = false;
  bool close_each = false;  // Connection: close
  // Instead of the stream: writes the answer itself. False: closes the connection.
  std::function<bool(RawConnection&, const std::string& request, int number)> answer = {};
};

class TokenServer {
 public:
  explicit TokenServer(TokenServerOptions options);
  std::string url() const { return server_->url(); }
  uint16_t port() const { return server_->port(); }
  int connections() const { return server_->connections(); }
  int requests() const { return requests_; }
  int max_in_flight() const { return max_in_flight_; }
  // Requests seen, by X-Request-ID.
  std::map<std::string, int> ids() const;
  // Steady times at which requests were complete, in order of arrival.
  std::vector<int64_t> arrivals() const;
  std::vector<std::string> bodies() const;

 private:
  void Serve(RawConnection& connection);
  bool Stream(RawConnection& connection) const;

  const TokenServerOptions options_;
  std::atomic<int> requests_{0};
  std::atomic<int> in_flight_{0};
  std::atomic<int> max_in_flight_{0};
  mutable std::mutex mutex_;  // guards ids_, arrivals_ and bodies_
  std::map<std::string, int> ids_;
  std::vector<int64_t> arrivals_;
  std::vector<std::string> bodies_;
  std::unique_ptr<RawServer> server_;  // last: its threads use the rest
};

}  // namespace poolmark::test
