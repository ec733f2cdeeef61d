#include "common/model/tiers.h"

#include <algorithm>

namespace poolmark::model {

Tiers::Tiers(const TierSizes& sizes)
    : gpu_(sizes.gpu_blocks), host_(sizes.host_blocks), disk_(sizes.disk_blocks) {}

Tier Tiers::Locate(BlockHash hash) const {
  if (gpu_.Contains(hash)) return Tier::kGpu;
  if (host_.Contains(hash)) return Tier::kHost;
  if (disk_.Contains(hash)) return Tier::kDisk;
  return Tier::kNone;
}

void Tiers::PutDisk(BlockHash hash, Move::Kind kind, std::vector<Move>* moves) {
  if (disk_.Touch(hash)) {
    if (kind == Move::Kind::kHostToDisk) moves->push_back({Move::Kind::kDropHost, hash});
    return;
  }
  std::vector<BlockHash> evicted;
  disk_.Insert(hash, &evicted);
  for (BlockHash old : evicted) moves->push_back({Move::Kind::kDropDisk, old});
  moves->push_back({kind, hash});
}

bool Tiers::Place(BlockHash hash, std::vector<Move>* moves) {
  if (!gpu_.Insert(hash, nullptr)) return false;
  if (HasHost()) {
    if (host_.Touch(hash)) return true;
    std::vector<BlockHash> evicted;
    host_.Insert(hash, &evicted);
    for (BlockHash old : evicted) {
      if (HasDisk()) {
        PutDisk(old, Move::Kind::kHostToDisk, moves);
      } else {
        moves->push_back({Move::Kind::kDropHost, old});
      }
    }
    moves->push_back({Move::Kind::kWriteHost, hash});
  } else if (HasDisk()) {
    PutDisk(hash, Move::Kind::kWriteDisk, moves);
  }
  return true;
}

void Tiers::RestoreDisk(BlockHash hash, std::vector<Move>* moves) {
  std::vector<BlockHash> evicted;
  disk_.Insert(hash, &evicted);
  for (BlockHash old : evicted) moves->push_back({Move::Kind::kDropDisk, old});
}

void Tiers::Forget(Tier tier, BlockHash hash) {
  if (tier == Tier::kHost) host_.Erase(hash);
  if (tier == Tier::kDisk) disk_.Erase(hash);
}

void Tiers::Clear(bool all, std::vector<Move>* moves) {
  gpu_.Clear();
  if (!all) return;
  auto empty = [moves](LruBlocks& tier, Move::Kind kind) {
    for (BlockHash hash : tier.All()) moves->push_back({kind, hash});
    tier.Clear();
  };
  empty(host_, Move::Kind::kDropHost);
  empty(disk_, Move::Kind::kDropDisk);
}

Reuse Replay::Request(std::span<const BlockHash> blocks, size_t usable) {
  Reuse reuse;
  size_t bound = std::min(usable, blocks.size());
  size_t found = 0;
  for (; found < bound; ++found) {
    Tier tier = tiers_.Locate(blocks[found]);
    if (tier == Tier::kNone && remote_ != nullptr && remote_->Contains(blocks[found])) tier = Tier::kRemote;
    if (tier == Tier::kNone) break;
    ++reuse.blocks[static_cast<size_t>(tier)];
  }
  reuse.blocks[static_cast<size_t>(Tier::kNone)] = blocks.size() - found;
  // Last block first, so that the head of a prompt is the last to be replaced: a tail without its head is
  // of no use.
  std::vector<Move> moves;
  for (size_t i = blocks.size(); i-- > 0;) {
    tiers_.Place(blocks[i], &moves);
    if (remote_ != nullptr) remote_->Insert(blocks[i], nullptr);
  }
  return reuse;
}

}  // namespace poolmark::model
