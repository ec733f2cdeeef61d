// The server behind server.h: one io_context, one strand per connection, bytes queued under a mutex so
// that any thread may write. A connection reads on while its answer is being written (to notice that the
// peer has gone), but never more than one head beyond the request at hand.
#include "common/http/server.h"

#include <atomic>
#include <boost/asio.hpp>
#include <mutex>
#include <thread>
#include <unordered_set>

#include "common/base/log.h"
#include "common/http/request_parser.h"
#include "common/http/response_head.h"

namespace poolmark::http {
namespace {

namespace asio = boost::asio;
using tcp = asio::ip::tcp;
using Strand = asio::strand<asio::io_context::executor_type>;
using Socket = asio::basic_stream_socket<tcp, Strand>;
using boost::system::error_code;
using namespace std::chrono_literals;

constexpr auto kIdleLimit = 75s;     // between two requests
constexpr auto kRequestLimit = 60s;  // from the first byte of a request to its last
constexpr auto kWriteLimit = 60s;    // one write without progress
constexpr size_t kMaxQueuedBytes = 64u << 20;
constexpr size_t kReadAhead = RequestParser::kMaxHeadBytes;

class ServerConnection;

// What connections share with the server; outlives it as long as a writer is held somewhere.
struct Core {
  asio::io_context io;
  ServerOptions options;
  Handler handler;
  std::mutex mutex;  // guards connections, stopping
  std::unordered_set<std::shared_ptr<ServerConnection>> connections;
  bool stopping = false;
};

class ServerConnection : public std::enable_shared_from_this<ServerConnection> {
 public:
  ServerConnection(std::shared_ptr<Core> core, Socket socket)
      : core_(std::move(core)),
        socket_(std::move(socket)),
        timer_(socket_.get_executor()),
        parser_(core_->options.max_body_bytes) {}

  void Start() {
    error_code ignored;
    socket_.set_option(tcp::no_delay(true), ignored);
    tcp::endpoint peer = socket_.remote_endpoint(ignored);
    if (!ignored) {
      std::string address = peer.address().to_string();
      peer_ = (peer.address().is_v6() ? "[" + address + "]" : address) + ":" + std::to_string(peer.port());
    }
    asio::dispatch(socket_.get_executor(), [self = shared_from_this()] {
      self->Arm(kIdleLimit);
      self->Read();
    });
  }

  // From any thread: bytes to send; `last` ends the answer. False once the connection is closed.
  bool Queue(std::string_view bytes, bool last) {
    std::lock_guard lock(mutex_);
    if (closed_) return false;
    if (!queued_.empty() && queued_.size() + bytes.size() > kMaxQueuedBytes) {
      // A peer that does not read: ended, so that it cannot fill our memory.
      closed_ = true;
      asio::post(socket_.get_executor(), [self = shared_from_this()] { self->Close(true); });
      return false;
    }
    queued_.append(bytes);
    answer_ended_ = answer_ended_ || last;
    if (!flush_posted_) {
      flush_posted_ = true;
      asio::post(socket_.get_executor(), [self = shared_from_this()] { self->Flush(); });
    }
    return true;
  }

  void AbortFromAnyThread() {
    std::lock_guard lock(mutex_);
    if (closed_) return;
    closed_ = true;
    asio::post(socket_.get_executor(), [self = shared_from_this()] { self->Close(true); });
  }

  void CloseFromAnyThread() {
    asio::post(socket_.get_executor(), [self = shared_from_this()] { self->Close(false); });
  }

  bool gone() const { return gone_.load(std::memory_order_relaxed); }

 private:
  void Arm(std::chrono::steady_clock::duration limit) {
    if (!socket_.is_open()) return;
    timer_.expires_after(limit);
    timer_.async_wait([self = shared_from_this(), round = ++timer_round_](error_code error) {
      if (!error && round == self->timer_round_) self->Close(false);
    });
  }
  void Disarm() {
    ++timer_round_;
    timer_.cancel();
  }

