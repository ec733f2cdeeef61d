// Counts failed attempts per source and shuts a source out for a while. Thread-safe.
#pragma once
#include <deque>
#include <mutex>
#include <string>
#include <unordered_map>

#include "common/base/clock.h"

namespace poolmark::controller {

class FailedAttempts {
 public:
  // `limit` failures within `window` shut a source out until the oldest of them is `window` old.
  FailedAttempts(size_t limit, Nanoseconds window, const Clock& clock)
      : limit_(limit), window_(window), clock_(clock) {}

  bool IsShutOut(const std::string& source) {
    std::lock_guard lock(mutex_);
    Forget();
    auto found = failures_.find(source);
    // A flood from more sources than are remembered shuts out all that have not failed yet: secrets of 128
    // bits need no more than that, memory must stay bounded.
    if (found == failures_.end()) return failures_.size() >= kMaxSources;
    return found->second.size() >= limit_;
  }
  void Failed(const std::string& source) {
    std::lock_guard lock(mutex_);
    Forget();
    if (failures_.size() >= kMaxSources && failures_.count(source) == 0) return;
    auto& times = failures_[source];
    if (times.size() < limit_) times.push_back(clock_.Steady());
  }

 private:
  static constexpr size_t kMaxSources = 4096;

  void Forget() {
    const Nanoseconds now = clock_.Steady();
    for (auto at = failures_.begin(); at != failures_.end();) {
      while (!at->second.empty() && now - at->second.front() >= window_) at->second.pop_front();
      at = at->second.empty() ? failures_.erase(at) : std::next(at);
    }
  }

  const size_t limit_;
  const Nanoseconds window_;
  const Clock& clock_;
  std::mutex mutex_;  // guards failures_
  std::unordered_map<std::string, std::deque<Nanoseconds>> failures_;
};

}  // namespace poolmark::controller
