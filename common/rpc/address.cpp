#include "common/rpc/address.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <cstring>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace poolmark::rpc {

Result<HostPort> ParseHostPort(std::string_view given) {
  const std::string text(given);
  auto bad = [&](const std::string& why) {
    return InvalidInput("address", absl::StrCat("'", text, "' is no address: ", why),
                        "the form is host:port or [v6-address]:port");
  };
  size_t colon = text.rfind(':');
  if (colon == std::string::npos) return bad("it has no port");
  std::string host = text.substr(0, colon);
  int port = -1;
  if (!absl::SimpleAtoi(text.substr(colon + 1), &port) || port < 0 || port > 65535)
    return bad("the port is not 0 to 65535");
  if (host.size() >= 2 && host.front() == '[' && host.back() == ']') {
    host = host.substr(1, host.size() - 2);
    in6_addr address{};
    if (inet_pton(AF_INET6, host.c_str(), &address) != 1)
      return bad("there is no IPv6 address between the brackets");
  } else if (host.find(':') != std::string::npos) {
    return bad("an IPv6 address needs brackets");
  }
  if (host.empty()) return bad("it has no host");
  return HostPort{host, port};
}

std::string FormatHostPort(const std::string& host, int port) {
  if (host.find(':') != std::string::npos) return absl::StrCat("[", host, "]:", port);
  return absl::StrCat(host, ":", port);
}

bool IsAnyAddress(std::string_view host) {
  std::string text(host);
  in_addr v4{};
  if (inet_pton(AF_INET, text.c_str(), &v4) == 1) return v4.s_addr == 0;
  in6_addr v6{};
  if (inet_pton(AF_INET6, text.c_str(), &v6) != 1) return false;
  if (IN6_IS_ADDR_V4MAPPED(&v6))
    return v6.s6_addr[12] == 0 && v6.s6_addr[13] == 0 && v6.s6_addr[14] == 0 && v6.s6_addr[15] == 0;
  return IN6_IS_ADDR_UNSPECIFIED(&v6) != 0;
}

bool IsLoopbackAddress(std::string_view host) {
  std::string text(host);
  in_addr v4{};
  if (inet_pton(AF_INET, text.c_str(), &v4) == 1) return (ntohl(v4.s_addr) >> 24) == 127;
  in6_addr v6{};
  if (inet_pton(AF_INET6, text.c_str(), &v6) != 1) return false;
  if (IN6_IS_ADDR_V4MAPPED(&v6)) return v6.s6_addr[12] == 127;
  return IN6_IS_ADDR_LOOPBACK(&v6) != 0;
}

}  // namespace poolmark::rpc
