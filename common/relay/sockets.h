// Blocking-free sockets of the relay: numeric addresses, one listener, one connection at a time. Internal to
// common/relay. Thread-safe.
#pragma once
#include <cstdint>
#include <string>
#include <utility>

#include "common/base/clock.h"
#include "common/base/result.h"

namespace poolmark::relay {

class Descriptor {
 public:
  explicit Descriptor(int fd = -1) : fd_(fd) {}
  Descriptor(Descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~Descriptor();
  int get() const { return fd_; }

 private:
  int fd_;
};

// A listening, non-blocking socket on a numeric address; `port` gets the one in use.
Result<Descriptor> Listen(const std::string& host, uint16_t wanted, uint16_t* port);
// A connected, non-blocking socket; `wake` readable ends the wait.
Result<Descriptor> Connect(const std::string& host, uint16_t port, Nanoseconds within, int wake);
// Ready for `events` of poll(2) within the time: false when not, or when `wake` is readable.
bool WaitFor(int fd, short events, Nanoseconds within, int wake);
// "10.0.0.9:4711" of the other end.
std::string PeerName(int fd);
void SetNoDelay(int fd);
// The next close sends a reset instead of an end of stream.
void CloseHard(int fd);

}  // namespace poolmark::relay
