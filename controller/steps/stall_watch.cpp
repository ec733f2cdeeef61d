#include "controller/steps/stall_watch.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace poolmark::controller {
namespace {

constexpr double kTimesLongest = 4;
constexpr double kTimesBeforeFirst = 5;

}  // namespace

void StallWatch::Take(size_t index, const LoadProgress& progress) {
  if (progress.event != "progress" || !progress.in_flight || !progress.events_per_second) return;
  Worker& worker = workers_.at(index);
  worker.now = progress.seconds;
  worker.in_flight = *progress.in_flight;
  worker.failed = progress.failed.value_or(0);
  const bool token = *progress.events_per_second > 0;
  if (!token && worker.in_flight > 0) return;
  if (token) {
    // What went before the first token is the first prompt, not what silences are like later.
    if (any_token_) longest_ = std::max(longest_, worker.now - worker.silent);
    any_token_ = true;
    worker.heard = worker.now;
  }
  worker.silent = worker.now;
  worker.failed_before = worker.failed;
}

Nanoseconds StallWatch::allowed() const {
  const double limit = static_cast<double>(limit_.value_or(Nanoseconds(0)).count());
  const double now = any_token_ ? std::max(limit, longest_ * 1e9 * kTimesLongest) : limit * kTimesBeforeFirst;
  return Nanoseconds(static_cast<int64_t>(now));
}

std::optional<std::string> StallWatch::Found() const {
  if (!limit_) return std::nullopt;
  const double limit = static_cast<double>(allowed().count()) / 1e9;
  uint64_t in_flight = 0, failed = 0;
  double shortest = -1;
  for (const Worker& worker : workers_) {
    if (worker.in_flight == 0) {
      // Its users think; what they got a moment ago shows engines that work.
      if (worker.heard > 0 && worker.now - worker.heard < limit) return std::nullopt;
      continue;
    }
    const double silence = worker.now - worker.silent;
    if (silence < limit) return std::nullopt;
    shortest = shortest < 0 ? silence : std::min(shortest, silence);
    in_flight += worker.in_flight;
    failed += worker.failed - std::min(worker.failed, worker.failed_before);
  }
  if (shortest < 0) return std::nullopt;
  std::string text = absl::StrCat("no token for ", static_cast<int64_t>(shortest), " s for any user, with ",
                                  in_flight, in_flight == 1 ? " request" : " requests", " in flight");
  if (failed > 0) absl::StrAppend(&text, "; ", failed, " failed meanwhile");
  return text;
}

}  // namespace poolmark::controller
