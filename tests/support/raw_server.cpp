#include "tests/support/raw_server.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace poolmark::test {

std::string RawConnection::ReadRequest() {
  for (;;) {
    const size_t end = in_.find("\r\n\r\n");
    if (end != std::string::npos) {
      size_t length = 0;
      std::string head = in_.substr(0, end);
      std::transform(head.begin(), head.end(), head.begin(),
                     [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
      if (const size_t at = head.find("content-length:"); at != std::string::npos)
        length = std::strtoul(head.c_str() + at + 15, nullptr, 10);
      if (in_.size() >= end + 4 + length) {
        std::string request = in_.substr(0, end + 4 + length);
        in_.erase(0, request.size());
        return request;
      }
    }
    char buffer[65536];
    const ssize_t n = recv(fd_, buffer, sizeof buffer, 0);
    if (n <= 0) return "";
    in_.append(buffer, static_cast<size_t>(n));
  }
}

bool RawConnection::Write(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t n = send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (n <= 0) return false;
    bytes.remove_prefix(static_cast<size_t>(n));
  }
  return true;
}

void RawConnection::Reset() {
  const linger now{1, 0};
  setsockopt(fd_, SOL_SOCKET, SO_LINGER, &now, sizeof now);
}

bool RawConnection::PeerCloses() {
  pollfd item{fd_, POLLIN, 0};
  char byte;
  return poll(&item, 1, 2000) == 1 && recv(fd_, &byte, 1, 0) <= 0;
}

RawServer::RawServer(Serve serve, const std::string& unix_path, bool ipv6)
    : serve_(std::move(serve)), unix_path_(unix_path), ipv6_(ipv6) {
  sockaddr_storage storage{};
  socklen_t length = 0;
  if (!unix_path.empty()) {
    auto* un = reinterpret_cast<sockaddr_un*>(&storage);
    un->sun_family = AF_UNIX;
    std::snprintf(un->sun_path, sizeof un->sun_path, "%s", unix_path.c_str());
    length = sizeof *un;
  } else if (ipv6) {
    auto* in6 = reinterpret_cast<sockaddr_in6*>(&storage);
    in6->sin6_family = AF_INET6;
    in6->sin6_addr = in6addr_loopback;
    length = sizeof *in6;
  } else {
    auto* in4 = reinterpret_cast<sockaddr_in*>(&storage);
    in4->sin_family = AF_INET;
    in4->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    length = sizeof *in4;
  }
  listener_ = socket(storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (listener_ < 0 || bind(listener_, reinterpret_cast<sockaddr*>(&storage), length) != 0 ||
      listen(listener_, 1024) != 0) {
    std::perror("RawServer");
    std::abort();
  }
  if (unix_path.empty()) {
    getsockname(listener_, reinterpret_cast<sockaddr*>(&storage), &length);
    port_ = ntohs(ipv6 ? reinterpret_cast<sockaddr_in6*>(&storage)->sin6_port
                       : reinterpret_cast<sockaddr_in*>(&storage)->sin_port);
  }
  acceptor_ = std::thread([this] { Accept(); });
}

RawServer::~RawServer() {
  stop_ = true;
  shutdown(listener_, SHUT_RDWR);
  acceptor_.join();
  close(listener_);
  {
    const std::lock_guard lock(mutex_);
    for (const int fd : open_) shutdown(fd, SHUT_RDWR);
  }
  for (std::thread& worker : workers_) worker.join();
}

std::string RawServer::url() const {
  if (!unix_path_.empty()) return "unix:" + unix_path_ + ":/v1";
  return std::string(ipv6_ ? "http://[::1]:" : "http://127.0.0.1:") + std::to_string(port_);
}

void RawServer::Accept() {
  while (!stop_) {
    const int fd = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
    if (fd < 0) {
      if (errno == EINTR || errno == ECONNABORTED) continue;
      return;
    }
    if (unix_path_.empty()) {
      const int one = 1;
      setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    }
    ++connections_;
    const std::lock_guard lock(mutex_);
    open_.push_back(fd);
    workers_.emplace_back([this, fd] {
      RawConnection connection(fd);
      serve_(connection);
      const std::lock_guard guard(mutex_);
      std::erase(open_, fd);
      close(fd);
    });
  }
}

std::string ChunkedHead(std::string_view extra) {
  return "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n" +
         std::string(extra) + "\r\n";
}

std::string Chunk(std::string_view data) {
  char size[32];
  std::snprintf(size, sizeof size, "%zx\r\n", data.size());
  return size + std::string(data) + "\r\n";
}

}  // namespace poolmark::test
