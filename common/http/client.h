// HTTP/1.1 client for everything but the load's hot path: probes, scrapes, judge, tokenize, single streams.
// Blocking; one object may be used by several threads at once (each call has its own connection unless
// keep_alive is set, then calls take turns). Limits hold against hostile peers: header block 64 KiB,
// body `max_body_bytes`, no redirects, no proxies, no content encodings.
#pragma once
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/base/clock.h"
#include "common/base/result.h"

namespace poolmark::http {

// http://host:port/path, https://…, http://[::1]:80/, unix:/run/x.sock:/path.
struct Url {
  std::string scheme;  // "http", "https" or "unix"
  std::string host;    // without brackets; the socket's path for "unix"
  uint16_t port = 0;
  std::string target = "/";  // path and query
  std::string ToString() const;
};
// Errors name the text. Ports default to 80 and 443.
Result<Url> ParseUrl(std::string_view text);
// Joins a base URL, with or without a trailing "/v1" or the whole endpoint, and a path such as
// "/v1/chat/completions". Of a base with another endpoint than that path: an error.
Result<Url> JoinApi(std::string_view base, std::string_view path);

using Headers = std::vector<std::pair<std::string, std::string>>;

struct TlsOptions {
  std::string ca_file;  // empty: the system's store
  bool verify = true;
  std::string server_name;  // empty: the URL's host
};

struct Request {
  std::string method = "GET";
  Url url;
  Headers headers;
  std::string body;                                // Content-Length is set; Content-Type comes with `headers`
  Nanoseconds timeout = std::chrono::seconds(10);  // for the whole exchange
  Nanoseconds idle_timeout = std::chrono::seconds(60);  // between two reads, for streams
  size_t max_body_bytes = 16u << 20;
  TlsOptions tls;
};

struct Response {
  int status = 0;
  Headers headers;
  std::string body;
  // The first header of that name, case-insensitive.
  std::optional<std::string> header(std::string_view name) const;
};

class Client {
 public:
  virtual ~Client() = default;
  // Any HTTP status is an OK result; errors are of transport (refused, timed out, malformed, too large),
  // with the URL and what was being done.
  virtual Result<Response> Send(const Request& request) = 0;
  // Calls on_data for every piece of the decoded body as it arrives (wall time of arrival beside it).
  // on_data returns false to stop reading. The Response returned has no body. A status other than 2xx
  // ends without on_data and with the body in the Response.
  using OnData = std::function<bool(std::string_view piece, Nanoseconds steady)>;
  virtual Result<Response> Stream(const Request& request, const OnData& on_data) = 0;
};

std::unique_ptr<Client> MakeClient();

}  // namespace poolmark::http
