#include "common/relay/relay.h"

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <list>
#include <mutex>
#include <thread>

#include "absl/strings/str_cat.h"
#include "common/base/openssl.h"
#include "common/relay/pin.h"
#include "common/relay/sockets.h"

namespace poolmark::relay {
namespace {

constexpr size_t kBuffer = 64u << 10;
constexpr Nanoseconds kConnect = std::chrono::seconds(10);

// The whole trust of a link: the other end's public key is one of the pins, and its certificate is in its
// time. That it holds the private key, TLS 1.3 itself proves.
int Verify(X509_STORE_CTX* store, void* accept) {
  X509* certificate = X509_STORE_CTX_get0_cert(store);
  const auto& pins = *static_cast<const std::set<std::string>*>(accept);
  if (certificate == nullptr || pins.count(PinOf(certificate)) == 0) {
    X509_STORE_CTX_set_error(store, X509_V_ERR_CERT_REJECTED);
    return 0;
  }
  if (X509_cmp_current_time(X509_get0_notAfter(certificate)) < 0 ||
      X509_cmp_current_time(X509_get0_notBefore(certificate)) > 0) {
    X509_STORE_CTX_set_error(store, X509_V_ERR_CERT_HAS_EXPIRED);
    return 0;
  }
  X509_STORE_CTX_set_error(store, X509_V_OK);
  return 1;
}

Result<SslContextPtr> MakeContext(const Options& options) {
  SslContextPtr context(SSL_CTX_new(options.server ? TLS_server_method() : TLS_client_method()));
  auto bio = [](const std::string& text) {
    return BioPtr(BIO_new_mem_buf(text.data(), static_cast<int>(text.size())));
  };
  CertPtr certificate(PEM_read_bio_X509(bio(options.certificate_pem).get(), nullptr, nullptr, nullptr));
  KeyPtr key(PEM_read_bio_PrivateKey(bio(options.private_pem).get(), nullptr, nullptr, nullptr));
  if (!context || !certificate || !key || SSL_CTX_use_certificate(context.get(), certificate.get()) != 1 ||
      SSL_CTX_use_PrivateKey(context.get(), key.get()) != 1 ||
      SSL_CTX_check_private_key(context.get()) != 1) {
    ERR_clear_error();
    return InvalidInput("relay key", "the key and the certificate are no pair of PEM texts");
  }
  SSL_CTX_set_min_proto_version(context.get(), TLS1_3_VERSION);
  // Every connection shows its key anew.
  SSL_CTX_set_session_cache_mode(context.get(), SSL_SESS_CACHE_OFF);
  SSL_CTX_set_num_tickets(context.get(), 0);
  SSL_CTX_set_mode(context.get(), SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
  SSL_CTX_set_verify(context.get(), SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, nullptr);
  return context;
}

// Bytes on their way in one direction.
struct Flow {
  char bytes[kBuffer];
  size_t begin = 0, end = 0;
  bool ended = false;   // nothing more will be read
  bool passed = false;  // the end of stream was told to the other side
  bool empty() const { return begin == end; }
  bool may_read() const { return !ended && empty(); }
};

}  // namespace

struct Relay::State {
  struct Connection {
    std::jthread thread;
    std::atomic<bool> done{false};
  };

  Options options;
  SslContextPtr context;
  Descriptor listener, wake;
  uint16_t port = 0;
  std::atomic<uint64_t> connections{0}, refused{0}, to_target{0}, from_target{0};
  std::list<Connection> open;  // of the accepting thread
  std::jthread acceptor;