  void Read() {
    if (reading_ || !socket_.is_open()) return;
    reading_ = true;
    socket_.async_read_some(asio::buffer(buffer_),
                            [self = shared_from_this()](error_code error, size_t bytes) {
                              self->reading_ = false;
                              self->OnRead(error, bytes);
                            });
  }

  void OnRead(error_code error, size_t bytes) {
    if (error) {
      gone_.store(true, std::memory_order_relaxed);
      eof_ = true;
      // A peer that only closed its sending side still gets the answer that it asked for.
      if (!busy_ || error != asio::error::eof) Close(false);
      return;
    }
    input_.append(buffer_.data(), bytes);
    if (busy_) {
      if (input_.size() < kReadAhead) Read();
      return;
    }
    Process();
  }

  // Parses what has been read; starts at most one request.
  void Process() {
    bool had_started = parser_.started();
    size_t used = parser_.Feed(input_);
    input_.erase(0, used);
    if (!had_started && parser_.started()) Arm(kRequestLimit);
    if (parser_.state() == RequestParser::State::kBad) {
      Refuse();
      return;
    }
    if (parser_.TakeExpectContinue()) Queue("HTTP/1.1 100 Continue\r\n\r\n", false);
    if (parser_.state() != RequestParser::State::kDone) {
      Read();
      return;
    }
    Disarm();
    busy_ = true;
    Read();
    Serve();
  }

  void Serve();

  void Refuse() {
    busy_ = true;
    keep_alive_ = false;
    drain_ = true;
    std::string body = parser_.error() + "\n";
    std::string head = ResponseHead(parser_.error_status(), "text/plain; charset=utf-8", {}, false);
    head += "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n";
    Queue(head + body, true);
  }

  void Flush() {
    {
      std::lock_guard lock(mutex_);
      flush_posted_ = false;
      if (writing_ || !socket_.is_open()) return;
      in_flight_.clear();
      in_flight_.swap(queued_);
      if (in_flight_.empty()) {
        if (!answer_ended_) return;
      } else {
        writing_ = true;
      }
    }
    if (!writing_) {
      AnswerDone();
      return;
    }
    Arm(kWriteLimit);
    asio::async_write(socket_, asio::buffer(in_flight_),
                      [self = shared_from_this()](error_code error, size_t) {
                        self->Disarm();
                        self->writing_ = false;
                        if (!self->busy_) self->Arm(kRequestLimit);  // it was the "100 Continue"
                        if (error) {
                          self->Close(false);
                          return;
                        }
                        self->Flush();
                      });
  }

  // The whole answer is on its way: the next request, or the end.
  void AnswerDone() {
    {
      std::lock_guard lock(mutex_);
      answer_ended_ = false;
    }
    if (!busy_) return;
    busy_ = false;
    if (!keep_alive_ || eof_) {
      // Unread bytes would turn the close into a reset that may overtake the answer.
      error_code ignored;
      socket_.shutdown(tcp::socket::shutdown_send, ignored);
      if (drain_ && !eof_) {
        Arm(2s);
        Drain();
      } else {
        Close(false);
      }
      return;
    }
    parser_.Next();
    Arm(kIdleLimit);
    Process();
  }

  void Drain() {
    if (reading_ || !socket_.is_open()) return;
    reading_ = true;
    socket_.async_read_some(asio::buffer(buffer_), [self = shared_from_this()](error_code error, size_t) {
      self->reading_ = false;
      if (error) {
        self->Close(false);
      } else {
        self->Drain();
      }
    });
  }

  void Close(bool reset) {
    {
      std::lock_guard lock(mutex_);
      closed_ = true;
      queued_.clear();
    }
    gone_.store(true, std::memory_order_relaxed);
    if (!socket_.is_open()) return;
    error_code ignored;
    if (reset) socket_.set_option(asio::socket_base::linger(true, 0), ignored);
    socket_.close(ignored);
    Disarm();
    std::lock_guard lock(core_->mutex);
    core_->connections.erase(shared_from_this());
  }

