#include "agent/process/guard_client.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <cstdio>

namespace poolmark::process {

Result<std::unique_ptr<GuardLine>> GuardLine::Connect(const std::string& run_directory) {
  std::string where = run_directory + "/guard.sock";
  guard::UniqueFd directory(open(run_directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!directory) return FromErrno(where, "open the run's directory", errno);
  guard::UniqueFd fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!fd) return FromErrno(where, "make a socket", errno);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::snprintf(address.sun_path, sizeof address.sun_path, "/proc/self/fd/%d/guard.sock", directory.get());
  if (connect(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) {
    return Unavailable(where, std::string("no guard answers: ") + std::strerror(errno));
  }
  return std::unique_ptr<GuardLine>(new GuardLine(where, std::move(fd)));
}

Status GuardLine::Send(const guard::Record& record) {
  std::string line = guard::Encode(record) + "\n";
  if (line.size() > guard::kMaxLine)
    return InvalidInput(where_, "the request is longer than 4 MiB", "shorten argv and env");
  std::string_view rest = line;
  while (!rest.empty()) {
    ssize_t sent = send(fd_.get(), rest.data(), rest.size(), MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent <= 0) return Unavailable(where_, std::string("the guard is gone: ") + std::strerror(errno));
    rest.remove_prefix(static_cast<size_t>(sent));
  }
  return absl::OkStatus();
}

Result<guard::Record> GuardLine::Receive(Nanoseconds timeout) {
  Nanoseconds end = RealClock().Steady() + timeout;
  while (true) {
    size_t newline = in_.find('\n');
    if (newline != std::string::npos) {
      auto record = guard::Decode(std::string_view(in_).substr(0, newline));
      in_.erase(0, newline + 1);
      if (!record) return Internal(where_, "the guard sent a line that is no record");
      return std::move(*record);
    }
    if (in_.size() > guard::kMaxLine) return Internal(where_, "the guard sent a line without end");
    Nanoseconds left = end - RealClock().Steady();
    if (left.count() < 0)
      return ToStatus(Error{absl::StatusCode::kDeadlineExceeded, "timeout", where_,
                            "no answer from the guard in time", ""});
    pollfd ready{fd_.get(), POLLIN, 0};
    int got = poll(&ready, 1, static_cast<int>(std::min<int64_t>(left.count() / 1'000'000 + 1, 60'000)));
    if (got < 0 && errno != EINTR) return FromErrno(where_, "wait for the guard", errno);
    if (got <= 0) continue;
    char buffer[16384];
    ssize_t length = recv(fd_.get(), buffer, sizeof buffer, 0);
    if (length < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (length <= 0) return Unavailable(where_, "the guard closed the connection");
    in_.append(buffer, static_cast<size_t>(length));
  }
}

void GuardLine::Shutdown() {
  shutdown(fd_.get(), SHUT_RDWR);
}

Result<std::unique_ptr<GuardClient>> GuardClient::Connect(const std::string& run_directory) {
  POOLMARK_ASSIGN_OR_RETURN(auto line, GuardLine::Connect(run_directory));
  return std::unique_ptr<GuardClient>(new GuardClient(std::move(line)));
}

Result<GuardReply> GuardClient::Ask(const guard::Record& request, Nanoseconds timeout) {
  std::lock_guard lock(mutex_);
  if (line_ == nullptr) return Unavailable("guard", "an answer was lost before: connect again");
  // An answer that did not come would be taken for the next question's: the line is given up then.
  auto fail = [&](Status status) -> Result<GuardReply> {
    line_.reset();
    return status;
  };
  if (Status sent = line_->Send(request); !sent.ok()) {
    return absl::IsInvalidArgument(sent) ? Result<GuardReply>(sent) : fail(sent);
  }
  GuardReply reply;
  while (true) {
    auto record = line_->Receive(timeout);
    if (!record.ok()) return fail(record.status());
    if (record->name == "ok") {
      reply.ok = std::move(*record);
      return reply;
    }
    if (record->name == "error") {
      auto kind = record->Get("code") == "bad_request" || record->Get("code") == "bad_path"
                      ? absl::StatusCode::kInvalidArgument
                      : absl::StatusCode::kFailedPrecondition;
      return ToStatus(Error{kind, record->Get("code"), "guard", record->Get("text"), ""});
    }
    reply.data.push_back(std::move(*record));
  }
}

Result<std::unique_ptr<GuardWatch>> GuardWatch::Connect(const std::string& run_directory,
                                                        uint64_t after_sequence) {
  POOLMARK_ASSIGN_OR_RETURN(auto line, GuardLine::Connect(run_directory));
  POOLMARK_RETURN_IF_ERROR(line->Send(guard::Record("watch").Add("after", after_sequence)));
  POOLMARK_ASSIGN_OR_RETURN(guard::Record answer, line->Receive(std::chrono::seconds(10)));
  if (answer.name != "ok") return Internal("guard", "it does not let us watch: " + answer.Get("text"));
  return std::unique_ptr<GuardWatch>(new GuardWatch(std::move(line)));
}

}  // namespace poolmark::process
