#include "common/http/server.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <thread>

using namespace poolmark;
using namespace poolmark::http;
using namespace std::chrono_literals;

namespace {

// A plain socket to the server: what it reads is what was on the wire.
class Peer {
 public:
  explicit Peer(uint16_t port) : fd_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    REQUIRE(connect(fd_, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0);
  }
  ~Peer() { Close(); }
  void Close() {
    if (fd_ >= 0) close(fd_);
    fd_ = -1;
  }
  void Send(std::string_view text) { (void)!send(fd_, text.data(), text.size(), MSG_NOSIGNAL); }
  void EndSending() { shutdown(fd_, SHUT_WR); }
  // Reads until `text` is in what came; false at the end of the stream or after 5 s.
  bool ReadUntil(std::string_view text) {
    while (got.find(text) == std::string::npos) {
      if (!ReadSome()) return false;
    }
    return true;
  }
  void ReadAll() {
    while (ReadSome()) {
    }
  }
  std::string got;
  int error = 0;  // errno of the last read that failed

 private:
  bool ReadSome() {
    pollfd p{fd_, POLLIN, 0};
    if (poll(&p, 1, 5000) != 1) {
      error = ETIMEDOUT;
      return false;
    }
    char buffer[4096];
    ssize_t n = recv(fd_, buffer, sizeof buffer, 0);
    if (n < 0) error = errno;
    if (n <= 0) return false;
    got.append(buffer, static_cast<size_t>(n));
    return true;
  }
  int fd_;
};

std::unique_ptr<Server> StartServer(Handler handler, ServerOptions options = {}) {
  auto server = Server::Start(options, std::move(handler));
  REQUIRE(server.ok());
  return std::move(*server);
}

void Echo(const ServerRequest& request, std::shared_ptr<ResponseWriter> writer) {
  writer->Send(200, "text/plain", request.method + " " + request.path + " " + request.body,
               {{"X-A", "b\r\nc"}});
}

const std::string kGet = "GET /x HTTP/1.1\r\nHost: h\r\n\r\n";

}  // namespace

TEST_CASE("requests on one connection are answered in turn, pipelined too") {
  auto server = StartServer(Echo);
  Peer peer(server->port());
  peer.Send(kGet + "POST /y HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n\r\nhi");
  REQUIRE(peer.ReadUntil("POST /y hi"));
  CHECK(peer.got.find("Content-Length: 7\r\n\r\nGET /x HTTP/1.1 200 OK") != std::string::npos);
  CHECK(peer.got.find("X-A: b  c\r\n") != std::string::npos);
  peer.Send("GET /z HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n");
  peer.ReadAll();
  CHECK(peer.got.find("GET /z ") != std::string::npos);
  CHECK(peer.got.find("Connection: close") != std::string::npos);
  CHECK(peer.error == 0);
}

TEST_CASE("a stream is written from another thread after the handler has returned") {
  std::mutex mutex;
  std::condition_variable ready;
  std::shared_ptr<ResponseWriter> kept;
  auto server = StartServer([&](const ServerRequest&, std::shared_ptr<ResponseWriter> writer) {
    writer->StartStream(200, "text/event-stream");
    std::lock_guard lock(mutex);
    kept = std::move(writer);
    ready.notify_one();
  });
  Peer peer(server->port());
  peer.Send(kGet);
  REQUIRE(peer.ReadUntil("Transfer-Encoding: chunked\r\n\r\n"));
  std::unique_lock lock(mutex);
  REQUIRE(ready.wait_for(lock, 5s, [&] { return kept != nullptr; }));
  CHECK(kept->Write("data: 1\n\n"));
  REQUIRE(peer.ReadUntil("9\r\ndata: 1\n\n\r\n"));
  CHECK(kept->Write("data: 2\n\n"));
  kept->End();
  CHECK_FALSE(kept->Write("too late"));
  REQUIRE(peer.ReadUntil("0\r\n\r\n"));
  kept.reset();
  // The connection lives on.
  peer.got.clear();
  peer.Send(kGet);
  REQUIRE(ready.wait_for(lock, 5s, [&] { return kept != nullptr; }));
  kept->Send(500, "text/plain", "no second answer");
  kept.reset();
  peer.ReadAll();
  CHECK(peer.got.find("no second answer") == std::string::npos);
  // A stream that is dropped without its end is no whole answer.
  CHECK(peer.got.find("0\r\n\r\n") == std::string::npos);
}

TEST_CASE("an aborted answer is a reset at the peer") {
  auto server =
      StartServer([](const ServerRequest&, std::shared_ptr<ResponseWriter> writer) { writer->Abort(); });
  Peer peer(server->port());
  peer.Send(kGet);
  peer.ReadAll();
  CHECK(peer.got.empty());
  CHECK(peer.error == ECONNRESET);
}

TEST_CASE("a handler that forgets or throws still answers 500") {
  std::atomic<int> calls = 0;
  auto server = StartServer([&](const ServerRequest&, std::shared_ptr<ResponseWriter>) {
    if (++calls == 2) throw std::runtime_error("broken");
  });
  for (int i = 0; i < 2; ++i) {
    Peer peer(server->port());
    peer.Send(kGet);
    CHECK(peer.ReadUntil("HTTP/1.1 500"));
  }
}

