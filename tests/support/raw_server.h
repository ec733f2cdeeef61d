// A loopback TCP (or Unix socket) server whose answers are raw bytes: what a hostile or broken peer sends.
// One thread accepts, one serves each connection; both end in the destructor. Thread-safe counters.
#pragma once
#include <atomic>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

namespace poolmark::test {

class RawConnection {
 public:
  explicit RawConnection(int fd) : fd_(fd) {}
  int fd() const { return fd_; }
  // Reads one request (head and Content-Length body); empty at the end of the connection.
  std::string ReadRequest();
  // False when the peer is gone.
  bool Write(std::string_view bytes);
  // Ends the connection with RST.
  void Reset();
  // Whether the peer closes within two seconds.
  bool PeerCloses();

 private:
  int fd_;
  std::string in_;
};

class RawServer {
 public:
  // `serve` runs once a connection, which is closed when it returns.
  using Serve = std::function<void(RawConnection&)>;
  explicit RawServer(Serve serve, const std::string& unix_path = "", bool ipv6 = false);
  ~RawServer();
  uint16_t port() const { return port_; }
  std::string url() const;
  int connections() const { return connections_; }

 private:
  void Accept();

  Serve serve_;
  std::string unix_path_;
  bool ipv6_ = false;
  int listener_ = -1;
  uint16_t port_ = 0;
  std::atomic<int> connections_{0};
  std::atomic<bool> stop_{false};
  std::mutex mutex_;  // guards workers_ and open_
  std::vector<std::thread> workers_;
  std::vector<int> open_;
  std::thread acceptor_;
};

// The usual heads.
std::string ChunkedHead(std::string_view extra = "");
std::string Chunk(std::string_view data);
inline constexpr std::string_view kLastChunk = "0\r\n\r\n";

}  // namespace poolmark::test
