#include "agent/sim/upstream.h"

#include <array>
#include <boost/asio.hpp>
#include <list>
#include <map>
#include <thread>
#include <unordered_set>

#include "common/http/response_parser.h"

namespace poolmark::sim {
namespace {

namespace asio = boost::asio;
using tcp = asio::ip::tcp;
using boost::system::error_code;
using namespace std::chrono_literals;
using Step = http::ResponseParser::Step;

constexpr size_t kMaxIdle = 256;  // kept-alive connections per server

std::string RequestText(const Exchange& exchange) {
  std::string text = exchange.method + " " + exchange.url.target + " HTTP/1.1\r\nHost: " + exchange.url.host +
                     ":" + std::to_string(exchange.url.port) + "\r\n";
  for (const auto& [name, value] : exchange.headers) text += name + ": " + value + "\r\n";
  if (exchange.method != "GET" && exchange.method != "HEAD") {
    text += "Content-Length: " + std::to_string(exchange.body.size()) + "\r\n";
  }
  return text + "\r\n" + exchange.body;
}

}  // namespace

class Upstream::Loop {
 public:
  Loop() : guard_(asio::make_work_guard(io_)), tick_(io_) {
    Tick();
    thread_ = std::thread([this] { io_.run(); });
  }

  ~Loop() {
    asio::post(io_, [this] {
      stopping_ = true;
      for (const auto& flight : std::unordered_set<std::shared_ptr<Flight>>(flights_)) {
        flight->Done(absl::CancelledError("the router ends"));
      }
      idle_.clear();
      tick_.cancel();
      guard_.reset();
    });
    thread_.join();
  }

  void Send(Exchange exchange) {
    asio::post(io_, [this, exchange = std::move(exchange)]() mutable {
      auto flight = std::make_shared<Flight>(this, std::move(exchange));
      if (stopping_) return flight->Done(absl::CancelledError("the router ends"));
      flights_.insert(flight);
      flight->Start();
    });
  }

 private:
  struct Flight : std::enable_shared_from_this<Flight> {
    Flight(Loop* owner, Exchange given) : loop(owner), exchange(std::move(given)), resolver(owner->io_) {}

    void Start() {
      deadline = std::chrono::steady_clock::now() + exchange.timeout;
      key = exchange.url.host + ":" + std::to_string(exchange.url.port);
      text = RequestText(exchange);
      auto& idle = loop->idle_[key];
      if (!idle.empty()) {
        socket = std::move(idle.back());
        idle.pop_back();
        reused = true;
        return Write();
      }
      Connect();
    }

    void Connect() {
      reused = false;
      socket = std::make_unique<tcp::socket>(loop->io_);
      auto self = shared_from_this();
      resolver.async_resolve(exchange.url.host, std::to_string(exchange.url.port),
                             [this, self](error_code error, tcp::resolver::results_type addresses) {
                               if (finished) return;
                               if (error) return Fail("cannot resolve", error);
                               asio::async_connect(*socket, addresses,
                                                   [this, self](error_code refused, tcp::endpoint) {
                                                     if (finished) return;
                                                     if (refused) return Fail("cannot connect", refused);
                                                     error_code ignored;
                                                     socket->set_option(tcp::no_delay(true), ignored);
                                                     Write();
                                                   });
                             });
    }

    void Write() {
      parser.Reset(exchange.method == "HEAD");
      auto self = shared_from_this();
      asio::async_write(*socket, asio::buffer(text), [this, self](error_code error, size_t) {
        if (finished) return;
        if (error) return Broken("cannot send", error);
        Read();
      });
    }

    void Read() {
      auto self = shared_from_this();
      socket->async_read_some(asio::buffer(buffer), [this, self](error_code error, size_t bytes) {
        if (finished) return;
        if (error == asio::error::eof && parser.started()) {
          if (parser.Closed() == Step::kDone) return Done(absl::OkStatus());
          return Fail("the answer is cut off", error);
        }
        if (error) return Broken("no answer", error);
        Take(std::string_view(buffer.data(), bytes));
      });
    }

    void Take(std::string_view input) {
      auto self = shared_from_this();
      while (!finished) {
        std::string_view piece;
        Step step = parser.Next(&input, &piece);
        if (step == Step::kNeedMore) return Read();
        if (step == Step::kHead) {
          if (exchange.on_head) exchange.on_head(parser.status(), parser.headers());
        } else if (step == Step::kBody) {
          if (exchange.on_body) exchange.on_body(piece);
        } else if (step == Step::kDone) {
          auto& idle = loop->idle_[key];
          if (parser.keep_alive() && input.empty() && idle.size() < kMaxIdle)
            idle.push_back(std::move(socket));
          return Done(absl::OkStatus());
        } else {
          return Done(Unavailable(key, "no valid HTTP answer: " + parser.error()));
        }
      }
    }

    // A kept connection may have been closed by the server just now: once more on a new one.
    void Broken(const char* what, error_code error) {
      if (reused && !parser.started()) return Connect();
      Fail(what, error);
    }
    void Fail(const char* what, error_code error) {
      Done(Unavailable(key, std::string(what) + ": " + error.message()));
    }
    void Done(Status status) {
      if (finished) return;
      finished = true;
      error_code ignored;
      if (socket != nullptr) socket->close(ignored);
      resolver.cancel();
      auto self = shared_from_this();
      loop->flights_.erase(self);
      if (exchange.on_done) exchange.on_done(std::move(status));
      exchange = {};  // what the callbacks hold is let go
    }

    Loop* loop;
    Exchange exchange;
    tcp::resolver resolver;
    std::unique_ptr<tcp::socket> socket;
    std::string key;
    std::string text;
    std::array<char, 16384> buffer;
    http::ResponseParser parser;
    std::chrono::steady_clock::time_point deadline;
    bool reused = false;
    bool finished = false;
  };

  void Tick() {
    tick_.expires_after(200ms);
    tick_.async_wait([this](error_code error) {
      if (error || stopping_) return;
      auto now = std::chrono::steady_clock::now();
      for (const auto& flight : std::unordered_set<std::shared_ptr<Flight>>(flights_)) {
        if (now > flight->deadline) {
          flight->Done(absl::DeadlineExceededError(flight->key + ": no whole answer in time"));
        } else if (flight->exchange.wanted && !flight->exchange.wanted()) {
          flight->Done(absl::CancelledError("the client has gone"));
        }
      }
      Tick();
    });
  }

  asio::io_context io_;
  asio::executor_work_guard<asio::io_context::executor_type> guard_;
  asio::steady_timer tick_;
  std::unordered_set<std::shared_ptr<Flight>> flights_;
  std::map<std::string, std::vector<std::unique_ptr<tcp::socket>>> idle_;
  bool stopping_ = false;
  std::thread thread_;
};

Upstream::Upstream() : loop_(std::make_unique<Loop>()) {}
Upstream::~Upstream() = default;
void Upstream::Send(Exchange exchange) {
  loop_->Send(std::move(exchange));
}

}  // namespace poolmark::sim
