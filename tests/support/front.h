// A relay on loopback in front of a TCP port, with or without TLS: one thread a connection. For tests of
// TLS clients and for the bench; the certificate is made at start and belongs to 127.0.0.1 and localhost.
#pragma once
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

namespace poolmark::test {

class Front {
 public:
  // Relays to 127.0.0.1:`backend`. With `tls` its certificate is written to `ca_file` (PEM).
  // The handshake of a connection begins after `before_handshake`.
  Front(uint16_t backend, bool tls, const std::string& ca_file, uint16_t port = 0,
        std::chrono::milliseconds before_handshake = {});
  ~Front();
  uint16_t port() const;
  // TLS records with data that came from the clients.
  int records() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace poolmark::test
