// The latest progress ticks of the jobs that somebody looks at. Ticks are kept nowhere else, so they are
// taken from the moment the first page asks, and let go a while after the last one did. Thread-safe.
#pragma once
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "common/base/clock.h"
#include "controller/runner/event_hub.h"

namespace poolmark::controller {

class Ticks {
 public:
  Ticks(EventHub* hub, const Clock* clock) : hub_(hub), clock_(clock) {}

  // Ticks of `job` later than `after_wall_ns`, oldest first; begins to listen when nobody did.
  std::vector<v1::JobEvent> After(const std::string& job, int64_t after_wall_ns);
  // The job has ended: what is kept of it goes.
  void Forget(const std::string& job);
  size_t watched() const;

 private:
  struct Kept {
    std::mutex mutex;  // ticks
    std::deque<v1::JobEvent> ticks;
  };
  struct Watched {
    std::shared_ptr<Kept> kept;
    EventHub::Subscription subscription;
    Nanoseconds asked{0};  // steady
  };

  EventHub* hub_;
  const Clock* clock_;
  mutable std::mutex mutex_;  // jobs_
  std::map<std::string, Watched> jobs_;
};

}  // namespace poolmark::controller
