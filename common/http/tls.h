// TLS for clients over bytes that the caller moves: ciphertext in and out, plaintext out and in. Shared by
// the blocking client and by the load's event loops, which read sockets themselves for the kernel's
// receive stamps. Behind it: OpenSSL with memory BIOs. A TlsContext may be used by several threads, a
// TlsSession by one at a time.
#pragma once
#include <memory>
#include <string>
#include <string_view>

#include "common/base/result.h"
#include "common/http/client.h"

namespace poolmark::http {

class TlsContext {
 public:
  // Reads the CA file. Errors name it.
  static Result<std::shared_ptr<TlsContext>> Create(const TlsOptions& options);
  ~TlsContext();

 private:
  friend class TlsSession;
  TlsContext();
  struct State;
  std::unique_ptr<State> state_;
};

class TlsSession {
 public:
  // `host` is the name that the certificate must carry (an IP address is compared as such) and the SNI.
  static Result<std::unique_ptr<TlsSession>> Create(std::shared_ptr<TlsContext> context,
                                                    const std::string& host);
  ~TlsSession();

  // Gives bytes from the socket.
  void Feed(std::string_view ciphertext);
  // Appends what must be written to the socket to `out`; call after each of the other calls.
  void TakeOutput(std::string* out);
  // One step of the handshake: true when it is done.
  Result<bool> Handshake();
  // Reads plaintext: bytes read, 0 when more ciphertext is needed. `closed` is set at the peer's
  // close_notify.
  Result<size_t> Read(char* buffer, size_t size, bool* closed);
  // Encrypts all of `plaintext`. Precondition: the handshake is done.
  Status Write(std::string_view plaintext);
  // Queues close_notify.
  void Close();

 private:
  TlsSession();
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace poolmark::http
