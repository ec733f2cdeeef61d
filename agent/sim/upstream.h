// A non-blocking HTTP/1.1 client for the router: hundreds of exchanges on one thread, kept-alive
// connections, answers handed on piece by piece. Send() is thread-safe; callbacks come on the client's own
// thread, one at a time.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "common/http/client.h"

namespace poolmark::sim {

struct Exchange {
  http::Url url;
  std::string method = "POST";
  http::Headers headers;
  std::string body;
  Nanoseconds timeout = std::chrono::seconds(60);
  std::function<void(int status, const http::Headers& headers)> on_head;
  std::function<void(std::string_view piece)> on_body;
  // Exactly once, last. Not OK: no whole answer came; `on_head` may have been called before.
  std::function<void(Status)> on_done;
  // Looked at a few times a second: false gives the exchange up.
  std::function<bool()> wanted;
};

class Upstream {
 public:
  Upstream();
  ~Upstream();  // gives up what runs; on_done is called with CANCELLED
  void Send(Exchange exchange);

 private:
  class Loop;
  std::unique_ptr<Loop> loop_;
};

}  // namespace poolmark::sim
