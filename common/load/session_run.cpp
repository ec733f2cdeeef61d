#include "common/load/session_run.h"

#include <algorithm>

namespace poolmark::load {

SessionRun::SessionRun(std::unique_ptr<Session> session, uint64_t number, int user)
    : session_(std::move(session)), number_(number), user_(user), wants_answers_(session_->wants_answers()) {
  const size_t turns = session_->turns();
  plans_.reserve(turns);
  bool chain = true;
  for (size_t i = 0; i < turns; ++i) {
    plans_.push_back(session_->turn(i));
    chain = chain && plans_.back().after.empty();
  }
  if (chain) return;
  waits_for_.assign(turns, 0);
  followers_.resize(turns);
  for (uint32_t i = 0; i < turns; ++i) {
    std::vector<uint32_t> after = plans_[i].after;
    if (after.empty() && i > 0) after.push_back(i - 1);
    std::sort(after.begin(), after.end());
    after.erase(std::unique(after.begin(), after.end()), after.end());
    for (const uint32_t before : after) {
      // A turn that waits for itself or a later one could never start; such a wait is void.
      if (before >= i) continue;
      followers_[before].push_back(i);
      ++waits_for_[i];
    }
  }
}

void SessionRun::Begin(std::vector<uint32_t>* ready) {
  const size_t before = ready->size();
  if (followers_.empty()) {
    if (!plans_.empty()) ready->push_back(0);
  } else {
    for (uint32_t i = 0; i < plans_.size(); ++i) {
      if (waits_for_[i] == 0) ready->push_back(i);
    }
  }
  outstanding_ += ready->size() - before;
  begun_ += ready->size() - before;
}

void SessionRun::Ended(uint32_t turn, std::vector<uint32_t>* ready) {
  --outstanding_;
  if (abandoned_) return;
  const size_t before = ready->size();
  if (followers_.empty()) {
    if (turn + 1 < plans_.size()) ready->push_back(turn + 1);
  } else {
    for (const uint32_t follower : followers_[turn]) {
      if (--waits_for_[follower] == 0) ready->push_back(follower);
    }
  }
  outstanding_ += ready->size() - before;
  begun_ += ready->size() - before;
}

void SessionRun::Dropped() {
  --outstanding_;
  abandoned_ = true;
}

uint64_t SessionRun::Abandon() {
  if (abandoned_) return 0;
  abandoned_ = true;
  return plans_.size() - begun_;
}

}  // namespace poolmark::load
