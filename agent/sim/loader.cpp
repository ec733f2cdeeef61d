#include "agent/sim/loader.h"

#include "agent/sim/transfer.h"
#include "common/base/log.h"

namespace poolmark::sim {

using model::Tier;

Loader::Loader(const TierStorage* storage, SharedStore* store, FaultBox* faults, Done done)
    : storage_(storage), store_(store), faults_(faults), done_(std::move(done)) {
  for (int i = 0; i < 2; ++i) threads_.emplace_back([this] { Work(); });
}

Loader::~Loader() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void Loader::Load(LoadJob job) {
  {
    std::lock_guard lock(mutex_);
    jobs_.push_back(std::move(job));
  }
  wake_.notify_one();
}

void Loader::Work() {
  std::unique_lock lock(mutex_);
  while (true) {
    wake_.wait(lock, [this] { return stopping_ || !jobs_.empty(); });
    if (stopping_) return;
    LoadJob job = std::move(jobs_.front());
    jobs_.pop_front();
    lock.unlock();
    done_(Run(job));
    lock.lock();
  }
}

LoadResult Loader::Run(const LoadJob& job) const {
  LoadResult result;
  result.sequence = job.sequence;
  Nanoseconds start = RealClock().Steady();
  if (job.transfer) {
    FromTransfer(job, &result);
  } else {
    FromTiers(job, &result);
  }
  result.took = RealClock().Steady() - start;
  return result;
}

// False when the block is of no use; the caller stops there.
bool Loader::Check(const LoadJob& job, LoadedBlock block, LoadResult* result) const {
  BlockCheck check = block.bytes == nullptr
                         ? BlockCheck::kDamaged
                         : CheckBlock(*block.bytes, job.format, block.hash, job.block_bytes);
  if (check == BlockCheck::kOk) {
    result->blocks.push_back(std::move(block));
    return true;
  }
  if (block.bytes != nullptr) {
    check == BlockCheck::kOtherFormat ? ++result->format_mismatches : ++result->damaged;
  }
  result->lost = std::move(block);
  return false;
}

void Loader::FromTransfer(const LoadJob& job, LoadResult* result) const {
  const TransferParams& from = *job.transfer;
  auto blocks = PullBlocks(from.host, from.port, from.engine_id, from.request_id, job.indexes);
  if (!blocks.ok()) {
    result->transfer_failed = true;
    result->transfer_error = std::string(blocks.status().message());
    Log(LogLevel::kWarning, "transfer.failed", {{"error", result->transfer_error}});
    return;
  }
  for (size_t i = 0; i < blocks->size(); ++i) {
    result->remote_bytes += (*blocks)[i].size();
    auto bytes = std::make_shared<const std::string>(std::move((*blocks)[i]));
    if (!Check(job, {job.hashes[i], Tier::kRemote, std::move(bytes)}, result)) {
      result->transfer_failed = true;
      result->transfer_error = "a block is of another format or damaged";
      return;
    }
  }
}

void Loader::FromTiers(const LoadJob& job, LoadResult* result) const {
  size_t at = 0;
  while (at < job.hashes.size()) {
    BlockHash hash = job.hashes[at];
    if (job.tiers[at] == Tier::kHost) {
      LoadedBlock block{hash, Tier::kHost, storage_->GetHost(hash)};
      if (block.bytes != nullptr) result->host_bytes += block.bytes->size();
      if (!Check(job, std::move(block), result)) return;
      ++at;
    } else if (job.tiers[at] == Tier::kDisk) {
      LoadedBlock block{hash, Tier::kDisk, storage_->GetDisk(hash)};
      if (block.bytes != nullptr) result->disk_bytes += block.bytes->size();
      if (!Check(job, std::move(block), result)) return;
      ++at;
    } else if (job.tiers[at] == Tier::kGpu) {
      result->blocks.push_back({hash, Tier::kGpu, nullptr});
      ++at;
    } else {
      if (store_ == nullptr) return;
      std::vector<BlockHash> asked;
      for (size_t i = at; i < job.hashes.size() && job.tiers[i] == Tier::kNone; ++i)
        asked.push_back(job.hashes[i]);
      if (faults_->Hits("store-error")) {
        ++result->store_errors;
        return;
      }
      auto found = store_->FoundFromFront(asked);
      if (!found.ok()) {
        ++result->store_errors;
        Log(LogLevel::kWarning, "store.lookup", {{"error", std::string(found.status().message())}});
        return;
      }
      bool all = *found == asked.size();
      asked.resize(*found);
      auto blocks = asked.empty() ? std::vector<std::optional<std::string>>() : store_->Get(asked);
      if (!blocks.ok()) {
        ++result->store_errors;
        Log(LogLevel::kWarning, "store.get", {{"error", std::string(blocks.status().message())}});
        return;
      }
      for (size_t i = 0; i < blocks->size(); ++i) {
        LoadedBlock block{asked[i], Tier::kRemote, nullptr};
        if ((*blocks)[i]) {
          result->remote_bytes += (*blocks)[i]->size();
          block.bytes = std::make_shared<const std::string>(std::move(*(*blocks)[i]));
        }
        if (!Check(job, std::move(block), result)) return;
      }
      if (!all) return;
      at += asked.size();
    }
  }
}

}  // namespace poolmark::sim
