#include "common/model/stack_distance.h"

#include <algorithm>

namespace poolmark::model {

void StackDistance::Add(size_t at, int64_t change) {
  for (size_t i = at + 1; i < tree_.size(); i += i & (~i + 1)) tree_[i] += change;
}

uint64_t StackDistance::UsedSince(size_t at) const {
  int64_t before = 0;
  for (size_t i = at; i > 0; i -= i & (~i + 1)) before += tree_[i];
  return last_use_.size() - static_cast<uint64_t>(before);
}

// Renumbers time when the tree is full: only the last use of each block matters.
void StackDistance::Compact() {
  std::vector<std::pair<size_t, BlockHash>> order;
  order.reserve(last_use_.size());
  for (const auto& [hash, at] : last_use_) order.emplace_back(at, hash);
  std::sort(order.begin(), order.end());
  size_t size = tree_.size();
  while (size < order.size() * 2 + 2) size *= 2;
  tree_.assign(size, 0);
  time_ = 0;
  for (const auto& [at, hash] : order) {
    last_use_[hash] = time_;
    Add(time_++, 1);
  }
}

void StackDistance::Request(std::span<const BlockHash> blocks, size_t usable, bool counts) {
  requested_ += counts ? blocks.size() : 0;
  size_t bound = counts ? std::min(usable, blocks.size()) : 0;
  uint64_t needed = 0;
  for (size_t i = 0; i < bound; ++i) {
    auto found = last_use_.find(blocks[i]);
    if (found == last_use_.end()) break;
    // A block is of use only with its whole prefix.
    needed = std::max(needed, UsedSince(found->second));
    ++histogram_[needed];
    ++reusable_;
  }
  // Used last block first, as the caches do it: heads outlive tails.
  for (size_t i = blocks.size(); i-- > 0;) {
    if (time_ + 2 >= tree_.size()) Compact();
    auto [entry, fresh] = last_use_.try_emplace(blocks[i], time_);
    if (!fresh) {
      Add(entry->second, -1);
      entry->second = time_;
    }
    Add(time_++, 1);
  }
}

uint64_t StackDistance::FoundWith(uint64_t cache_blocks) const {
  uint64_t found = 0;
  for (const auto& [needed, blocks] : histogram_) {
    if (needed > cache_blocks) break;
    found += blocks;
  }
  return found;
}

}  // namespace poolmark::model