TEST_CASE("the writer learns that its peer has gone") {
  std::mutex mutex;
  std::condition_variable ready;
  std::shared_ptr<ResponseWriter> kept;
  auto server = StartServer([&](const ServerRequest&, std::shared_ptr<ResponseWriter> writer) {
    std::lock_guard lock(mutex);
    kept = std::move(writer);
    ready.notify_one();
  });
  Peer peer(server->port());
  peer.Send(kGet);
  std::unique_lock lock(mutex);
  REQUIRE(ready.wait_for(lock, 5s, [&] { return kept != nullptr; }));
  CHECK_FALSE(kept->peer_gone());
  CHECK(kept->StartStream(200, "text/plain"));
  peer.Close();
  auto limit = std::chrono::steady_clock::now() + 5s;
  while (!kept->peer_gone() && std::chrono::steady_clock::now() < limit) std::this_thread::yield();
  CHECK(kept->peer_gone());
  CHECK_FALSE(kept->Write("x"));
}

TEST_CASE("a peer that closed only its sending side gets its answer") {
  auto server = StartServer(Echo);
  Peer peer(server->port());
  peer.Send(kGet);
  peer.EndSending();
  peer.ReadAll();
  CHECK(peer.got.find("GET /x ") != std::string::npos);
}

TEST_CASE("bad requests get their status and the connection ends") {
  ServerOptions options;
  options.max_body_bytes = 10;
  auto server = StartServer(Echo, options);
  Peer peer(server->port());
  peer.Send("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 11\r\n\r\n0123456789a");
  peer.ReadAll();
  CHECK(peer.got.find("HTTP/1.1 413 ") == 0);
  Peer second(server->port());
  second.Send("\x16\x03\x01 garbage\r\n\r\n");
  second.ReadAll();
  CHECK(second.got.find("HTTP/1.1 400 ") == 0);
}

TEST_CASE("100-continue is answered before the body, HEAD has none, HTTP/1.0 streams end by closing") {
  auto server = StartServer([](const ServerRequest& request, std::shared_ptr<ResponseWriter> writer) {
    if (request.path != "/stream") return Echo(request, writer);
    writer->StartStream(200, "text/plain");
    writer->Write("piece");
    writer->End();
  });
  Peer peer(server->port());
  peer.Send("POST /c HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n");
  REQUIRE(peer.ReadUntil("HTTP/1.1 100 Continue\r\n\r\n"));
  peer.Send("ok");
  REQUIRE(peer.ReadUntil("POST /c ok"));
  peer.got.clear();
  peer.Send("HEAD /h HTTP/1.1\r\nHost: h\r\n\r\n" + kGet);
  REQUIRE(peer.ReadUntil("GET /x "));
  CHECK(peer.got.find("Content-Length: 8\r\n\r\nHTTP/1.1") != std::string::npos);
  Peer old(server->port());
  old.Send("GET /stream HTTP/1.0\r\n\r\n");
  old.ReadAll();
  CHECK(old.got.find("\r\n\r\npiece") != std::string::npos);
  CHECK(old.got.find("chunked") == std::string::npos);
}

TEST_CASE("connections over the cap are closed, those within are served") {
  ServerOptions options;
  options.max_connections = 2;
  auto server = StartServer(Echo, options);
  Peer a(server->port());
  Peer b(server->port());
  a.Send(kGet);
  b.Send(kGet);
  REQUIRE(a.ReadUntil("GET /x"));
  REQUIRE(b.ReadUntil("GET /x"));
  Peer c(server->port());
  c.ReadAll();
  CHECK(c.got.empty());
  a.got.clear();
  a.Send(kGet);
  CHECK(a.ReadUntil("GET /x"));
}

TEST_CASE("stopping ends open streams and lets go of the port") {
  std::shared_ptr<ResponseWriter> kept;
  auto server = StartServer([&](const ServerRequest&, std::shared_ptr<ResponseWriter> writer) {
    writer->StartStream(200, "text/plain");
    kept = writer;
  });
  uint16_t port = server->port();
  Peer peer(port);
  peer.Send(kGet);
  REQUIRE(peer.ReadUntil("chunked"));
  server->Stop();
  peer.ReadAll();
  CHECK(peer.error != ETIMEDOUT);
  CHECK_FALSE(kept->Write("after the end"));
  kept->End();
  server.reset();
  kept.reset();
  ServerOptions again;
  again.port = port;
  CHECK(Server::Start(again, Echo).ok());
}

TEST_CASE("a bad address or a taken port is an error that names it") {
  ServerOptions options;
  options.address = "not-an-address";
  CHECK_FALSE(Server::Start(options, Echo).ok());
  auto server = StartServer(Echo);
  ServerOptions taken;
  taken.port = server->port();
  auto second = Server::Start(taken, Echo);
  REQUIRE_FALSE(second.ok());
  CHECK(std::string(second.status().message()).find(std::to_string(taken.port)) != std::string::npos);
}
