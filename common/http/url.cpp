#include <arpa/inet.h>

#include <algorithm>
#include <charconv>

#include "common/http/client.h"

namespace poolmark::http {
namespace {

// Bytes that may stand in a request line: no space, control or non-ASCII byte can reach the wire.
bool IsTarget(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return c > 0x20 && c < 0x7f; });
}

bool StartsWithIgnoringCase(std::string_view text, std::string_view lower) {
  return text.size() >= lower.size() &&
         std::equal(lower.begin(), lower.end(), text.begin(),
                    [](char a, char b) { return a == (b >= 'A' && b <= 'Z' ? b + 32 : b); });
}

bool IsHost(std::string_view text) {
  return !text.empty() && text.size() <= 255 && std::all_of(text.begin(), text.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
           c == '-' || c == '_';
  });
}

bool IsIpv6(std::string_view text) {
  const std::string address(text.substr(0, text.find('%')));
  in6_addr parsed;
  return inet_pton(AF_INET6, address.c_str(), &parsed) == 1;
}

Status BadUrl(std::string_view text, std::string what) {
  return InvalidInput("url '" + std::string(text.substr(0, 200)) + "'", std::move(what),
                      "write http://host:port/path, https://host/path or unix:/run/x.sock:/path");
}

}  // namespace

std::string Url::ToString() const {
  if (scheme == "unix") return "unix:" + host + ":" + target;
  const bool bracket = host.find(':') != std::string::npos;
  return scheme + "://" + (bracket ? "[" + host + "]" : host) + ":" + std::to_string(port) + target;
}

Result<Url> ParseUrl(std::string_view text) {
  Url url;
  if (text.starts_with("unix:")) {
    const std::string_view rest = text.substr(5);
    const size_t colon = rest.find(":/");
    url.scheme = "unix";
    url.host = std::string(rest.substr(0, colon));
    if (colon != std::string_view::npos) url.target = std::string(rest.substr(colon + 1));
    // sun_path holds 108 bytes with its NUL.
    if (url.host.empty() || url.host.size() > 107)
      return BadUrl(text, "the socket's path has 1 to 107 bytes");
    if (url.host.find('\0') != std::string::npos || !IsTarget(url.target)) {
      return BadUrl(text, "the path has a space or a control character");
    }
    return url;
  }
  std::string_view rest;
  // RFC 3986, 3.1: schemes are case-insensitive.
  if (StartsWithIgnoringCase(text, "http://")) {
    url.scheme = "http";
    url.port = 80;
    rest = text.substr(7);
  } else if (StartsWithIgnoringCase(text, "https://")) {
    url.scheme = "https";
    url.port = 443;
    rest = text.substr(8);
  } else {
    return BadUrl(text, "no scheme that is known here");
  }
  rest = rest.substr(0, rest.find('#'));
  const size_t slash = rest.find_first_of("/?");
  std::string_view authority = rest.substr(0, slash);
  if (slash != std::string_view::npos) {
    url.target = std::string(rest.substr(slash));
    if (url.target[0] == '?') url.target.insert(0, "/");
  }
  if (!IsTarget(url.target)) return BadUrl(text, "the path has a space, a control or a non-ASCII character");
  if (authority.find('@') != std::string_view::npos) {
    return BadUrl(text, "it has a user or password, which would end up in logs; use a key file instead");
  }
  std::string_view port_text;
  if (authority.starts_with('[')) {
    const size_t close = authority.find(']');
    if (close == std::string_view::npos) return BadUrl(text, "no ']' after the IPv6 address");
    url.host = std::string(authority.substr(1, close - 1));
    if (!IsIpv6(url.host)) return BadUrl(text, "'" + url.host + "' is no IPv6 address");
    authority.remove_prefix(close + 1);
    if (!authority.empty() && authority[0] != ':') return BadUrl(text, "something stands after ']'");
    port_text = authority.empty() ? "" : authority.substr(1);
    if (!authority.empty() && port_text.empty()) return BadUrl(text, "the port is empty");
  } else {
    const size_t colon = authority.find(':');
    url.host = std::string(authority.substr(0, colon));
    if (!IsHost(url.host)) return BadUrl(text, "'" + url.host + "' is no host name");
    if (colon != std::string_view::npos) {
      port_text = authority.substr(colon + 1);
      if (port_text.empty()) return BadUrl(text, "the port is empty");
    }
  }
  if (!port_text.empty()) {
    unsigned port = 0;
    const auto [end, error] = std::from_chars(port_text.data(), port_text.data() + port_text.size(), port);
    if (error != std::errc() || end != port_text.data() + port_text.size() || port == 0 || port > 65535) {
      return BadUrl(text, "port '" + std::string(port_text) + "' is not between 1 and 65535");
    }
    url.port = static_cast<uint16_t>(port);
  }
  return url;
}

Result<Url> JoinApi(std::string_view base, std::string_view path) {
  POOLMARK_ASSIGN_OR_RETURN(Url url, ParseUrl(base));
  if (url.target.find('?') != std::string::npos) {
    return InvalidInput("url '" + std::string(base) + "'", "a base URL has no query",
                        "leave out what follows '?'");
  }
  std::string prefix = url.target;
  while (!prefix.empty() && prefix.back() == '/') prefix.pop_back();
  // A base as people copy it from a request: with the endpoint.
  for (const std::string_view endpoint : {"/v1/chat/completions", "/v1/completions"}) {
    if (!prefix.ends_with(endpoint)) continue;
    if (path.ends_with("/completions") && path != endpoint) {
      return InvalidInput("url '" + std::string(base) + "'",
                          "it names another endpoint than " + std::string(path) + ", which is asked",
                          "leave out what follows /v1, or choose the API that belongs to it");
    }
    prefix.resize(prefix.size() - endpoint.size());
  }
  if (path.starts_with("/v1/") && prefix.ends_with("/v1")) prefix.resize(prefix.size() - 3);
  if (!path.starts_with('/')) prefix += '/';
  url.target = prefix + std::string(path);
  if (!IsTarget(url.target))
    return InvalidInput("path '" + std::string(path) + "'", "it has a space or a control character");
  return url;
}

std::optional<std::string> Response::header(std::string_view name) const {
  for (const auto& [key, value] : headers) {
    if (key.size() == name.size() && std::equal(key.begin(), key.end(), name.begin(), [](char a, char b) {
          return (a >= 'A' && a <= 'Z' ? a + 32 : a) == (b >= 'A' && b <= 'Z' ? b + 32 : b);
        })) {
      return value;
    }
  }
  return std::nullopt;
}

}  // namespace poolmark::http
