#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "common/http/response_parser.h"
#include "common/http/socket.h"
#include "common/http/stoppable_client.h"
#include "common/http/tls.h"

namespace poolmark::http {
namespace {

// What one exchange still may take.
class Deadline {
 public:
  // `stop` is readable once the exchange is to end; -1: never.
  Deadline(Nanoseconds timeout, int stop)
      : timeout_(timeout), end_(RealClock().Steady() + timeout), stop_(stop) {}
  // Waits for the socket; at most `idle` where it is shorter than what is left.
  Status Wait(int fd, short events, const char* doing, Nanoseconds idle) const {
    const Nanoseconds idle_end = RealClock().Steady() + idle;
    for (;;) {
      const Nanoseconds now = RealClock().Steady();
      const Nanoseconds left = std::min(end_, idle_end) - now;
      if (left <= Nanoseconds(0)) {
        const bool whole = end_ <= idle_end;
        const auto limit = std::chrono::duration_cast<std::chrono::milliseconds>(whole ? timeout_ : idle);
        return ToStatus(Error{absl::StatusCode::kUnavailable, "timed_out", "",
                              std::string("timed out while ") + doing + " after " +
                                  std::to_string(limit.count()) +
                                  (whole ? " ms in all" : " ms without a byte"),
                              ""});
      }
      pollfd items[] = {{fd, events, 0}, {stop_, POLLIN, 0}};  // a negative descriptor is skipped
      const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(left).count() + 1;
      const int n = poll(items, 2, static_cast<int>(std::min<int64_t>(ms, 1'000'000)));
      if (items[1].revents != 0) {
        return ToStatus(
            Error{absl::StatusCode::kCancelled, "stopped", "", std::string("stopped while ") + doing, ""});
      }
      if (n > 0) return absl::OkStatus();
      if (n < 0 && errno != EINTR) return FromErrno("", "poll", errno);
    }
  }
  Nanoseconds left() const { return end_ - RealClock().Steady(); }

 private:
  Nanoseconds timeout_;
  Nanoseconds end_;
  int stop_;
};

class Connection {
 public:
  Connection(const Request& request, const Deadline& deadline) : request_(request), deadline_(deadline) {}
  ~Connection() {
    if (fd_ >= 0) close(fd_);
  }
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  Status Open() {
    POOLMARK_ASSIGN_OR_RETURN(const std::vector<Address> addresses, Resolve(request_.url));
    Status last = Unavailable("", "the host has no address");
    for (const Address& address : addresses) {
      last = Connect(address);
      if (last.ok()) break;
      if (deadline_.left() <= Nanoseconds(0)) break;
    }
    POOLMARK_RETURN_IF_ERROR(last);
    if (request_.url.scheme != "https") return absl::OkStatus();
    POOLMARK_ASSIGN_OR_RETURN(auto context, TlsContext::Create(request_.tls));
    POOLMARK_ASSIGN_OR_RETURN(tls_, TlsSession::Create(std::move(context), request_.url.host));
    for (;;) {
      const Result<bool> done = tls_->Handshake();
      tls_->TakeOutput(&out_);
      POOLMARK_RETURN_IF_ERROR(FlushOut());
      POOLMARK_RETURN_IF_ERROR(done.status());
      if (*done) return absl::OkStatus();
      POOLMARK_ASSIGN_OR_RETURN(const size_t n, ReadSocket("setting up TLS"));
      if (n == 0) return Unavailable("", "the server closed the connection during the TLS handshake");
      tls_->Feed(std::string_view(buffer_, n));
    }
  }

  Status Write(std::string_view bytes) {
    if (tls_ == nullptr) return WriteSocket(bytes);
    POOLMARK_RETURN_IF_ERROR(tls_->Write(bytes));
    tls_->TakeOutput(&out_);
    return FlushOut();
  }

  // The next bytes of the peer; empty at its end.
  Result<std::string_view> Read() {
    for (;;) {
      if (tls_ == nullptr) {
        POOLMARK_ASSIGN_OR_RETURN(const size_t n, ReadSocket("reading the answer"));
        return std::string_view(buffer_, n);
      }
      bool closed = false;
      POOLMARK_ASSIGN_OR_RETURN(const size_t n, tls_->Read(plain_, sizeof plain_, &closed));
      if (n > 0 || closed) return std::string_view(plain_, n);
      POOLMARK_ASSIGN_OR_RETURN(const size_t raw, ReadSocket("reading the answer"));
      if (raw == 0) return std::string_view();
      tls_->Feed(std::string_view(buffer_, raw));
    }
  }

 private:
  Status Connect(const Address& address) {
    bool connected = false;
    POOLMARK_ASSIGN_OR_RETURN(const int fd, StartConnect(address, &connected));
    Status status =
        connected ? absl::OkStatus() : deadline_.Wait(fd, POLLOUT, "connecting", request_.timeout);
    if (status.ok() && !connected) {
      if (const int error = ConnectError(fd); error != 0) status = FromErrno("", "connect", error);
    }
    if (!status.ok()) {
      close(fd);
      return status;
    }
    fd_ = fd;
    return absl::OkStatus();
  }

  Status FlushOut() {
    Status status = WriteSocket(out_);
    out_.clear();
    return status;
  }

