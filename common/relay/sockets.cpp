#include "common/relay/sockets.h"

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <memory>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace poolmark::relay {
namespace {

using Addresses = std::unique_ptr<addrinfo, void (*)(addrinfo*)>;

Result<Addresses> Numeric(const std::string& host, uint16_t port) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const int error = getaddrinfo(host.c_str(), absl::StrCat(port).c_str(), &hints, &found);
  if (error != 0) {
    return InvalidInput(absl::StrCat("address ", host), gai_strerror(error),
                        "give a numeric IPv4 or IPv6 address");
  }
  return Addresses(found, freeaddrinfo);
}

}  // namespace

Descriptor::~Descriptor() {
  if (fd_ >= 0) close(fd_);
}

Result<Descriptor> Listen(const std::string& host, uint16_t wanted, uint16_t* port) {
  POOLMARK_ASSIGN_OR_RETURN(Addresses address, Numeric(host, wanted));
  Descriptor fd(socket(address->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  const std::string where = absl::StrCat(host, ":", wanted);
  if (fd.get() < 0) return FromErrno(where, "making a socket", errno);
  const int on = 1;
  setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (bind(fd.get(), address->ai_addr, address->ai_addrlen) != 0 || listen(fd.get(), 128) != 0)
    return FromErrno(where, "listening", errno);
  sockaddr_storage bound{};
  socklen_t size = sizeof bound;
  if (getsockname(fd.get(), reinterpret_cast<sockaddr*>(&bound), &size) != 0)
    return FromErrno(where, "asking for the port", errno);
  *port = ntohs(bound.ss_family == AF_INET6 ? reinterpret_cast<sockaddr_in6*>(&bound)->sin6_port
                                            : reinterpret_cast<sockaddr_in*>(&bound)->sin_port);
  return fd;
}

Result<Descriptor> Connect(const std::string& host, uint16_t port, Nanoseconds within, int wake) {
  POOLMARK_ASSIGN_OR_RETURN(Addresses address, Numeric(host, port));
  Descriptor fd(socket(address->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  const std::string where = absl::StrCat(host, ":", port);
  if (fd.get() < 0) return FromErrno(where, "making a socket", errno);
  SetNoDelay(fd.get());
  if (connect(fd.get(), address->ai_addr, address->ai_addrlen) == 0) return fd;
  if (errno != EINPROGRESS) return FromErrno(where, "connecting", errno);
  if (!WaitFor(fd.get(), POLLOUT, within, wake)) return Unavailable(where, "does not answer");
  int error = 0;
  socklen_t size = sizeof error;
  if (getsockopt(fd.get(), SOL_SOCKET, SO_ERROR, &error, &size) != 0 || error != 0)
    return FromErrno(where, "connecting", error);
  return fd;
}

bool WaitFor(int fd, short events, Nanoseconds within, int wake) {
  const Nanoseconds deadline = RealClock().Steady() + within;
  for (;;) {
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(deadline - RealClock().Steady()).count();
    if (left <= 0) return false;
    pollfd fds[] = {{fd, events, 0}, {wake, POLLIN, 0}};
    const int ready = poll(fds, 2, static_cast<int>(left));
    if (ready < 0 && errno != EINTR) return false;
    if (fds[1].revents != 0) return false;
    if (ready > 0 && fds[0].revents != 0) return true;
  }
}

std::string PeerName(int fd) {
  sockaddr_storage peer{};
  socklen_t size = sizeof peer;
  char host[NI_MAXHOST] = "?", service[NI_MAXSERV] = "?";
  if (getpeername(fd, reinterpret_cast<sockaddr*>(&peer), &size) == 0)
    getnameinfo(reinterpret_cast<sockaddr*>(&peer), size, host, sizeof host, service, sizeof service,
                NI_NUMERICHOST | NI_NUMERICSERV);
  return absl::StrCat(host, ":", service);
}

void SetNoDelay(int fd) {
  const int on = 1;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

void CloseHard(int fd) {
  const linger now{1, 0};
  setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof now);
}

}  // namespace poolmark::relay
