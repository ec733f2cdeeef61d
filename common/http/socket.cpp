#include "common/http/socket.h"

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstring>

namespace poolmark::http {

Result<std::vector<Address>> Resolve(const Url& url) {
  std::vector<Address> addresses;
  if (url.scheme == "unix") {
    Address address;
    auto* un = reinterpret_cast<sockaddr_un*>(&address.storage);
    un->sun_family = AF_UNIX;
    if (url.host.size() >= sizeof un->sun_path)
      return InvalidInput(url.host, "the socket's path is longer than 107 bytes");
    std::memcpy(un->sun_path, url.host.data(), url.host.size());
    address.length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + url.host.size() + 1);
    addresses.push_back(address);
    return addresses;
  }
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV;
  addrinfo* list = nullptr;
  const int rc = getaddrinfo(url.host.c_str(), std::to_string(url.port).c_str(), &hints, &list);
  if (rc != 0)
    return Unavailable(url.ToString(), "host '" + url.host + "' has no address: " + gai_strerror(rc));
  for (const addrinfo* item = list; item != nullptr; item = item->ai_next) {
    Address address;
    std::memcpy(&address.storage, item->ai_addr, item->ai_addrlen);
    address.length = item->ai_addrlen;
    addresses.push_back(address);
  }
  freeaddrinfo(list);
  return addresses;
}

Result<int> StartConnect(const Address& address, bool* connected, int* error_number) {
  const auto failed = [error_number](const char* doing, int error) {
    if (error_number != nullptr) *error_number = error;
    return FromErrno("", doing, error);
  };
  const int fd = socket(address.family(), SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (fd < 0) return failed("socket", errno);
  if (address.family() != AF_UNIX) {
    const int one = 1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
  }
  *connected = connect(fd, reinterpret_cast<const sockaddr*>(&address.storage), address.length) == 0;
  if (!*connected && errno != EINPROGRESS) {
    const int error = errno;
    close(fd);
    return failed("connect", error);
  }
  return fd;
}

int ConnectError(int fd) {
  int error = 0;
  socklen_t size = sizeof error;
  return getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size) == 0 ? error : errno;
}

std::string HostHeader(const Url& url) {
  if (url.scheme == "unix") return "localhost";
  std::string host = url.host.find(':') != std::string::npos ? "[" + url.host + "]" : url.host;
  const uint16_t standard = url.scheme == "https" ? 443 : 80;
  if (url.port != standard) host += ":" + std::to_string(url.port);
  return host;
}

Result<std::string> RequestHead(std::string_view method, const Url& url, const Headers& headers,
                                std::optional<size_t> content_length) {
  static constexpr std::string_view kForbidden("\r\n\0", 3);
  std::string head;
  head.append(method)
      .append(" ")
      .append(url.target)
      .append(" HTTP/1.1\r\nHost: ")
      .append(HostHeader(url))
      .append("\r\n");
  for (const auto& [name, value] : headers) {
    if (name.empty() || name.find_first_of(": \t") != std::string::npos ||
        name.find_first_of(kForbidden) != std::string::npos ||
        value.find_first_of(kForbidden) != std::string::npos) {
      return InvalidInput("header '" + name.substr(0, 60) + "'",
                          "its name or value has a character that ends a header", "remove line breaks");
    }
    head.append(name).append(": ").append(value).append("\r\n");
  }
  if (content_length.has_value())
    head.append("Content-Length: ").append(std::to_string(*content_length)).append("\r\n");
  head.append("\r\n");
  return head;
}

}  // namespace poolmark::http
