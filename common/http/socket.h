// Addresses and non-blocking sockets for HTTP clients. Functions are thread-safe.
#pragma once
#include <sys/socket.h>

#include <vector>

#include "common/base/result.h"
#include "common/http/client.h"

namespace poolmark::http {

struct Address {
  sockaddr_storage storage{};
  socklen_t length = 0;
  int family() const { return storage.ss_family; }
};

// The addresses of a URL's host, in the resolver's order; a Unix socket has one. Blocks while resolving.
Result<std::vector<Address>> Resolve(const Url& url);

// A non-blocking socket with TCP_NODELAY whose connect has begun. `connected` says whether it is done.
Result<int> StartConnect(const Address& address, bool* connected, int* error_number = nullptr);
// The result of a begun connect once the socket is writable: 0 or an errno.
int ConnectError(int fd);

// "Host:" header value.
std::string HostHeader(const Url& url);

// Head of a request with its blank line. Refuses line breaks and NULs in names and values.
Result<std::string> RequestHead(std::string_view method, const Url& url, const Headers& headers,
                                std::optional<size_t> content_length);

}  // namespace poolmark::http