  friend class Writer;
  std::shared_ptr<Core> core_;
  Socket socket_;
  asio::basic_waitable_timer<std::chrono::steady_clock, asio::wait_traits<std::chrono::steady_clock>, Strand>
      timer_;
  uint64_t timer_round_ = 0;
  RequestParser parser_;
  std::string peer_;
  std::array<char, 16384> buffer_;
  std::string input_;
  std::string in_flight_;
  bool reading_ = false;
  bool busy_ = false;  // a request is being answered
  bool keep_alive_ = true;
  bool eof_ = false;
  bool drain_ = false;
  bool writing_ = false;
  std::atomic<bool> gone_ = false;

  std::mutex mutex_;  // guards the rest
  std::string queued_;
  bool answer_ended_ = false;
  bool flush_posted_ = false;
  bool closed_ = false;
};

class Writer final : public ResponseWriter {
 public:
  Writer(std::shared_ptr<ServerConnection> connection, bool head_only, bool http_1_0, bool keep_alive)
      : connection_(std::move(connection)),
        head_only_(head_only),
        http_1_0_(http_1_0),
        keep_alive_(keep_alive) {}

  // A handler that forgets its request must not leave the peer waiting.
  ~Writer() override {
    if (!started_) {
      Send(500, "text/plain; charset=utf-8", "the request was dropped without an answer\n", {});
    } else if (!ended_) {
      Abort();
    }
  }

  void Send(int status, std::string_view content_type, std::string body, const Headers& extra) override {
    std::lock_guard lock(mutex_);
    if (started_) return;
    started_ = ended_ = true;
    std::string text = ResponseHead(status, content_type, extra, keep_alive_);
    if (status != 204 && status != 304) text += "Content-Length: " + std::to_string(body.size()) + "\r\n";
    text += "\r\n";
    if (!head_only_) text += body;
    connection_->Queue(text, true);
  }

  bool StartStream(int status, std::string_view content_type, const Headers& extra) override {
    std::lock_guard lock(mutex_);
    if (started_) return false;
    started_ = true;
    std::string text = ResponseHead(status, content_type, extra, keep_alive_);
    if (!http_1_0_) text += "Transfer-Encoding: chunked\r\n";
    text += "\r\n";
    return connection_->Queue(text, false) && !connection_->gone();
  }

  bool Write(std::string_view piece) override {
    std::lock_guard lock(mutex_);
    if (!started_ || ended_ || connection_->gone()) return false;
    if (piece.empty() || head_only_) return true;
    if (http_1_0_) return connection_->Queue(piece, false);
    char size[20];
    int digits = std::snprintf(size, sizeof size, "%zx\r\n", piece.size());
    std::string text;
    text.reserve(piece.size() + 24);
    text.append(size, static_cast<size_t>(digits)).append(piece).append("\r\n");
    return connection_->Queue(text, false);
  }

  void End() override {
    std::lock_guard lock(mutex_);
    if (!started_ || ended_) return;
    ended_ = true;
    connection_->Queue(http_1_0_ || head_only_ ? "" : "0\r\n\r\n", true);
  }

  void Abort() override {
    std::lock_guard lock(mutex_);
    started_ = ended_ = true;
    connection_->AbortFromAnyThread();
  }

  bool peer_gone() const override { return connection_->gone(); }

 private:
  std::shared_ptr<ServerConnection> connection_;
  const bool head_only_;
  const bool http_1_0_;
  const bool keep_alive_;
  std::mutex mutex_;  // guards the two
  bool started_ = false;
  bool ended_ = false;
};

void ServerConnection::Serve() {
  // An HTTP/1.0 stream has no other end than the close of the connection.
  keep_alive_ = parser_.keep_alive() && !parser_.http_1_0();
  parser_.request().peer = peer_;
  ServerRequest request = std::move(parser_.request());
  auto writer =
      std::make_shared<Writer>(shared_from_this(), request.method == "HEAD", parser_.http_1_0(), keep_alive_);
  try {
    core_->handler(request, writer);
  } catch (const std::exception& error) {
    Log(LogLevel::kError, "http.handler", {{"path", request.path}, {"error", error.what()}});
    writer->Send(500, "text/plain; charset=utf-8", "internal error\n", {});
  }
}

class AsioServer final : public Server {
 public:
  explicit AsioServer(std::shared_ptr<Core> core)
      : core_(std::move(core)), acceptor_(asio::make_strand(core_->io)), pause_(acceptor_.get_executor()) {}
  ~AsioServer() override { Stop(); }

