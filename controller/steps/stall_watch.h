// Tells engines that hang from engines that work: whether requests are in flight and none of the load's users
// has got a token for too long. Time is the load's own, as its progress lines say it, so that lines which
// come late (a controller that stood still, a slow link) are no silence.
//
// Never silence: no request in flight (think time, gaps between arrivals), or a token for any user. The
// longest silence that ended well also counts: the limit is never below four times it, so that a pool whose
// prompts take long, all users waiting, is not accused. Until the load's first token the limit is five times
// as long. Pure; used by one thread.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "common/base/clock.h"
#include "controller/steps/load_plan.h"

namespace poolmark::controller {

class StallWatch {
 public:
  // No limit: never finds anything.
  StallWatch(size_t workers, std::optional<Nanoseconds> limit) : limit_(limit), workers_(workers) {}

  void Take(size_t worker, const LoadProgress& progress);
  // What ended has no users any more.
  void Ended(size_t worker) { workers_.at(worker).in_flight = 0; }
  // How long nothing came, in words, once that is too long.
  std::optional<std::string> Found() const;
  Nanoseconds allowed() const;

 private:
  struct Worker {
    double now = 0;     // seconds of the load
    double silent = 0;  // since then requests are in flight without a token
    double heard = 0;   // the last token
    uint64_t in_flight = 0;
    uint64_t failed = 0, failed_before = 0;  // in all, and when the silence began
  };
  const std::optional<Nanoseconds> limit_;
  std::vector<Worker> workers_;
  bool any_token_ = false;
  double longest_ = 0;  // silence that a token ended
};

}  // namespace poolmark::controller
