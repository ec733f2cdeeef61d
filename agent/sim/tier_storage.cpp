#include "agent/sim/tier_storage.h"

#include <fcntl.h>
#include <unistd.h>

#include "common/base/files.h"

namespace poolmark::sim {
namespace {

// No fsync: what a cache loses in a power cut is computed again.
bool WriteWhole(const std::string& path, const std::string& bytes) {
  int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  if (fd < 0) return false;
  size_t done = 0;
  while (done < bytes.size()) {
    ssize_t n = write(fd, bytes.data() + done, bytes.size() - done);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) break;
    done += static_cast<size_t>(n);
  }
  bool ok = close(fd) == 0 && done == bytes.size();
  if (!ok) unlink(path.c_str());
  return ok;
}

}  // namespace

Result<std::unique_ptr<TierStorage>> TierStorage::Open(std::string disk_directory) {
  std::unique_ptr<TierStorage> storage(new TierStorage(std::move(disk_directory)));
  if (!storage->directory_.empty()) {
    POOLMARK_RETURN_IF_ERROR(MakeDirs(storage->directory_, 0700));
    POOLMARK_ASSIGN_OR_RETURN(std::vector<std::string> names, ListDir(storage->directory_));
    for (const std::string& name : names) {
      BlockHash hash = 0;
      if (name.size() == 19 && name.substr(16) == ".kv" && ParseHashName(name.substr(0, 16), &hash)) {
        storage->found_.push_back(hash);
      }
    }
  }
  storage->writer_ = std::thread([raw = storage.get()] { raw->Run(); });
  return storage;
}

TierStorage::~TierStorage() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  writer_.join();
}

std::string TierStorage::Path(BlockHash hash) const {
  return directory_ + "/" + HashName(hash) + ".kv";
}

void TierStorage::Run() {
  std::unique_lock lock(mutex_);
  while (true) {
    wake_.wait(lock, [this] { return stopping_ || !queue_.empty(); });
    if (stopping_) return;
    std::function<void()> next = std::move(queue_.front());
    queue_.pop_front();
    lock.unlock();
    next();
    next = nullptr;
    --pending_;
    lock.lock();
  }
}

void TierStorage::Enqueue(std::function<void()> then) {
  {
    std::lock_guard lock(mutex_);
    ++pending_;
    queue_.push_back(std::move(then));
  }
  wake_.notify_one();
}

void TierStorage::PutHost(BlockHash hash, Bytes bytes) {
  std::lock_guard lock(mutex_);
  Bytes& slot = host_[hash];
  if (slot != nullptr) host_bytes_ -= slot->size();
  host_bytes_ += bytes->size();
  slot = std::move(bytes);
}

void TierStorage::DropHost(BlockHash hash) {
  std::lock_guard lock(mutex_);
  auto found = host_.find(hash);
  if (found == host_.end()) return;
  host_bytes_ -= found->second->size();
  host_.erase(found);
}

void TierStorage::PutDisk(BlockHash hash, Bytes bytes) {
  {
    std::lock_guard lock(mutex_);
    unwritten_[hash] = bytes;
  }
  Enqueue([this, hash, bytes = std::move(bytes)] {
    {
      std::lock_guard lock(mutex_);
      auto found = unwritten_.find(hash);
      if (found == unwritten_.end() || found->second != bytes) return;  // dropped meanwhile
    }
    if (!WriteWhole(Path(hash), *bytes)) ++disk_errors_;
    std::lock_guard lock(mutex_);
    auto found = unwritten_.find(hash);
    if (found != unwritten_.end() && found->second == bytes) {
      unwritten_.erase(found);
    } else {
      unlink(Path(hash).c_str());
    }
  });
}

void TierStorage::HostToDisk(BlockHash hash) {
  Bytes bytes = GetHost(hash);
  DropHost(hash);
  if (bytes != nullptr) PutDisk(hash, std::move(bytes));
}

void TierStorage::DropDisk(BlockHash hash) {
  {
    std::lock_guard lock(mutex_);
    unwritten_.erase(hash);
  }
  Enqueue([this, hash] {
    {
      // Written again since: the newer file stays.
      std::lock_guard lock(mutex_);
      if (unwritten_.count(hash) != 0) return;
    }
    unlink(Path(hash).c_str());
  });
}

Bytes TierStorage::GetHost(BlockHash hash) const {
  std::lock_guard lock(mutex_);
  auto found = host_.find(hash);
  return found == host_.end() ? nullptr : found->second;
}

Bytes TierStorage::GetDisk(BlockHash hash) const {
  {
    std::lock_guard lock(mutex_);
    auto found = unwritten_.find(hash);
    if (found != unwritten_.end()) return found->second;
  }
  auto bytes = ReadFile(Path(hash), 64 << 20);
  return bytes.ok() ? std::make_shared<const std::string>(std::move(*bytes)) : nullptr;
}

uint64_t TierStorage::host_bytes() const {
  std::lock_guard lock(mutex_);
  return host_bytes_;
}

}  // namespace poolmark::sim
