#include "agent/sim/tcp.h"

#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <memory>

namespace poolmark::sim {
namespace {

using AddressList = std::unique_ptr<addrinfo, decltype(&freeaddrinfo)>;

Result<AddressList> Resolve(const std::string& host, const std::string& port, int flags) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = flags | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  if (int error = getaddrinfo(host.empty() ? nullptr : host.c_str(), port.c_str(), &hints, &found);
      error != 0) {
    return Unavailable(host + ":" + port, std::string("cannot resolve: ") + gai_strerror(error));
  }
  return AddressList(found, freeaddrinfo);
}

}  // namespace

TcpStream::TcpStream(int fd, std::string peer, std::chrono::milliseconds timeout)
    : fd_(fd), peer_(std::move(peer)), timeout_(timeout) {
  int one = 1;
  setsockopt(fd_, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
  fcntl(fd_, F_SETFL, fcntl(fd_, F_GETFL) | O_NONBLOCK);
}

TcpStream::~TcpStream() {
  if (fd_ >= 0) close(fd_);
}

TcpStream& TcpStream::operator=(TcpStream&& other) noexcept {
  if (this != &other) {
    if (fd_ >= 0) close(fd_);
    fd_ = std::exchange(other.fd_, -1);
    peer_ = std::move(other.peer_);
    timeout_ = other.timeout_;
  }
  return *this;
}

Status TcpStream::Wait(short events, const char* doing) {
  pollfd p{fd_, events, 0};
  int ready = 0;
  do {
    ready = poll(&p, 1, static_cast<int>(timeout_.count()));
  } while (ready < 0 && errno == EINTR);
  if (ready > 0) return absl::OkStatus();
  if (ready < 0) return FromErrno(peer_, doing, errno);
  return Unavailable(peer_, std::string(doing) + ": nothing for " + std::to_string(timeout_.count()) + " ms");
}

Result<TcpStream> TcpStream::Connect(const std::string& address, std::chrono::milliseconds timeout) {
  size_t colon = address.rfind(':');
  if (colon == std::string::npos || colon + 1 == address.size()) {
    return InvalidInput(address, "no port in the address", "write host:port");
  }
  std::string host = address.substr(0, colon);
  if (host.size() > 2 && host.front() == '[' && host.back() == ']') host = host.substr(1, host.size() - 2);
  POOLMARK_ASSIGN_OR_RETURN(AddressList addresses, Resolve(host, address.substr(colon + 1), 0));
  Status last = Unavailable(address, "no address");
  for (addrinfo* at = addresses.get(); at != nullptr; at = at->ai_next) {
    int fd = socket(at->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0) return FromErrno(address, "opening a socket", errno);
    TcpStream stream(fd, address, timeout);
    if (connect(fd, at->ai_addr, at->ai_addrlen) != 0 && errno != EINPROGRESS) {
      last = FromErrno(address, "connecting", errno);
      continue;
    }
    last = stream.Wait(POLLOUT, "connecting");
    int error = 0;
    socklen_t size = sizeof error;
    if (last.ok() && getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size) == 0 && error != 0) {
      last = FromErrno(address, "connecting", error);
    }
    if (last.ok()) return stream;
  }
  return last;
}

Status TcpStream::WriteAll(std::string_view bytes) {
  while (!bytes.empty()) {
    ssize_t n = send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (n > 0) {
      bytes.remove_prefix(static_cast<size_t>(n));
    } else if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
      POOLMARK_RETURN_IF_ERROR(Wait(POLLOUT, "writing"));
    } else {
      return FromErrno(peer_, "writing", errno);
    }
  }
  return absl::OkStatus();
}

Status TcpStream::ReadSome(std::string* buffer) {
  static constexpr size_t kPiece = 64 << 10;
  for (;;) {
    size_t before = buffer->size();
    buffer->resize(before + kPiece);
    ssize_t n = recv(fd_, buffer->data() + before, kPiece, 0);
    int error = errno;
    buffer->resize(before + (n > 0 ? static_cast<size_t>(n) : 0));
    if (n > 0) return absl::OkStatus();
    if (n == 0) return Unavailable(peer_, "the peer closed the connection");
    if (error != EAGAIN && error != EINTR) return FromErrno(peer_, "reading", error);
    POOLMARK_RETURN_IF_ERROR(Wait(POLLIN, "reading"));
  }
}

Status TcpStream::ReadExactly(char* out, size_t bytes) {
  while (bytes > 0) {
    ssize_t n = recv(fd_, out, bytes, 0);
    if (n > 0) {
      out += n;
      bytes -= static_cast<size_t>(n);
    } else if (n == 0) {
      return Unavailable(peer_, "the peer closed the connection");
    } else if (errno == EAGAIN || errno == EINTR) {
      POOLMARK_RETURN_IF_ERROR(Wait(POLLIN, "reading"));
    } else {
      return FromErrno(peer_, "reading", errno);
    }
  }
  return absl::OkStatus();
}

Result<int> ListenTcp(const std::string& host, int* port) {
  std::string where = host + ":" + std::to_string(*port);
  POOLMARK_ASSIGN_OR_RETURN(AddressList addresses, Resolve(host, std::to_string(*port), AI_PASSIVE));
  addrinfo* at = addresses.get();
  int fd = socket(at->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return FromErrno(where, "opening a socket", errno);
  int one = 1;
  setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
  sockaddr_storage bound{};
  socklen_t size = sizeof bound;
  if (bind(fd, at->ai_addr, at->ai_addrlen) != 0 || listen(fd, 128) != 0 ||
      getsockname(fd, reinterpret_cast<sockaddr*>(&bound), &size) != 0) {
    int error = errno;
    close(fd);
    return FromErrno(where, "listening", error);
  }
  std::array<char, 32> text{};
  getnameinfo(reinterpret_cast<sockaddr*>(&bound), size, nullptr, 0, text.data(), text.size(),
              NI_NUMERICSERV);
  *port = std::atoi(text.data());
  return fd;
}

}  // namespace poolmark::sim
