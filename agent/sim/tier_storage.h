// The bytes of one engine's host and disk tiers: host in this process's memory, disk in one file per block.
// What is where is decided elsewhere (common/model/tiers.h); this executes. Thread-safe.
#pragma once
#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "agent/sim/kv_format.h"
#include "common/base/result.h"

namespace poolmark::sim {

using Bytes = std::shared_ptr<const std::string>;

class TierStorage {
 public:
  // `disk_directory` "" : no disk tier. It is made when missing.
  static Result<std::unique_ptr<TierStorage>> Open(std::string disk_directory);
  ~TierStorage();

  void PutHost(BlockHash hash, Bytes bytes);
  void DropHost(BlockHash hash);
  // To disk by the writer thread; readable at once.
  void PutDisk(BlockHash hash, Bytes bytes);
  void HostToDisk(BlockHash hash);
  void DropDisk(BlockHash hash);

  // nullptr when it is not there (any more).
  Bytes GetHost(BlockHash hash) const;
  Bytes GetDisk(BlockHash hash) const;

  // Blocks that lay in the directory when it was opened.
  const std::vector<BlockHash>& found_on_disk() const { return found_; }
  uint64_t host_bytes() const;
  // Runs `then` on the writer thread when all that was queued before is done. Also how writes to the shared
  // store are queued.
  void Enqueue(std::function<void()> then);
  uint64_t pending() const { return pending_; }
  uint64_t disk_errors() const { return disk_errors_; }

 private:
  explicit TierStorage(std::string directory) : directory_(std::move(directory)) {}
  std::string Path(BlockHash hash) const;
  void Run();

  const std::string directory_;
  std::vector<BlockHash> found_;
  mutable std::mutex mutex_;  // guards host_, host_bytes_, unwritten_, queue_, stopping_
  std::condition_variable wake_;
  std::unordered_map<BlockHash, Bytes> host_;
  uint64_t host_bytes_ = 0;
  std::unordered_map<BlockHash, Bytes> unwritten_;  // on their way to disk
  std::deque<std::function<void()>> queue_;
  bool stopping_ = false;
  std::atomic<uint64_t> pending_ = 0;
  std::atomic<uint64_t> disk_errors_ = 0;
  std::thread writer_;
};

}  // namespace poolmark::sim
