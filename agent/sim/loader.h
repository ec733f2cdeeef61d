// Brings KV blocks from host, disk, the shared store or another engine, on threads of its own. What is to
// be loaded was found by the engine; whether it really is there shows here. Thread-safe.
#pragma once
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "agent/sim/api.h"
#include "agent/sim/faults.h"
#include "agent/sim/store.h"
#include "agent/sim/tier_storage.h"
#include "common/model/tiers.h"

namespace poolmark::sim {

struct LoadJob {
  uint64_t sequence = 0;
  KvFormat format;
  uint64_t block_bytes = 0;
  // Blocks in prompt order with the tier that has them; kNone: ask the shared store.
  std::vector<BlockHash> hashes;
  std::vector<model::Tier> tiers;
  // Or: fetch these indexes of the prompt's blocks from a prefill engine; `hashes` are theirs.
  std::optional<TransferParams> transfer;
  std::vector<size_t> indexes;
};

struct LoadedBlock {
  BlockHash hash = 0;
  model::Tier tier = model::Tier::kNone;
  Bytes bytes;
};

struct LoadResult {
  uint64_t sequence = 0;
  // From the front of the job up to the first block that could not be had.
  std::vector<LoadedBlock> blocks;
  std::optional<LoadedBlock> lost;  // the first that was expected and is not there, or is damaged
  uint64_t host_bytes = 0, disk_bytes = 0, remote_bytes = 0;
  uint64_t format_mismatches = 0, damaged = 0, store_errors = 0;
  bool transfer_failed = false;
  std::string transfer_error;
  Nanoseconds took{0};
};

class Loader {
 public:
  using Done = std::function<void(LoadResult)>;
  // `store` and `faults` may be nullptr / are borrowed. `done` is called on a loader thread.
  Loader(const TierStorage* storage, SharedStore* store, FaultBox* faults, Done done);
  ~Loader();
  void Load(LoadJob job);
  // Does one job now (on the caller's thread).
  LoadResult Run(const LoadJob& job) const;

 private:
  void FromTransfer(const LoadJob& job, LoadResult* result) const;
  void FromTiers(const LoadJob& job, LoadResult* result) const;
  bool Check(const LoadJob& job, LoadedBlock block, LoadResult* result) const;
  void Work();

  const TierStorage* storage_;
  SharedStore* store_;
  FaultBox* faults_;
  Done done_;
  std::mutex mutex_;  // guards jobs_, stopping_
  std::condition_variable wake_;
  std::deque<LoadJob> jobs_;
  bool stopping_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace poolmark::sim