  Status WriteSocket(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t n = send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (n >= 0) {
        bytes.remove_prefix(static_cast<size_t>(n));
      } else if (errno == EAGAIN) {
        POOLMARK_RETURN_IF_ERROR(deadline_.Wait(fd_, POLLOUT, "sending the request", request_.idle_timeout));
      } else if (errno != EINTR) {
        return FromErrno("", "sending the request", errno);
      }
    }
    return absl::OkStatus();
  }

  Result<size_t> ReadSocket(const char* doing) {
    for (;;) {
      POOLMARK_RETURN_IF_ERROR(deadline_.Wait(fd_, POLLIN, doing, request_.idle_timeout));
      const ssize_t n = recv(fd_, buffer_, sizeof buffer_, 0);
      if (n >= 0) return static_cast<size_t>(n);
      if (errno != EAGAIN && errno != EINTR) return FromErrno("", doing, errno);
    }
  }

  const Request& request_;
  const Deadline& deadline_;
  int fd_ = -1;
  std::unique_ptr<TlsSession> tls_;
  std::string out_;
  char buffer_[32768];
  char plain_[32768];
};

class SocketClient : public Client {
 public:
  explicit SocketClient(int stop = -1) : stop_(stop) {}
  Result<Response> Send(const Request& request) override { return Exchange(request, nullptr); }
  Result<Response> Stream(const Request& request, const OnData& on_data) override {
    return Exchange(request, &on_data);
  }

 private:
  static Status Named(const Request& request, const Status& status) {
    if (status.ok()) return status;
    Error error = ErrorOf(status);
    error.where = request.method + " " + request.url.ToString();
    return ToStatus(error);
  }

  Result<Response> Exchange(const Request& request, const OnData* on_data) const {
    Result<Response> response = Run(request, on_data);
    if (!response.ok()) return Named(request, response.status());
    return response;
  }

  Result<Response> Run(const Request& request, const OnData* on_data) const {
    const Deadline deadline(request.timeout, stop_);
    const bool has_body = !request.body.empty() || request.method == "POST" || request.method == "PUT";
    Headers headers = request.headers;
    headers.emplace_back("Connection", "close");
    POOLMARK_ASSIGN_OR_RETURN(std::string message,
                              RequestHead(request.method, request.url, headers,
                                          has_body ? std::optional(request.body.size()) : std::nullopt));
    message += request.body;
    const auto connection = std::make_unique<Connection>(request, deadline);
    POOLMARK_RETURN_IF_ERROR(connection->Open());
    // A server may answer and close before it has read a large body: its answer counts, not our EPIPE.
    const Status written = connection->Write(message);
    Result<Response> response = ReadResponse(request, connection.get(), on_data);
    if (!response.ok() && !written.ok()) return written;
    return response;
  }

  static Result<Response> ReadResponse(const Request& request, Connection* connection,
                                       const OnData* on_data) {
    ResponseParser parser;
    parser.Reset(request.method == "HEAD");
    Response response;
    bool streams = false;
    size_t body_bytes = 0;
    for (;;) {
      POOLMARK_ASSIGN_OR_RETURN(std::string_view bytes, connection->Read());
      const Nanoseconds now = RealClock().Steady();
      const bool closed = bytes.empty();
      for (bool more = true; more;) {
        std::string_view piece;
        switch (closed ? parser.Closed() : parser.Next(&bytes, &piece)) {
          case ResponseParser::Step::kNeedMore:
            more = false;
            break;
          case ResponseParser::Step::kHead:
            response.status = parser.status();
            response.headers = parser.headers();
            streams = on_data != nullptr && response.status >= 200 && response.status <= 299;
            break;
          case ResponseParser::Step::kBody:
            body_bytes += piece.size();
            if (body_bytes > request.max_body_bytes) {
              return Unavailable(
                  "", "the body has more than " + std::to_string(request.max_body_bytes) + " bytes");
            }
            if (!streams) {
              response.body.append(piece);
            } else if (!(*on_data)(piece, now)) {
              return response;
            }
            break;
          case ResponseParser::Step::kDone:
            return response;
          case ResponseParser::Step::kError:
            return Unavailable("", parser.error());
        }
      }
    }
  }

  const int stop_;
};

// The stop as a descriptor, which poll() understands.
class StopDescriptor {
 public:
  explicit StopDescriptor(std::stop_token stop)
      : fd_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)), callback_(std::in_place, std::move(stop), Wake{fd_}) {}
  StopDescriptor(const StopDescriptor&) = delete;
  StopDescriptor& operator=(const StopDescriptor&) = delete;
  ~StopDescriptor() {
    callback_.reset();
    if (fd_ >= 0) close(fd_);
  }
  int get() const { return fd_; }

 private:
  struct Wake {
    int fd;
    void operator()() const { eventfd_write(fd, 1); }
  };
  int fd_;
  std::optional<std::stop_callback<Wake>> callback_;
};

class StoppableClient final : public Client {
 public:
  explicit StoppableClient(std::stop_token stop) : stop_(std::move(stop)), client_(stop_.get()) {}
  Result<Response> Send(const Request& request) override { return client_.Send(request); }
  Result<Response> Stream(const Request& request, const OnData& on_data) override {
    return client_.Stream(request, on_data);
  }

 private:
  StopDescriptor stop_;
  SocketClient client_;
};

}  // namespace

std::unique_ptr<Client> MakeClient() {
  return std::make_unique<SocketClient>();
}

std::unique_ptr<Client> MakeStoppableClient(std::stop_token stop) {
  return std::make_unique<StoppableClient>(std::move(stop));
}

}  // namespace poolmark::http
