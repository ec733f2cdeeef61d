// The TLS link to a store on a public address, with real sockets: who gets through, and what comes out.
#include "common/relay/relay.h"

#include <arpa/inet.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "common/relay/keys.h"
#include "common/relay/sockets.h"
#include "tests/support/waiting.h"

namespace poolmark::relay {
namespace {

using namespace std::chrono_literals;

Key KeyFor(const std::string& name, Nanoseconds life = 1h, Nanoseconds shift = 0s) {
  auto key = MakeKey(name, RealClock().Wall() + shift, life);
  REQUIRE(key.ok());
  return *key;
}

// A store's stand-in: gives every byte back, and ends when its reader has ended.
class Echo {
 public:
  Echo() {
    auto listener = Listen("127.0.0.1", 0, &port_);
    REQUIRE(listener.ok());
    listener_ = *std::move(listener);
    thread_ = std::jthread([this](std::stop_token stop) {
      std::vector<std::jthread> served;
      while (!stop.stop_requested()) {
        if (!WaitFor(listener_.get(), 1, 50ms, -1)) continue;
        int fd = accept(listener_.get(), nullptr, nullptr);
        if (fd < 0) continue;
        ++accepted_;
        served.emplace_back([fd] {
          std::string buffer(1 << 16, '\0');
          for (;;) {
            ssize_t count = recv(fd, buffer.data(), buffer.size(), 0);
            if (count <= 0) break;
            for (ssize_t at = 0; at < count;) {
              ssize_t sent = send(fd, buffer.data() + at, static_cast<size_t>(count - at), MSG_NOSIGNAL);
              if (sent <= 0) break;
              at += sent;
            }
          }
          close(fd);
        });
      }
    });
  }
  uint16_t port() const { return port_; }
  int accepted() const { return accepted_; }

 private:
  uint16_t port_ = 0;
  Descriptor listener_;
  std::atomic<int> accepted_{0};
  std::jthread thread_;
};

int ConnectTo(uint16_t port) {
  int fd = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  // No assertion here: Catch's belong to the test's own thread. Without a connection nothing will be read.
  (void)!connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof address);
  timeval limit{30, 0};
  setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  return fd;
}

// Everything until the end of the stream; `clean` says whether it was an end and no reset.
std::string ReadAll(int fd, bool* clean) {
  std::string all, buffer(1 << 16, '\0');
  for (;;) {
    ssize_t count = recv(fd, buffer.data(), buffer.size(), 0);
    *clean = count == 0;
    if (count <= 0) return all;
    all.append(buffer, 0, static_cast<size_t>(count));
  }
}

struct Link {
  Echo store;
  Key head = KeyFor("head"), client_key = KeyFor("n1");
  std::mutex mutex;
  std::vector<std::string> log;
  std::unique_ptr<Relay> server, client;

  std::unique_ptr<Relay> Server(const std::set<std::string>& accept) {
    Options options;
    options.server = true;
    options.target_host = "127.0.0.1";
    options.target_port = store.port();
    options.private_pem = head.private_pem;
    options.certificate_pem = head.certificate_pem;
    options.accept = accept;
    options.handshake = 2s;
    options.log = [this](const std::string& line) {
      std::lock_guard lock(mutex);
      log.push_back(line);
    };
    auto relay = Relay::Start(options);
    REQUIRE(relay.ok());
    return *std::move(relay);
  }
  std::unique_ptr<Relay> Client(const Key& own, const std::set<std::string>& accept) {
    Options options;
    options.target_host = "127.0.0.1";
    options.target_port = server->port();
    options.private_pem = own.private_pem;
    options.certificate_pem = own.certificate_pem;
    options.accept = accept;
    auto relay = Relay::Start(options);
    REQUIRE(relay.ok());
    return *std::move(relay);
  }
  bool Logged(const std::string& text) {
    return test::WaitFor([&] {
      std::lock_guard lock(mutex);
      return !log.empty() && log.back().find(text) != std::string::npos;
    });
  }
  Link() {
    server = Server({client_key.pin});
    client = Client(client_key, {head.pin});
  }
};

// What a client relay's user sees of a link that refuses: nothing, and an end or a reset.
bool GetsNothing(uint16_t port) {
  int fd = ConnectTo(port);
  const std::string text = "PING\r\n";
  (void)!send(fd, text.data(), text.size(), MSG_NOSIGNAL);
  bool clean = false;
  const std::string answer = ReadAll(fd, &clean);
  close(fd);
  return answer.empty();
}

}  // namespace

