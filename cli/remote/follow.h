// Follows a job's events to their end, over interruptions of the controller. Used by watch, events, wait and
// submit --wait.
#pragma once
#include <functional>
#include <stop_token>
#include <string>

#include "cli/remote/session.h"
#include "common/base/clock.h"

namespace poolmark::cli {

enum class FollowEnd { kJobEnded, kStopped, kTimeout, kFailed };

struct Followed {
  FollowEnd end = FollowEnd::kFailed;
  v1::Job job;    // as it was at the end, for kJobEnded
  Status status;  // for kFailed
};

struct FollowPlan {
  std::string job_id;
  uint64_t after_sequence = 0;
  bool progress = true;
  Nanoseconds timeout{};  // 0: none
  // A controller that is away is asked again for so long.
  Nanoseconds patience = std::chrono::minutes(10);
};
// `on_event` gets every event once, in order; progress ticks may be lost. `on_away` is told of each lost
// connection.
Followed Follow(Session& session, const FollowPlan& plan, std::stop_token stop,
                const std::function<void(const v1::JobEvent&)>& on_event,
                const std::function<void(const Status&)>& on_away);

// The job's message, or the error (a prefix of an id that fits several jobs, an unknown id).
Result<v1::Job> GetJob(Session& session, const std::string& id);

// "job j-12 goes on; …" after Ctrl-C, and the exit code of how it ended. Prints failures.
int ReportFollowed(const Followed& followed, const std::string& job_id, Format format);

}  // namespace poolmark::cli
