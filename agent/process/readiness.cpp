#include "agent/process/readiness.h"

#include <charconv>

#include "absl/strings/str_cat.h"
#include "agent/process/redis.h"

namespace poolmark::process {

Status SplitHostPort(const std::string& text, std::string* host, uint16_t* port) {
  size_t colon = text.rfind(':');
  if (colon != std::string::npos) {
    *host = text.substr(0, colon);
    if (host->size() > 2 && host->front() == '[' && host->back() == ']')
      *host = host->substr(1, host->size() - 2);
    auto [end, error] = std::from_chars(text.data() + colon + 1, text.data() + text.size(), *port);
    if (error == std::errc() && end == text.data() + text.size() && !host->empty() && *port != 0)
      return absl::OkStatus();
  }
  return InvalidInput("address", absl::StrCat("'", text, "' is no host:port"));
}

Status LookOnce(const ReadinessSpec& spec, http::Client& client, Nanoseconds timeout) {
  std::string host;
  uint16_t port = 0;
  if (!spec.tcp_address.empty()) {
    POOLMARK_RETURN_IF_ERROR(SplitHostPort(spec.tcp_address, &host, &port));
    POOLMARK_RETURN_IF_ERROR(TcpConnect(host, port, timeout));
  }
  if (!spec.redis_address.empty()) {
    POOLMARK_RETURN_IF_ERROR(SplitHostPort(spec.redis_address, &host, &port));
    POOLMARK_ASSIGN_OR_RETURN(std::string answer, RedisCommand(host, port, "PING", timeout));
    if (answer != "PONG")
      return Unavailable(spec.redis_address, absl::StrCat("PING answered '", answer, "'"));
  }
  if (!spec.http_url.empty()) {
    http::Request request;
    POOLMARK_ASSIGN_OR_RETURN(request.url, http::ParseUrl(spec.http_url));
    request.timeout = timeout;
    request.max_body_bytes = 1u << 20;
    POOLMARK_ASSIGN_OR_RETURN(http::Response response, client.Send(request));
    if (response.status / 100 != 2) {
      return Unavailable(spec.http_url, absl::StrCat("answered HTTP ", response.status));
    }
  }
  return absl::OkStatus();
}

bool Patience::Over(Nanoseconds now, uint64_t log_end) {
  if (now < deadline_) return false;
  constexpr int kMostPeriods = 3;
  if (log_end <= log_at_extension_ || periods_ >= kMostPeriods) return true;
  ++periods_;
  log_at_extension_ = log_end;
  deadline_ = now + within_;
  return false;
}

}  // namespace poolmark::process
