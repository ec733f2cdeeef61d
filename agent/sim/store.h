// The shared tier: a place that several engines read and write, a Redis server or a directory. Blocks come
// and go as bytes (kv_format.h). Objects may be used by several threads, one call at a time each.
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "agent/sim/kv_format.h"
#include "common/base/result.h"

namespace poolmark::sim {

class SharedStore {
 public:
  virtual ~SharedStore() = default;
  // How many blocks from the front of the list are there; stops at the first that is not.
  virtual Result<size_t> FoundFromFront(const std::vector<BlockHash>& hashes) = 0;
  // The bytes of each block, nothing where it has gone.
  virtual Result<std::vector<std::optional<std::string>>> Get(const std::vector<BlockHash>& hashes) = 0;
  virtual Status Put(BlockHash hash, const std::string& bytes) = 0;
  // Removes all blocks under this store's prefix; returns how many.
  virtual Result<uint64_t> Clear() = 0;
};

struct StoreOptions {
  std::string redis_url;  // one of the two
  std::string directory;
  std::string prefix = "poolmark-sim:";  // of keys; one per run
  std::string password;
};

// Connects late and again after an error, so that a store that restarts is used again.
Result<std::unique_ptr<SharedStore>> MakeStore(const StoreOptions& options);

}  // namespace poolmark::sim
