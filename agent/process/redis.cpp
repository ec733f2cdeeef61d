#include "agent/process/redis.h"

#include <fcntl.h>
#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>

#include <charconv>
#include <memory>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "agent/guard/unique_fd.h"

namespace poolmark::process {
namespace {

Status TimedOut(const std::string& where) {
  return ToStatus(Error{absl::StatusCode::kDeadlineExceeded, "timeout", where, "no answer in time", ""});
}

// Waits for `events` until `end`; false when the time is over.
bool Await(int fd, short events, Nanoseconds end) {
  while (true) {
    Nanoseconds left = end - RealClock().Steady();
    if (left.count() <= 0) return false;
    pollfd ready{fd, events, 0};
    int got = poll(&ready, 1, static_cast<int>(left.count() / 1'000'000 + 1));
    if (got > 0) return true;
    if (got < 0 && errno != EINTR) return false;
  }
}

Result<guard::UniqueFd> Dial(const std::string& host, uint16_t port, Nanoseconds end) {
  std::string where = absl::StrCat(host, ":", port);
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* list = nullptr;
  int error = getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &list);
  if (error != 0) return Unavailable(where, absl::StrCat("name not resolved: ", gai_strerror(error)));
  std::unique_ptr<addrinfo, void (*)(addrinfo*)> owned(list, freeaddrinfo);
  Status last = Unavailable(where, "no address");
  for (addrinfo* one = list; one != nullptr; one = one->ai_next) {
    guard::UniqueFd fd(socket(one->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (!fd) continue;
    if (connect(fd.get(), one->ai_addr, one->ai_addrlen) == 0) return fd;
    if (errno == EINPROGRESS) {
      if (!Await(fd.get(), POLLOUT, end)) return TimedOut(where);
      int failure = 0;
      socklen_t length = sizeof failure;
      getsockopt(fd.get(), SOL_SOCKET, SO_ERROR, &failure, &length);
      if (failure == 0) return fd;
      errno = failure;
    }
    last = Unavailable(where, absl::StrCat("connect: ", std::strerror(errno)));
  }
  return last;
}

}  // namespace

Status TcpConnect(const std::string& host, uint16_t port, Nanoseconds timeout) {
  return Dial(host, port, RealClock().Steady() + timeout).status();
}

Result<std::string> ParseRedisAnswer(std::string_view text, size_t* used, int depth) {
  *used = 0;
  size_t end = text.find("\r\n");
  if (end == std::string_view::npos) return std::string();
  if (end == 0 || depth > 8) return Internal("redis", "the answer is no Redis answer");
  std::string_view line = text.substr(1, end - 1);
  size_t after = end + 2;
  int64_t number = 0;
  auto is_number = [&] {
    auto [stop, error] = std::from_chars(line.data(), line.data() + line.size(), number);
    return error == std::errc() && stop == line.data() + line.size();
  };
  switch (text[0]) {
    case '+':
      *used = after;
      return std::string(line);
    case '-':
      *used = after;
      return Precondition("redis", std::string(line));
    case ':':
      *used = after;
      return std::string(line);
    case '$':
      if (!is_number() || number < -1 || number > (512 << 20)) break;
      if (number == -1) {
        *used = after;
        return std::string();
      }
      if (text.size() < after + static_cast<size_t>(number) + 2) return std::string();
      *used = after + static_cast<size_t>(number) + 2;
      return std::string(text.substr(after, static_cast<size_t>(number)));
    case '*': {
      if (!is_number() || number < -1 || number > 1'000'000) break;
      std::string all;
      for (int64_t i = 0; i < number; ++i) {
        size_t part = 0;
        auto element = ParseRedisAnswer(text.substr(after), &part, depth + 1);
        if (!element.ok() && part == 0) return element.status();
        if (part == 0) return std::string();
        absl::StrAppend(&all, i == 0 ? "" : "\n",
                        element.ok() ? *element : std::string(element.status().message()));
        after += part;
      }
      *used = after;
      return all;
    }
    default:
      break;
  }
  return Internal("redis", "the answer is no Redis answer");
}

Result<std::string> RedisCommand(const std::string& host, uint16_t port, std::string_view command,
                                 Nanoseconds timeout, size_t max_bytes) {
  Nanoseconds end = RealClock().Steady() + timeout;
  std::string where = absl::StrCat("redis://", host, ":", port);
  std::vector<std::string> words = absl::StrSplit(std::string(command), ' ', absl::SkipEmpty());
  if (words.empty()) return InvalidInput(where, "the command is empty");
  std::string request = absl::StrCat("*", words.size(), "\r\n");
  for (const std::string& word : words) absl::StrAppend(&request, "$", word.size(), "\r\n", word, "\r\n");
  POOLMARK_ASSIGN_OR_RETURN(guard::UniqueFd fd, Dial(host, port, end));
  for (size_t sent = 0; sent < request.size();) {
    ssize_t got = send(fd.get(), request.data() + sent, request.size() - sent, MSG_NOSIGNAL);
    if (got < 0 && errno != EAGAIN && errno != EINTR) return FromErrno(where, "send the command", errno);
    if (got > 0) sent += static_cast<size_t>(got);
    if (got < 0 && !Await(fd.get(), POLLOUT, end)) return TimedOut(where);
  }
  std::string answer;
  while (answer.size() <= max_bytes) {
    if (!Await(fd.get(), POLLIN, end)) return TimedOut(where);
    char buffer[16384];
    ssize_t got = recv(fd.get(), buffer, sizeof buffer, 0);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) continue;
    if (got <= 0) return Unavailable(where, "the connection closed before the answer");
    answer.append(buffer, static_cast<size_t>(got));
    size_t used = 0;
    auto parsed = ParseRedisAnswer(answer, &used);
    if (used > 0 || !parsed.ok()) return parsed;
  }
  return Precondition(where, absl::StrCat("the answer is longer than ", max_bytes, " bytes"));
}

}  // namespace poolmark::process
