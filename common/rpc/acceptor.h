// Our own listening socket in front of gRPC. gRPC 1.51 stops accepting for good once the process runs out of
// file descriptors (CVE-2023-4785), and it caps nothing before TLS; here connections are capped in total, per
// source and while they are pending (have made no call yet), and descriptor exhaustion is drained with a
// reserve. An accepted socket is handed over once and never closed here afterwards. Thread-safe.
#pragma once
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "common/base/result.h"

namespace poolmark::rpc {

class Acceptor {
 public:
  struct Limits {
    size_t total = 4096;
    size_t per_source = 2048;  // does not apply to loopback sources unless `cap_loopback`
    size_t pending = 256;
    bool cap_loopback = false;
  };
  struct Counts {
    uint64_t accepted = 0;
    uint64_t refused_full = 0;
    uint64_t evicted_pending = 0;
    uint64_t out_of_descriptors = 0;
    size_t live = 0;
    size_t pending = 0;
  };

  // Binds and listens; `host` is an address or a name that resolves to one.
  static Result<std::unique_ptr<Acceptor>> Listen(const std::string& host, int port, Limits limits);
  ~Acceptor();
  int port() const;
  // Accepts on a thread of its own and gives each socket (non-blocking, close-on-exec) to `hand_over`, which
  // owns it.
  void Start(std::function<void(int fd)> hand_over);
  // A call came from this peer, as gRPC names it: "ipv4:1.2.3.4:5", "ipv6:%5B::1%5D:5".
  void Seen(const std::string& peer);
  Counts counts() const;
  // Stops accepting and joins the thread; the listening socket closes.
  void Stop();

 private:
  Acceptor();
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace poolmark::rpc
