// A blocking TCP connection with time limits, for the store and the hand-over between engines. Not
// thread-safe; move-only.
#pragma once
#include <chrono>
#include <cstddef>
#include <string>
#include <string_view>
#include <utility>

#include "common/base/result.h"

namespace poolmark::sim {

class TcpStream {
 public:
  TcpStream() = default;
  TcpStream(int fd, std::string peer, std::chrono::milliseconds timeout);
  ~TcpStream();
  TcpStream(TcpStream&& other) noexcept
      : fd_(std::exchange(other.fd_, -1)), peer_(std::move(other.peer_)), timeout_(other.timeout_) {}
  TcpStream& operator=(TcpStream&& other) noexcept;

  // "host:port" or "[::1]:port". The time-out holds for connecting and for each later read and write.
  static Result<TcpStream> Connect(const std::string& address, std::chrono::milliseconds timeout);

  Status WriteAll(std::string_view bytes);
  // Appends at least one byte; the peer's end of stream is an error.
  Status ReadSome(std::string* buffer);
  // Fills `out` exactly.
  Status ReadExactly(char* out, size_t bytes);
  int fd() const { return fd_; }

 private:
  Status Wait(short events, const char* doing);
  int fd_ = -1;
  std::string peer_;
  std::chrono::milliseconds timeout_{};
};

// A listening socket, -1 after an error. `port` 0 lets the system choose; it is set to what was bound.
Result<int> ListenTcp(const std::string& host, int* port);

}  // namespace poolmark::sim
