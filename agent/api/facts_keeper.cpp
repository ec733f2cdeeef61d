#include "agent/api/facts_keeper.h"

#include <algorithm>

namespace poolmark::agent {

FactsKeeper::FactsKeeper(Read read, const Clock* clock) : read_(std::move(read)), clock_(clock) {
  thread_ = std::jthread([this](std::stop_token stop) { Loop(stop); });
}

FactsKeeper::~FactsKeeper() = default;

FactsKeeper::Known FactsKeeper::Last() const {
  std::lock_guard lock(mutex_);
  if (!facts_) return {};
  return {facts_, clock_->Steady() - read_at_};
}

void FactsKeeper::Ask() {
  std::lock_guard lock(mutex_);
  // One that runs is good enough for who does not wait.
  if (begun_ == ended_) wanted_ = begun_ + 1;
  changed_.notify_all();
}

std::optional<v1::Facts> FactsKeeper::Fresh(const std::function<bool()>& gave_up) {
  std::unique_lock lock(mutex_);
  const uint64_t mine = begun_ + 1;
  wanted_ = std::max(wanted_, mine);
  changed_.notify_all();
  while (ended_ < mine) {
    changed_.wait_for(lock, std::chrono::milliseconds(100), [&] { return ended_ >= mine; });
    if (ended_ >= mine) break;
    lock.unlock();
    const bool enough = gave_up();
    lock.lock();
    if (enough) return std::nullopt;
  }
  return facts_;
}

void FactsKeeper::Loop(std::stop_token stop) {
  std::unique_lock lock(mutex_);
  while (changed_.wait(lock, stop, [&] { return wanted_ > ended_; })) {
    ++begun_;
    lock.unlock();
    v1::Facts facts = read_(stop);
    lock.lock();
    if (stop.stop_requested()) return;  // half read
    facts_ = std::move(facts);
    read_at_ = clock_->Steady();
    ended_ = begun_;
    changed_.notify_all();
  }
}

}  // namespace poolmark::agent
