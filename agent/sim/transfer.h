// KV hand-over between a prefill and a decode engine over TCP, with real bytes, pulled by the reader as
// vLLM's NixlConnector does it. The writer keeps the blocks of a finished prompt for a while under the
// request's id; the reader asks for those it lacks.
//
// Wire: the reader sends a line "PULL <engine> <request> <index,index,...|->\n"; the writer answers
// "OK <blocks>\n" and for each block an 8-byte length and the bytes (kv_format.h), or "NO <why>\n". Then
// the reader sends "DONE\n" and the writer lets go.
#pragma once
#include <atomic>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "agent/sim/kv_format.h"
#include "common/base/clock.h"
#include "common/base/result.h"

namespace poolmark::sim {

// What the writer holds for one request: the hashes of its blocks, the half-filled last one too.
struct HeldBlocks {
  KvFormat format;
  std::vector<BlockHash> hashes;
  uint64_t block_bytes = 0;
  Nanoseconds until{0};
};

class TransferServer {
 public:
  // Listens on host:port (0: any). Threads: one that accepts, one per connection (at most 64).
  static Result<std::unique_ptr<TransferServer>> Start(const std::string& host, int port);
  ~TransferServer();
  int port() const { return port_; }
  const std::string& engine_id() const { return engine_id_; }
  void Hold(const std::string& request_id, HeldBlocks blocks);
  // Lets go of what nobody fetched in time; returns how many requests.
  uint64_t Expire(Nanoseconds now);
  size_t held() const;

 private:
  TransferServer() = default;
  struct Connection {
    int fd = -1;
    std::atomic<bool> done = false;
    std::thread thread;
  };
  void Accept();
  void Serve(int fd);
  void JoinFinished();

  int listener_ = -1;
  int port_ = 0;
  std::string engine_id_;
  mutable std::mutex mutex_;  // guards held_
  std::unordered_map<std::string, std::shared_ptr<const HeldBlocks>> held_;
  std::list<Connection> connections_;  // of the acceptor's thread, then of the destructor
  std::atomic<bool> stopping_ = false;
  std::thread acceptor_;
};

// Fetches the blocks with those indexes. The error says what failed.
Result<std::vector<std::string>> PullBlocks(const std::string& host, int port, const std::string& engine_id,
                                            const std::string& request_id,
                                            const std::vector<size_t>& indexes);

}  // namespace poolmark::sim