  void Log(const std::string& line) const {
    if (options.log) options.log(line);
  }
  void Refuse(const std::string& peer, const std::string& why) {
    ++refused;
    Log(absl::StrCat("refused ", peer, ": ", why));
  }
  void Accept(std::stop_token stop);
  void Serve(Descriptor incoming);
  bool Handshake(SSL* ssl, const std::string& peer);
  void Pump(SSL* ssl, int tls, int plain);
};

void Relay::State::Accept(std::stop_token stop) {
  // OpenSSL writes without MSG_NOSIGNAL; the connections' threads inherit this.
  sigset_t pipe;
  sigemptyset(&pipe);
  sigaddset(&pipe, SIGPIPE);
  pthread_sigmask(SIG_BLOCK, &pipe, nullptr);
  while (!stop.stop_requested()) {
    open.remove_if([](const Connection& connection) { return connection.done.load(); });
    pollfd fds[] = {{listener.get(), POLLIN, 0}, {wake.get(), POLLIN, 0}};
    if (poll(fds, 2, 1000) < 0 && errno != EINTR) return;
    if (fds[1].revents != 0) return;
    if (fds[0].revents == 0) continue;
    Descriptor incoming(accept4(listener.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (incoming.get() < 0) {
      if (errno == EMFILE || errno == ENFILE)
        (void)WaitFor(wake.get(), POLLIN, std::chrono::milliseconds(100), wake.get());
      continue;
    }
    if (open.size() >= static_cast<size_t>(kMaxConnections)) {
      Refuse(PeerName(incoming.get()), absl::StrCat(kMaxConnections, " connections are open"));
      continue;
    }
    SetNoDelay(incoming.get());
    Connection& connection = open.emplace_back();
    connection.thread = std::jthread([this, &connection, incoming = std::move(incoming)]() mutable {
      Serve(std::move(incoming));
      connection.done = true;
    });
  }
}

bool Relay::State::Handshake(SSL* ssl, const std::string& peer) {
  const Nanoseconds deadline = RealClock().Steady() + options.handshake;
  for (;;) {
    ERR_clear_error();
    const int result = options.server ? SSL_accept(ssl) : SSL_connect(ssl);
    if (result == 1) return true;
    const int error = SSL_get_error(ssl, result);
    short events = 0;
    if (error == SSL_ERROR_WANT_READ) events = POLLIN;
    if (error == SSL_ERROR_WANT_WRITE) events = POLLOUT;
    if (events != 0 && WaitFor(SSL_get_fd(ssl), events, deadline - RealClock().Steady(), wake.get()))
      continue;
    const long verdict = SSL_get_verify_result(ssl);  // NOLINT: OpenSSL's type
    char text[256] = "no complete handshake";
    if (unsigned long code = ERR_peek_error(); code != 0)  // NOLINT: OpenSSL's type
      ERR_error_string_n(code, text, sizeof text);
    Refuse(peer, verdict == X509_V_ERR_CERT_REJECTED      ? "its key is none that this end accepts"
                 : verdict == X509_V_ERR_CERT_HAS_EXPIRED ? "its certificate is out of its time"
                                                          : text);
    ERR_clear_error();
    return false;
  }
}

void Relay::State::Serve(Descriptor incoming) {
  const std::string peer = PeerName(incoming.get());
  SslPtr ssl(SSL_new(context.get()));
  if (!ssl) return;
  Descriptor outgoing;
  // A server asks for the key before it touches the store; a client needs the link before it can ask.
  if (options.server) {
    SSL_set_fd(ssl.get(), incoming.get());
    if (!Handshake(ssl.get(), peer)) return;
  }
  auto connected = Connect(options.target_host, options.target_port, kConnect, wake.get());
  if (!connected.ok()) {
    CloseHard(incoming.get());
    return Refuse(peer, std::string(connected.status().message()));
  }
  outgoing = *std::move(connected);
  if (!options.server) {
    SSL_set_fd(ssl.get(), outgoing.get());
    if (!Handshake(ssl.get(), absl::StrCat(options.target_host, ":", options.target_port))) {
      CloseHard(incoming.get());
      return;
    }
  }
  ++connections;
  Log(absl::StrCat("link from ", peer));
  if (options.server) {
    Pump(ssl.get(), incoming.get(), outgoing.get());
  } else {
    Pump(ssl.get(), outgoing.get(), incoming.get());
  }
}

void Relay::State::Pump(SSL* ssl, int tls, int plain) {
  auto out = std::make_unique<Flow>(), in = std::make_unique<Flow>();  // plain -> TLS, TLS -> plain
  std::atomic<uint64_t>& sent = options.server ? from_target : to_target;
  std::atomic<uint64_t>& received = options.server ? to_target : from_target;
  bool tls_wants_write = false;  // of a read or a write that could not go on
  auto broken = [&] {
    CloseHard(tls);
    CloseHard(plain);
  };
  while (!(out->passed && in->passed)) {
    bool moved = false;
    if (out->may_read()) {
      const ssize_t count = recv(plain, out->bytes, kBuffer, 0);
      if (count > 0) {
        out->begin = 0;
        out->end = static_cast<size_t>(count);
        moved = true;
      } else if (count == 0) {
        out->ended = moved = true;
      } else if (errno != EAGAIN && errno != EINTR) {
        return broken();
      }
    }
    tls_wants_write = false;
    if (!out->empty()) {
      ERR_clear_error();
      const int count = SSL_write(ssl, out->bytes + out->begin, static_cast<int>(out->end - out->begin));
      if (count > 0) {
        out->begin += static_cast<size_t>(count);
        sent += static_cast<uint64_t>(count);
        moved = true;
      } else {
        const int error = SSL_get_error(ssl, count);
        if (error != SSL_ERROR_WANT_READ && error != SSL_ERROR_WANT_WRITE) return broken();
        tls_wants_write = error == SSL_ERROR_WANT_WRITE;
      }
    }
    if (out->ended && out->empty() && !out->passed) {
      ERR_clear_error();
      const int told = SSL_shutdown(ssl);  // our close_notify; the other direction stays open
      if (told >= 0) {
        out->passed = moved = true;
      } else {
        const int error = SSL_get_error(ssl, told);
        if (error != SSL_ERROR_WANT_READ && error != SSL_ERROR_WANT_WRITE) return broken();
        tls_wants_write = error == SSL_ERROR_WANT_WRITE;
      }
    }
    if (in->may_read()) {
      ERR_clear_error();
      const int count = SSL_read(ssl, in->bytes, static_cast<int>(kBuffer));
      if (count > 0) {
        in->begin = 0;
        in->end = static_cast<size_t>(count);
        moved = true;
      } else {
        const int error = SSL_get_error(ssl, count);
        if (error == SSL_ERROR_ZERO_RETURN) {
          in->ended = moved = true;
        } else if (error != SSL_ERROR_WANT_READ && error != SSL_ERROR_WANT_WRITE) {
          return broken();  // also an end without close_notify: somebody may have cut the stream short
        } else {
          tls_wants_write = tls_wants_write || error == SSL_ERROR_WANT_WRITE;
        }
      }
    }
    if (!in->empty()) {
      const ssize_t count = send(plain, in->bytes + in->begin, in->end - in->begin, MSG_NOSIGNAL);
      if (count > 0) {
        in->begin += static_cast<size_t>(count);
        received += static_cast<uint64_t>(count);
        moved = true;
      } else if (errno != EAGAIN && errno != EINTR) {
        return broken();
      }
    }
    if (in->ended && in->empty() && !in->passed) {
      shutdown(plain, SHUT_WR);
      in->passed = moved = true;
    }
    if (moved) {
      pollfd stop{wake.get(), POLLIN, 0};
      if (poll(&stop, 1, 0) > 0) return broken();
      continue;
    }
    const auto plain_events =
        static_cast<short>((out->may_read() ? POLLIN : 0) | (in->empty() ? 0 : POLLOUT));
    const auto tls_events =
        static_cast<short>((in->ended && !tls_wants_write ? 0 : POLLIN) | (tls_wants_write ? POLLOUT : 0));
    // A side that nothing is wanted of is left out: a hang-up there would be told again and again.
    pollfd fds[] = {{plain_events != 0 ? plain : -1, plain_events, 0},
                    {tls_events != 0 && (in->may_read() || tls_wants_write) ? tls : -1, tls_events, 0},
                    {wake.get(), POLLIN, 0}};
    if (poll(fds, 3, -1) < 0 && errno != EINTR) return broken();
    if (fds[2].revents != 0) return broken();
  }
}

Relay::Relay() : state_(std::make_unique<State>()) {}

Result<std::unique_ptr<Relay>> Relay::Start(Options options) {
  if (options.accept.empty())
    return InvalidInput("relay", "accepts no key, so nobody could use it", "give the other end's pin");
  for (const std::string& pin : options.accept) {
    if (pin.size() != 64 || pin.find_first_not_of("0123456789abcdef") != std::string::npos)
      return InvalidInput("relay", absl::StrCat("'", pin, "' is no pin"), "64 lower case hex digits");
  }
  std::unique_ptr<Relay> relay(new Relay());
  State& state = *relay->state_;
  state.options = std::move(options);
  POOLMARK_ASSIGN_OR_RETURN(state.context, MakeContext(state.options));
  SSL_CTX_set_cert_verify_callback(state.context.get(), Verify, &state.options.accept);
  state.wake = Descriptor(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (state.wake.get() < 0) return FromErrno("relay", "making an event", errno);
  POOLMARK_ASSIGN_OR_RETURN(state.listener,
                            Listen(state.options.listen_host, state.options.listen_port, &state.port));
  state.acceptor = std::jthread([&state](std::stop_token stop) { state.Accept(stop); });
  return relay;
}

Relay::~Relay() {
  if (state_->acceptor.joinable()) {
    state_->acceptor.request_stop();
    const uint64_t one = 1;
    (void)!write(state_->wake.get(), &one, sizeof one);
    state_->acceptor.join();
  }
  state_->open.clear();  // joins: each sees the event
}

uint16_t Relay::port() const {
  return state_->port;
}

Totals Relay::totals() const {
  return {state_->connections, state_->refused, state_->to_target, state_->from_target};
}

}  // namespace poolmark::relay
