// Which block lies in which tier of one machine's KV cache, and what has to move where. Write policy, as
// of vLLM's CPU offloading and LMCache: a computed block is written through to the host tier at once; what
// the host tier replaces goes to the disk tier; what the disk tier replaces is gone. Without a host tier
// blocks are written through to disk. The remote tier is shared and knows its content itself.
// Pure: decides, the caller moves bytes. Not thread-safe.
#pragma once
#include <array>
#include <cstddef>
#include <span>
#include <vector>

#include "common/model/block_hash.h"
#include "common/model/lru_blocks.h"

namespace poolmark::model {

enum class Tier { kGpu, kHost, kDisk, kRemote, kNone };

struct TierSizes {
  size_t gpu_blocks = 0;
  size_t host_blocks = 0;  // 0: no such tier
  size_t disk_blocks = 0;
};

// A byte movement that follows from a placement.
struct Move {
  enum class Kind { kWriteHost, kWriteDisk, kHostToDisk, kDropHost, kDropDisk };
  Kind kind;
  BlockHash hash;
};

class Tiers {
 public:
  explicit Tiers(const TierSizes& sizes);

  // The nearest tier of this machine that has it, or kNone.
  Tier Locate(BlockHash hash) const;
  bool InHost(BlockHash hash) const { return host_.Contains(hash); }
  bool InDisk(BlockHash hash) const { return disk_.Contains(hash); }

  // A block that now is on the GPU (computed, or loaded from another tier): remembered there and in the
  // tiers below; the byte movements needed are appended. False when no GPU block is free.
  bool Place(BlockHash hash, std::vector<Move>* moves);
  // A block that lay on disk before: as if just written there.
  void RestoreDisk(BlockHash hash, std::vector<Move>* moves);
  // Bytes of the block turned out unreadable: forgotten in that tier.
  void Forget(Tier tier, BlockHash hash);

  LruBlocks& gpu() { return gpu_; }
  const LruBlocks& gpu() const { return gpu_; }
  const LruBlocks& host() const { return host_; }
  const LruBlocks& disk() const { return disk_; }

  // Forgets what is not in use on the GPU; the lower tiers only with `all`.
  void Clear(bool all, std::vector<Move>* moves);

 private:
  bool HasHost() const { return host_.capacity() > 0; }
  bool HasDisk() const { return disk_.capacity() > 0; }
  void PutDisk(BlockHash hash, Move::Kind kind, std::vector<Move>* moves);

  LruBlocks gpu_;
  LruBlocks host_;
  LruBlocks disk_;
};

// Blocks of a request's prompt found per tier (index: Tier), counted from the front up to the first block
// that is nowhere. `usable` blocks at most count: the last token of a prompt is always computed, so a
// prompt of n tokens can reuse (n - 1) / block_tokens blocks.
struct Reuse {
  std::array<size_t, 5> blocks{};
  size_t found() const { return blocks[0] + blocks[1] + blocks[2] + blocks[3]; }
};

// Replays requests (block hashes each, in order) through one machine's tiers, without time: what an LRU
// cache of these sizes would have reused at most. A shared remote tier is a `remote` that several replays
// share; nullptr: none.
class Replay {
 public:
  Replay(const TierSizes& sizes, LruBlocks* remote = nullptr) : tiers_(sizes), remote_(remote) {}
  Reuse Request(std::span<const BlockHash> blocks, size_t usable);

 private:
  Tiers tiers_;
  LruBlocks* remote_;
};

// How many blocks of a prompt of `tokens` can be reused at all.
inline size_t UsableBlocks(size_t tokens, size_t block_tokens) {
  return tokens == 0 || block_tokens == 0 ? 0 : (tokens - 1) / block_tokens;
}

}  // namespace poolmark::model
