#include "cli/remote/follow.h"

#include <condition_variable>
#include <mutex>

#include "absl/strings/str_cat.h"
#include "cli/output/exit_code.h"
#include "cli/remote/show.h"
#include "common/rpc/streams.h"

namespace poolmark::cli {
namespace {

constexpr std::chrono::seconds kRetryPause{1};

// False when stopped.
bool Pause(std::stop_token stop, std::chrono::nanoseconds time) {
  std::mutex mutex;
  std::condition_variable_any wake;
  std::unique_lock lock(mutex);
  wake.wait_for(lock, stop, time, [] { return false; });
  return !stop.stop_requested();
}

}  // namespace

Result<v1::Job> GetJob(Session& session, const std::string& id) {
  v1::GetJobRequest request;
  request.set_job_id(id);
  POOLMARK_ASSIGN_OR_RETURN(auto reply, rpc::Call(session.stub(), &v1::ControllerService::Stub::GetJob,
                                                  request, rpc::Deadline("ControllerService/GetJob")));
  return reply.job();
}

Followed Follow(Session& session, const FollowPlan& plan, std::stop_token stop,
                const std::function<void(const v1::JobEvent&)>& on_event,
                const std::function<void(const Status&)>& on_away) {
  const Clock& clock = RealClock();
  const Nanoseconds start = clock.Steady();
  Nanoseconds last_contact = start;
  uint64_t after = plan.after_sequence;
  Followed result;
  bool told = false;
  for (;;) {
    Nanoseconds left{};
    if (plan.timeout.count() > 0) {
      left = plan.timeout - (clock.Steady() - start);
      if (left.count() <= 0) {
        result.end = FollowEnd::kTimeout;
        return result;
      }
    }
    v1::WatchJobRequest request;
    request.set_job_id(plan.job_id);
    request.set_after_sequence(after);
    request.set_no_progress(!plan.progress);
    Status status = rpc::ReadStream<v1::WatchJobResponse>(
        [&](grpc::ClientContext* context) { return session.stub().WatchJob(context, request); }, left, stop,
        [&](v1::WatchJobResponse& message) {
          last_contact = clock.Steady();
          told = false;
          if (!message.has_event()) return true;
          // A stream that was opened again may repeat what came last.
          if (message.event().sequence() != 0 && message.event().sequence() <= after) return true;
          if (message.event().sequence() != 0) after = message.event().sequence();
          on_event(message.event());
          return true;
        });
    if (stop.stop_requested()) {
      result.end = FollowEnd::kStopped;
      return result;
    }
    if (status.ok()) {
      auto job = GetJob(session, plan.job_id);
      if (job.ok() && IsTerminal(job->state())) {
        result.end = FollowEnd::kJobEnded;
        result.job = *job;
        return result;
      }
      status = job.ok() ? Unavailable("", "the event stream ended before the job") : job.status();
    }
    if (plan.timeout.count() > 0 && clock.Steady() - start >= plan.timeout) continue;
    if (!IsTransient(status) || clock.Steady() - last_contact > plan.patience) {
      result.status = WithAdvice(status, session.context());
      return result;
    }
    if (!told) on_away(status);
    told = true;
    if (!Pause(stop, kRetryPause)) {
      result.end = FollowEnd::kStopped;
      return result;
    }
  }
}

int ReportFollowed(const Followed& followed, const std::string& job_id, Format format) {
  switch (followed.end) {
    case FollowEnd::kJobEnded: {
      int code = ExitCodeOfJob(followed.job);
      if (format != Format::kTable) return code;
      std::string text = absl::StrCat("job ", job_id, ": ", StateWord(followed.job.state()), ", tear-down ",
                                      TeardownWord(followed.job.teardown()), "\n");
      for (const auto& reason : followed.job.reasons()) {
        absl::StrAppend(&text, "  ", reason.code(), reason.machine().empty() ? "" : " on " + reason.machine(),
                        ": ", Printable(reason.message()), "\n");
      }
      WriteErr(text);
      return code;
    }
    case FollowEnd::kStopped:
      WriteErr(absl::StrCat("\ndetached; job ", job_id, " goes on. Watch it again with 'poolmark watch ",
                            job_id, "', end it with 'poolmark cancel ", job_id, "'\n"));
      return kExitInterrupted;
    case FollowEnd::kTimeout:
      WriteErr(absl::StrCat("the time is up; job ", job_id, " goes on\n"));
      return kExitTimeout;
    case FollowEnd::kFailed:
      break;
  }
  return Fail(followed.status, format);
}

}  // namespace poolmark::cli
