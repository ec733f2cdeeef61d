#include "agent/telemetry/redis_info.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "agent/facts/text.h"
#include "common/http/socket.h"

namespace poolmark::agent {

Result<RedisInfo> ParseRedisInfo(std::string_view text) {
  RedisInfo info;
  for (std::string_view line : Lines(text)) {
    if (line.front() == '#') continue;
    const size_t colon = line.find(':');
    if (colon == std::string_view::npos || colon == 0) continue;
    if (info.fields.size() >= 10'000) return InvalidInput("redis", "INFO has more than 10000 fields");
    info.fields[std::string(line.substr(0, colon))] = std::string(Trim(line.substr(colon + 1)));
  }
  for (const auto& [name, value] : info.fields) {
    if (name.size() < 3 || name.rfind("db", 0) != 0 || !ToUint(name.substr(2)) ||
        value.rfind("keys=", 0) != 0)
      continue;
    info.keys += ToUint(value.substr(5, value.find(',') - 5)).value_or(0);
  }
  const auto field = [&](const char* name) {
    const auto found = info.fields.find(name);
    return found == info.fields.end() ? std::string() : found->second;
  };
  info.run_id = field("run_id");
  info.version = field("valkey_version").empty() ? field("redis_version") : field("valkey_version");
  if (info.version.empty() || info.run_id.empty())
    return InvalidInput("redis", "this is no answer to INFO (no version or run_id)");
  return info;
}

Reading ReadingOf(const RedisInfo& info, const prom::Dialect& dialect) {
  Reading reading;
  PointBuilder points(dialect);
  for (const auto& [name, text] : info.fields) {
    if (!dialect.Keeps(name)) continue;
    if (const auto value = ToDouble(text)) {
      points.Add(name, {}, *value);
    } else {
      points.AddMissing(name, {}, "INFO gives no number");
    }
  }
  // a server without keys lists no database at all
  points.Add("keys", {}, static_cast<double>(info.keys));
  reading.points = points.Take();
  reading.identity.emplace_back("run_id", info.run_id);
  return reading;
}

Result<std::pair<std::string, uint16_t>> ParseRedisAddress(std::string_view url) {
  std::string text(url);
  if (text.rfind("redis://", 0) == 0) text = text.substr(8);
  while (!text.empty() && text.back() == '/') text.pop_back();
  const size_t colon = text.rfind(':');
  const auto port =
      colon == std::string::npos ? std::nullopt : ToUint(std::string_view(text).substr(colon + 1));
  std::string host = text.substr(0, colon == std::string::npos ? 0 : colon);
  if (host.size() > 2 && host.front() == '[' && host.back() == ']') host = host.substr(1, host.size() - 2);
  if (!port || *port == 0 || *port > 65535 || host.empty()) {
    return InvalidInput(std::string(url), "no Redis address", "write redis://host:port");
  }
  return std::pair(host, static_cast<uint16_t>(*port));
}

namespace {

class Connection {
 public:
  explicit Connection(Nanoseconds deadline, std::string where)
      : deadline_(deadline), where_(std::move(where)) {}
  ~Connection() {
    if (fd_ >= 0) ::close(fd_);
  }

  Status Connect(const http::Address& address) {
    bool connected = false;
    POOLMARK_ASSIGN_OR_RETURN(fd_, http::StartConnect(address, &connected));
    if (connected) return absl::OkStatus();
    POOLMARK_RETURN_IF_ERROR(WaitFor(POLLOUT, "connecting"));
    const int error = http::ConnectError(fd_);
    return error == 0 ? absl::OkStatus() : FromErrno(where_, "connecting", error);
  }
  Status Send(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t sent = ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (sent > 0) {
        bytes.remove_prefix(static_cast<size_t>(sent));
      } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
        POOLMARK_RETURN_IF_ERROR(WaitFor(POLLOUT, "sending"));
      } else if (errno != EINTR) {
        return FromErrno(where_, "sending", errno);
      }
    }
    return absl::OkStatus();
  }
  // Makes at least `size` bytes of answer available.
  Status Fill(size_t size) {
    while (buffer_.size() < size) {
      char chunk[16384];
      const ssize_t got = ::recv(fd_, chunk, sizeof chunk, 0);
      if (got > 0) {
        buffer_.append(chunk, static_cast<size_t>(got));
      } else if (got == 0) {
        return Unavailable(where_, "the store closed the connection");
      } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
        POOLMARK_RETURN_IF_ERROR(WaitFor(POLLIN, "reading"));
      } else if (errno != EINTR) {
        return FromErrno(where_, "reading", errno);
      }
    }
    return absl::OkStatus();
  }
  Result<std::string> Line() {
    for (;;) {
      const size_t end = buffer_.find("\r\n");
      if (end != std::string::npos) {
        std::string line = buffer_.substr(0, end);
        buffer_.erase(0, end + 2);
        return line;
      }
      if (buffer_.size() > 4096) return InvalidInput(where_, "no Redis answer (a line without end)");
      POOLMARK_RETURN_IF_ERROR(Fill(buffer_.size() + 1));
    }
  }
  std::string Take(size_t size) {
    std::string bytes = buffer_.substr(0, size);
    buffer_.erase(0, size);
    return bytes;
  }

 private:
  Status WaitFor(short events, const char* doing) {
    const Nanoseconds left = deadline_ - RealClock().Steady();
    pollfd entry{fd_, events, 0};
    const int64_t wait = std::chrono::ceil<std::chrono::milliseconds>(left).count();
    const int ready = wait <= 0 ? 0 : ::poll(&entry, 1, static_cast<int>(wait));
    if (ready > 0 || (ready < 0 && errno == EINTR)) return absl::OkStatus();
    return Unavailable(where_, absl::StrCat("timed out while ", doing));
  }
  int fd_ = -1;
  Nanoseconds deadline_;
  std::string where_;
  std::string buffer_;
};

}  // namespace

Result<std::string> RedisCommand(const std::string& host, uint16_t port,
                                 const std::vector<std::string>& words, Nanoseconds timeout,
                                 size_t max_bytes) {
  const std::string where = absl::StrCat("redis://", host, ":", port);
  http::Url url;
  url.scheme = "http";
  url.host = host;
  url.port = port;
  POOLMARK_ASSIGN_OR_RETURN(const auto addresses, http::Resolve(url));
  if (addresses.empty()) return Unavailable(where, "the name has no address");
  Connection connection(RealClock().Steady() + timeout, where);
  POOLMARK_RETURN_IF_ERROR(connection.Connect(addresses.front()));
  std::string request = absl::StrCat("*", words.size(), "\r\n");
  for (const std::string& word : words) absl::StrAppend(&request, "$", word.size(), "\r\n", word, "\r\n");
  POOLMARK_RETURN_IF_ERROR(connection.Send(request));
  POOLMARK_ASSIGN_OR_RETURN(const std::string head, connection.Line());
  if (head.empty()) return InvalidInput(where, "an empty answer");
  const std::string rest = head.substr(1);
  switch (head.front()) {
    case '+':
    case ':':
      return rest;
    case '-':
      return Unavailable(where, rest);
    case '$': {
      const auto size = ToUint(rest);
      if (!size) return NotFound(where, "the store has no such value");
      if (*size > max_bytes)
        return InvalidInput(where, absl::StrCat("an answer of ", *size, " bytes, at most ", max_bytes));
      POOLMARK_RETURN_IF_ERROR(connection.Fill(*size + 2));
      return connection.Take(*size);
    }
    default:
      return InvalidInput(where, "no Redis answer");
  }
}

}  // namespace poolmark::agent
