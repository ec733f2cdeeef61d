#include "cli/remote/follow.h"

#include <algorithm>
#include <condition_variable>
#include <mutex>

#include "absl/strings/str_cat.h"
#include "cli/output/exit_code.h"
#include "cli/remote/show.h"
#include "common/rpc/streams.h"

namespace poolmark::cli {
namespace {

constexpr Nanoseconds kRetryPause = std::chrono::seconds(1);
constexpr Nanoseconds kConnectTime = std::chrono::seconds(5);
constexpr Nanoseconds kConnectStep = std::chrono::milliseconds(200);

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

void TellAway(const Status& status) {
  WriteErr(absl::StrCat("the controller is away (", Printable(std::string(status.message())),
                        "); trying again\n"));
}

std::optional<Followed> Reopen::After(const Status& status, std::stop_token stop, Nanoseconds timeout) {
  const Clock& clock = RealClock();
  const Nanoseconds broken = clock.Steady();
  bool told = false;
  Status last = status;
  for (;;) {
    Followed end;
    if (stop.stop_requested()) {
      end.end = FollowEnd::kStopped;
      return end;
    }
    if (timeout.count() > 0 && clock.Steady() >= timeout) {
      end.end = FollowEnd::kTimeout;
      return end;
    }
    if ((!last.ok() && !IsTransient(last)) || clock.Steady() - broken > patience_) {
      end.status = WithAdvice(last, session_->context());
      return end;
    }
    auto job = GetJob(*session_, job_id_);
    if (status.ok() && job.ok() && IsTerminal(job->state())) {
      end.end = FollowEnd::kJobEnded;
      end.job = *job;
      return end;
    }
    if (last.ok()) last = Unavailable("", "the stream ended before the job");
    if (!told) on_away_(last);
    told = true;
    if (job.ok()) {
      // A stream that breaks at once is not opened again without a pause.
      if (!Pause(stop, kRetryPause)) continue;
      return std::nullopt;
    }
    last = job.status();
    // A connection gets on only while somebody waits for it: a call that fails at once does not.
    for (Nanoseconds waited{0}; waited < kConnectTime && !stop.stop_requested(); waited += kConnectStep) {
      if (session_->channel()->WaitForConnected(std::chrono::system_clock::now() + kConnectStep)) break;
    }
    (void)Pause(stop, kConnectStep);
  }
}

Followed Follow(Session& session, const FollowPlan& plan, std::stop_token stop,
                const std::function<void(const v1::JobEvent&)>& on_event,
                const std::function<void(const Status&)>& on_away) {
  const Nanoseconds end = plan.timeout.count() > 0 ? RealClock().Steady() + plan.timeout : Nanoseconds(0);
  uint64_t after = plan.after_sequence;
  Reopen reopen(&session, plan.job_id, plan.patience, on_away);
  for (;;) {
    // No time at all would mean no limit.
    const Nanoseconds left =
        end.count() > 0 ? std::max<Nanoseconds>(end - RealClock().Steady(), std::chrono::milliseconds(1))
                        : Nanoseconds(0);
    v1::WatchJobRequest request;
    request.set_job_id(plan.job_id);
    request.set_after_sequence(after);
    request.set_no_progress(!plan.progress);
    Status status = rpc::ReadStream<v1::WatchJobResponse>(
        [&](grpc::ClientContext* context) { return session.stub().WatchJob(context, request); }, left, stop,
        [&](v1::WatchJobResponse& message) {
          if (!message.has_event()) return true;
          // A stream that was opened again may repeat what came last.
          if (message.event().sequence() != 0 && message.event().sequence() <= after) return true;
          if (message.event().sequence() != 0) after = message.event().sequence();
          on_event(message.event());
          return true;
        });
    if (auto over = reopen.After(status, stop, end)) return *over;
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
        absl::StrAppend(&text, "  ", ReasonText(reason, "    "), "\n");
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
