// Addresses to listen on and to dial: "host:port", "[v6]:port". Pure.
#pragma once
#include <string>
#include <string_view>

#include "common/base/result.h"

namespace poolmark::rpc {

struct HostPort {
  std::string host;  // without brackets
  int port = 0;
};
// Errors name the text and the form. The port may be 0 (to listen on any).
Result<HostPort> ParseHostPort(std::string_view text);
std::string FormatHostPort(const std::string& host, int port);
// 0.0.0.0 and ::, which listen everywhere.
bool IsAnyAddress(std::string_view host);
// 127.0.0.0/8 and ::1, also as ::ffff:127.x.
bool IsLoopbackAddress(std::string_view host);

}  // namespace poolmark::rpc
