// One end of a TLS link that carries a shared store's traffic over a public network (methodology, "How KV
// cache travels between machines": a TLS link that accepts only the head machine's key). The server end
// stands on the head before the store, which listens on the loopback interface alone; the client end stands
// on the loopback interface of every other machine, and what connects there is connected to the store. Each
// end knows the other by its public key: any other key, no certificate, an expired one, or TLS below 1.3 is
// refused. Bytes pass unchanged; an end of stream passes as such, and a link that breaks is passed on as a
// reset, never as an end. Thread-safe; a thread per connection, at most kMaxConnections. Not for more than
// one job: keys live as long.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <string>

#include "common/base/clock.h"
#include "common/base/result.h"

namespace poolmark::relay {

inline constexpr int kMaxConnections = 512;

struct Options {
  bool server = false;  // TLS comes in and plain goes out; a client does the reverse
  std::string listen_host = "127.0.0.1";
  uint16_t listen_port = 0;  // 0: the system chooses
  std::string target_host;
  uint16_t target_port = 0;
  std::string private_pem, certificate_pem;  // its own key
  std::set<std::string> accept;              // pins of the other end
  Nanoseconds handshake = std::chrono::seconds(10);
  std::function<void(const std::string&)>
      log;  // links and refusals, a line each; called from the connections' threads
};

struct Totals {
  uint64_t connections = 0;  // that got through
  uint64_t refused = 0;
  uint64_t bytes_to_target = 0;
  uint64_t bytes_from_target = 0;
};

class Relay {
 public:
  // Listens when it returns. Errors say what is wrong with the key, the pins or the address.
  static Result<std::unique_ptr<Relay>> Start(Options options);
  // Ends every connection.
  ~Relay();
  uint16_t port() const;
  Totals totals() const;

 private:
  Relay();
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace poolmark::relay
