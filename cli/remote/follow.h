// Follows a job's events to their end, over interruptions of the controller. Used by watch, events, wait and
// submit --wait.
#pragma once
#include <functional>
#include <optional>
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

// A stream about a job that is opened again when it breaks, for as long as the controller is away no longer
// than `patience`. Not thread-safe.
class Reopen {
 public:
  // `on_away` is told of each break.
  Reopen(Session* session, std::string job_id, Nanoseconds patience,
         std::function<void(const Status&)> on_away)
      : session_(session), job_id_(std::move(job_id)), patience_(patience), on_away_(std::move(on_away)) {}

  // The stream has ended so. Comes back with nothing when it is to be opened again, else with how it all
  // ended. Waits while the controller does not answer, until `timeout` (steady; 0: none) at most.
  std::optional<Followed> After(const Status& status, std::stop_token stop, Nanoseconds timeout);

 private:
  Session* session_;
  const std::string job_id_;
  const Nanoseconds patience_;
  const std::function<void(const Status&)> on_away_;
};

// On stderr: "the controller is away (…); trying again".
void TellAway(const Status& status);

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
