#include "common/model/lru_blocks.h"

#include <algorithm>

namespace poolmark::model {

bool LruBlocks::Touch(BlockHash hash) {
  auto found = entries_.find(hash);
  if (found == entries_.end()) return false;
  if (found->second.pins == 0) order_.splice(order_.begin(), order_, found->second.place);
  return true;
}

bool LruBlocks::MakeRoom(size_t blocks, std::vector<BlockHash>* evicted) {
  if (capacity_ == kUnbounded) return true;
  if (blocks > available()) return false;
  while (entries_.size() + reserved_ + blocks > capacity_) {
    BlockHash victim = order_.back();
    order_.pop_back();
    entries_.erase(victim);
    if (evicted != nullptr) evicted->push_back(victim);
  }
  return true;
}

bool LruBlocks::Insert(BlockHash hash, std::vector<BlockHash>* evicted) {
  if (Touch(hash)) return true;
  if (!MakeRoom(1, evicted)) return false;
  order_.push_front(hash);
  entries_[hash] = {order_.begin(), 0};
  return true;
}

void LruBlocks::Erase(BlockHash hash) {
  auto found = entries_.find(hash);
  if (found == entries_.end()) return;
  if (found->second.pins == 0) {
    order_.erase(found->second.place);
  } else {
    --pinned_;
  }
  entries_.erase(found);
}

bool LruBlocks::Pin(BlockHash hash) {
  auto found = entries_.find(hash);
  if (found == entries_.end()) return false;
  if (found->second.pins++ == 0) {
    order_.erase(found->second.place);
    ++pinned_;
  }
  return true;
}

void LruBlocks::Unpin(BlockHash hash) {
  auto found = entries_.find(hash);
  if (found == entries_.end() || found->second.pins == 0) return;
  if (--found->second.pins == 0) {
    order_.push_front(hash);
    found->second.place = order_.begin();
    --pinned_;
  }
}

bool LruBlocks::Reserve(size_t count, std::vector<BlockHash>* evicted) {
  if (!MakeRoom(count, evicted)) return false;
  reserved_ += count;
  return true;
}

void LruBlocks::Release(size_t count) {
  reserved_ -= std::min(count, reserved_);
}

size_t LruBlocks::Clear() {
  size_t gone = order_.size();
  for (BlockHash hash : order_) entries_.erase(hash);
  order_.clear();
  return gone;
}

}  // namespace poolmark::model
