#include "controller/web/ticks.h"

#include <chrono>
#include <utility>

namespace poolmark::controller {
namespace {

constexpr size_t kMaxTicks = 600;  // ten minutes of one a second
constexpr size_t kMaxJobs = 32;
constexpr Nanoseconds kIdle = std::chrono::minutes(2);

}  // namespace

std::vector<v1::JobEvent> Ticks::After(const std::string& job, int64_t after_wall_ns) {
  std::shared_ptr<Kept> kept;
  std::vector<Watched> gone;  // ended without the lock: ending waits for a callback that runs
  {
    std::lock_guard lock(mutex_);
    const Nanoseconds now = clock_->Steady();
    for (auto at = jobs_.begin(); at != jobs_.end();) {
      if (at->first != job && now - at->second.asked > kIdle) {
        gone.push_back(std::move(at->second));
        at = jobs_.erase(at);
      } else {
        ++at;
      }
    }
    auto found = jobs_.find(job);
    if (found == jobs_.end()) {
      if (jobs_.size() >= kMaxJobs) return {};
      Watched watched;
      watched.kept = std::make_shared<Kept>();
      watched.subscription = hub_->Subscribe(job, [kept = watched.kept](const v1::JobEvent& event) {
        if (event.kind() != "progress") return;
        std::lock_guard ticks_lock(kept->mutex);
        kept->ticks.push_back(event);
        if (kept->ticks.size() > kMaxTicks) kept->ticks.pop_front();
      });
      found = jobs_.emplace(job, std::move(watched)).first;
    }
    found->second.asked = now;
    kept = found->second.kept;
  }
  std::vector<v1::JobEvent> out;
  std::lock_guard lock(kept->mutex);
  for (const v1::JobEvent& tick : kept->ticks) {
    if (tick.wall_ns() > after_wall_ns) out.push_back(tick);
  }
  return out;
}

void Ticks::Forget(const std::string& job) {
  Watched gone;
  std::lock_guard lock(mutex_);
  const auto found = jobs_.find(job);
  if (found == jobs_.end()) return;
  gone = std::move(found->second);
  jobs_.erase(found);
}

size_t Ticks::watched() const {
  std::lock_guard lock(mutex_);
  return jobs_.size();
}

}  // namespace poolmark::controller