  Status Listen() {
    const ServerOptions& options = core_->options;
    std::string where = options.address + ":" + std::to_string(options.port);
    error_code error;
    asio::ip::address address = asio::ip::make_address(options.address, error);
    if (error) {
      return InvalidInput(where, "'" + options.address + "' is no IP address",
                          "name one, such as 127.0.0.1 or ::1");
    }
    tcp::endpoint endpoint(address, options.port);
    acceptor_.open(endpoint.protocol(), error);
    if (!error) acceptor_.set_option(tcp::acceptor::reuse_address(true), error);
    if (!error) acceptor_.bind(endpoint, error);
    if (!error) acceptor_.listen(asio::socket_base::max_listen_connections, error);
    if (!error) port_ = acceptor_.local_endpoint(error).port();
    if (error) return Unavailable(where, "cannot listen: " + error.message(), "choose a free port, or 0");
    return absl::OkStatus();
  }

  void Run() {
    asio::post(acceptor_.get_executor(), [this] { Accept(); });
    for (int i = 0; i < std::max(core_->options.threads, 1); ++i) {
      threads_.emplace_back([core = core_] { core->io.run(); });
    }
  }

  uint16_t port() const override { return port_; }

  void Stop() override {
    {
      std::lock_guard lock(core_->mutex);
      if (std::exchange(core_->stopping, true)) return;
      for (const auto& connection : core_->connections) connection->CloseFromAnyThread();
    }
    asio::post(acceptor_.get_executor(), [this] {
      error_code ignored;
      acceptor_.close(ignored);
      pause_.cancel();
    });
    for (std::thread& thread : threads_) thread.join();
    threads_.clear();
  }

 private:
  void Accept() {
    acceptor_.async_accept(asio::make_strand(core_->io), [this](error_code error, Socket socket) {
      if (error == asio::error::operation_aborted || !acceptor_.is_open()) return;
      if (error) {
        // Out of descriptors, mostly: others must end before a new one can begin.
        pause_.expires_after(100ms);
        pause_.async_wait([this](error_code stopped) {
          if (!stopped && acceptor_.is_open()) Accept();
        });
        return;
      }
      auto connection = std::make_shared<ServerConnection>(core_, std::move(socket));
      {
        std::lock_guard lock(core_->mutex);
        if (core_->stopping) return;
        // Over the cap the socket is closed at once: the peer sees the end instead of a silence.
        if (core_->connections.size() < core_->options.max_connections) {
          core_->connections.insert(connection);
        } else {
          connection.reset();
        }
      }
      if (connection) connection->Start();
      Accept();
    });
  }

  std::shared_ptr<Core> core_;
  asio::basic_socket_acceptor<tcp, Strand> acceptor_;
  asio::basic_waitable_timer<std::chrono::steady_clock, asio::wait_traits<std::chrono::steady_clock>, Strand>
      pause_;
  uint16_t port_ = 0;
  std::vector<std::thread> threads_;
};

}  // namespace

Result<std::unique_ptr<Server>> Server::Start(const ServerOptions& options, Handler handler) {
  auto core = std::make_shared<Core>();
  core->options = options;
  core->handler = std::move(handler);
  auto server = std::make_unique<AsioServer>(core);
  POOLMARK_RETURN_IF_ERROR(server->Listen());
  server->Run();
  return std::unique_ptr<Server>(std::move(server));
}

}  // namespace poolmark::http
