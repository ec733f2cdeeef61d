// One connection of a loop: non-blocking socket, optional TLS, kernel receive stamps. Knows bytes, not
// requests. Used by its loop alone.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/http/socket.h"
#include "common/http/tls.h"

namespace poolmark::load {

// Where requests go; resolved once before the load.
struct Target {
  http::Url url;
  std::vector<http::Address> addresses;
  std::shared_ptr<http::TlsContext> tls;  // https only
  std::string head;                       // request head up to the varying headers
};

class Connection {
 public:
  enum class Io {
    kOk,
    kBlocked,  // wait for the socket
    kClosed,   // the peer closed in order
    kLost,     // error() says how
  };
  struct Received {
    std::string_view bytes;                  // plaintext; valid until the next call
    std::optional<int64_t> kernel_realtime;  // CLOCK_REALTIME of the last segment, where the socket gives it
  };

  ~Connection();
  // Begins to connect to the first address. kBlocked: go on with Advance when the socket is ready.
  Io Open(const Target& target);
  // Connect and TLS handshake; kOk: ready for requests.
  Io Advance();
  bool ready() const { return ready_; }
  // TCP is connected; TLS may still be under way.
  bool connected() const { return connected_; }
  // Sends head and body; kBlocked keeps what is left, Flush goes on. The body must stay until kOk.
  Io Send(std::string_view head, std::string_view body);
  Io Flush();
  bool sending() const { return !left_head_.empty() || !left_body_.empty() || !cipher_.empty(); }
  // One read into `buffer` (TLS uses its second half for the plaintext). kOk with empty bytes: nothing for
  // the caller yet.
  Io Receive(char* buffer, size_t size, Received* received);
  // More plaintext is waiting in the TLS session: call Receive again without waiting.
  bool more() const { return more_; }

  int fd() const { return fd_; }
  const std::string& error() const { return error_; }
  // There is no connection since this machine has no more files, ports or memory for one.
  bool own_limit() const { return own_limit_; }
  uint64_t sent_bytes() const { return sent_bytes_; }
  void Close(bool reset);

 private:
  Io OpenNext(std::string last_error);
  Io FlushCipher();
  Io Lost(const char* doing, int error_number);

  const Target* target_ = nullptr;
  size_t address_ = 0;
  int fd_ = -1;
  bool connected_ = false;
  bool ready_ = false;
  bool more_ = false;
  bool stamps_ = false;
  bool own_limit_ = false;
  std::unique_ptr<http::TlsSession> tls_;
  std::string head_copy_;
  std::string_view left_head_;
  std::string_view left_body_;
  std::string cipher_;
  size_t cipher_done_ = 0;
  uint64_t sent_bytes_ = 0;
  std::string error_;
};

}  // namespace poolmark::load