TEST_CASE("bytes pass unchanged both ways, ends of stream too", "[J2][live]") {
  Link link;
  std::string sent(24u << 20, '\0');
  for (size_t i = 0; i < sent.size(); ++i) sent[i] = static_cast<char>(i * 2654435761u >> 13);
  int fd = ConnectTo(link.client->port());
  std::jthread writer([&] {
    for (size_t at = 0; at < sent.size();) {
      ssize_t count = send(fd, sent.data() + at, std::min<size_t>(sent.size() - at, 70'001), MSG_NOSIGNAL);
      if (count <= 0) break;
      at += static_cast<size_t>(count);
    }
    shutdown(fd, SHUT_WR);  // half closed: the answer still comes
  });
  bool clean = false;
  const std::string got = ReadAll(fd, &clean);
  writer.join();
  close(fd);
  CHECK(clean);
  CHECK(got == sent);
  link.client.reset();
  const Totals totals = link.server->totals();
  CHECK(totals.connections == 1);
  CHECK(totals.refused == 0);
  CHECK(totals.bytes_to_target == sent.size());
  CHECK(totals.bytes_from_target == sent.size());
}

TEST_CASE("many connections share one link", "[J2][live]") {
  Link link;
  std::atomic<int> good{0};
  {
    std::vector<std::jthread> users;
    for (int i = 0; i < 32; ++i) {
      users.emplace_back([&, i] {
        int fd = ConnectTo(link.client->port());
        const std::string text = "user " + std::to_string(i);
        (void)!send(fd, text.data(), text.size(), MSG_NOSIGNAL);
        shutdown(fd, SHUT_WR);
        bool clean = false;
        if (ReadAll(fd, &clean) == text && clean) ++good;
        close(fd);
      });
    }
  }
  CHECK(good == 32);
}

TEST_CASE("only the keys that an end was told are accepted", "[J2][live]") {
  Link link;
  SECTION("a client with another key, whatever its name") {
    auto other = link.Client(KeyFor("n1"), {link.head.pin});
    CHECK(GetsNothing(other->port()));
    CHECK(link.store.accepted() == 0);
    CHECK(link.Logged("its key is none that this end accepts"));
    std::lock_guard lock(link.mutex);
    CHECK(link.log.size() == 1);  // and no link
  }
  SECTION("a client that expects another head") {
    auto other = link.Client(link.client_key, {KeyFor("head").pin});
    CHECK(GetsNothing(other->port()));
    CHECK(test::WaitFor([&] { return other->totals().refused == 1; }));
    CHECK(link.store.accepted() == 0);
  }
  SECTION("a certificate out of its time") {
    const Key old = KeyFor("n1", 10s, -2h);
    link.client.reset();
    link.server = link.Server({old.pin});
    auto other = link.Client(old, {link.head.pin});
    CHECK(GetsNothing(other->port()));
    CHECK(link.store.accepted() == 0);
    CHECK(link.Logged("out of its time"));
  }
  SECTION("plain bytes") {
    CHECK(GetsNothing(link.server->port()));
    CHECK(link.store.accepted() == 0);
    CHECK(link.server->totals().connections == 0);
  }
  SECTION("a connection that says nothing is ended by the handshake's time") {
    int fd = ConnectTo(link.server->port());
    bool clean = false;
    CHECK(ReadAll(fd, &clean).empty());
    close(fd);
    CHECK(link.store.accepted() == 0);
  }
}

namespace {

// A handshake by hand: true when the server let it through, seen by an answer of the store.
bool HandMade(const Link& link, int version, const Key* key) {
  SSL_CTX* context = SSL_CTX_new(TLS_client_method());
  SSL_CTX_set_max_proto_version(context, version);
  if (key != nullptr) {
    BIO* bio = BIO_new_mem_buf(key->certificate_pem.data(), -1);
    X509* certificate = PEM_read_bio_X509(bio, nullptr, nullptr, nullptr);
    BIO_free(bio);
    bio = BIO_new_mem_buf(key->private_pem.data(), -1);
    EVP_PKEY* secret = PEM_read_bio_PrivateKey(bio, nullptr, nullptr, nullptr);
    BIO_free(bio);
    SSL_CTX_use_certificate(context, certificate);
    SSL_CTX_use_PrivateKey(context, secret);
    X509_free(certificate);
    EVP_PKEY_free(secret);
  }
  int fd = ConnectTo(link.server->port());
  SSL* ssl = SSL_new(context);
  SSL_set_fd(ssl, fd);
  bool through = false;
  char answer[8] = {};
  if (SSL_connect(ssl) == 1 && SSL_write(ssl, "ping", 4) == 4) through = SSL_read(ssl, answer, 4) == 4;
  ERR_clear_error();
  SSL_free(ssl);
  close(fd);
  SSL_CTX_free(context);
  return through;
}

}  // namespace

TEST_CASE("TLS below 1.3 and clients without a certificate are refused", "[J2][live]") {
  signal(SIGPIPE, SIG_IGN);
  Link link;
  CHECK(HandMade(link, TLS1_3_VERSION, &link.client_key));
  CHECK_FALSE(HandMade(link, TLS1_2_VERSION, &link.client_key));
  CHECK_FALSE(HandMade(link, TLS1_3_VERSION, nullptr));
  CHECK(link.server->totals().connections == 1);
}

TEST_CASE("a link that breaks is passed on as a reset, never as an end", "[J2][live]") {
  Link link;
  int fd = ConnectTo(link.client->port());
  REQUIRE(send(fd, "x", 1, MSG_NOSIGNAL) == 1);
  char byte = 0;
  REQUIRE(recv(fd, &byte, 1, 0) == 1);
  link.server.reset();
  bool clean = true;
  CHECK(ReadAll(fd, &clean).empty());
  CHECK_FALSE(clean);
  close(fd);
}

TEST_CASE("an end without a key, with a wrong pin or without an address does not start", "[J2]") {
  const Key key = KeyFor("head");
  Options options;
  options.private_pem = key.private_pem;
  options.certificate_pem = key.certificate_pem;
  CHECK_FALSE(Relay::Start(options).ok());  // accepts nobody
  options.accept = {"abc"};
  CHECK_FALSE(Relay::Start(options).ok());
  options.accept = {key.pin};
  options.private_pem = KeyFor("other").private_pem;
  CHECK_FALSE(Relay::Start(options).ok());
  options.private_pem = key.private_pem;
  options.listen_host = "store.example";
  CHECK_FALSE(Relay::Start(options).ok());
  CHECK(PinOf(key.certificate_pem).value() == key.pin);
  CHECK_FALSE(PinOf("no certificate").ok());
}

}  // namespace poolmark::relay
