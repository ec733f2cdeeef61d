// watch, events and wait: what a job does, as it does it.
#include <unistd.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "cli/output/exit_code.h"
#include "cli/output/interrupt.h"
#include "cli/remote/commands.h"
#include "cli/remote/follow.h"
#include "cli/remote/show.h"
#include "cli/remote/watch_view.h"
#include "common/rpc/streams.h"

namespace poolmark::cli {
int WatchToEnd(Session& session, const std::string& job_id, Interrupt& interrupt, Nanoseconds timeout) {
  const Format format = session.format();
  WatchView view(format == Format::kTable && StderrIsTerminal() && StdoutIsTerminal());
  FollowPlan plan;
  plan.job_id = job_id;
  plan.timeout = timeout;
  Followed followed = Follow(
      session, plan, interrupt.token(),
      [&](const v1::JobEvent& event) {
        if (format == Format::kTable) {
          view.Show(event);
        } else {
          WriteOut(JsonText(EventJson(event), Format::kJsonLines));
        }
      },
      [&](const Status& status) {
        view.Clear();
        TellAway(status);
      });
  view.Clear();
  if (followed.end == FollowEnd::kJobEnded && format != Format::kTable)
    WriteOut(JsonText(JobJson(followed.job), Format::kJsonLines));
  return ReportFollowed(followed, job_id, format);
}

int RunWatch(const JobOptions& options) {
  Interrupt interrupt;
  auto session = Session::Open(options.remote);
  if (!session.ok()) return Fail(session.status(), options.remote.format());
  auto job = GetJob(**session, options.job);
  if (!job.ok()) return Fail(WithAdvice(job.status(), (*session)->context()), options.remote.format());
  return WatchToEnd(**session, job->id(), interrupt, options.timeout);
}

int RunWait(const JobOptions& options) {
  Interrupt interrupt;
  auto session = Session::Open(options.remote);
  if (!session.ok()) return Fail(session.status(), options.remote.format());
  auto job = GetJob(**session, options.job);
  if (!job.ok()) return Fail(WithAdvice(job.status(), (*session)->context()), options.remote.format());
  FollowPlan plan;
  plan.job_id = job->id();
  plan.timeout = options.timeout;
  plan.progress = false;
  plan.after_sequence = job->last_sequence() > 0 ? job->last_sequence() - 1 : 0;
  Followed followed = Follow(
      **session, plan, interrupt.token(), [](const v1::JobEvent&) {}, TellAway);
  if (followed.end == FollowEnd::kJobEnded && options.remote.format() != Format::kTable)
    WriteOut(JsonText(JobJson(followed.job), options.remote.format()));
  return ReportFollowed(followed, job->id(), options.remote.format());
}

int RunEvents(const JobOptions& options) {
  Interrupt interrupt;
  auto session = Session::Open(options.remote);
  if (!session.ok()) return Fail(session.status(), options.remote.format());
  const Format format = options.remote.format();
  std::vector<Json> rows;
  auto show = [&](const v1::JobEvent& event) {
    if (format == Format::kTable) WriteOut(EventLine(event) + "\n");
    if (format == Format::kJsonLines) WriteOut(JsonText(EventJson(event), format));
    if (format == Format::kJson) rows.push_back(EventJson(event));
  };
  auto job = GetJob(**session, options.job);
  if (!job.ok()) return Fail(WithAdvice(job.status(), (*session)->context()), format);
  if (options.follow) {
    FollowPlan plan;
    plan.job_id = job->id();
    plan.after_sequence = options.after;
    plan.progress = false;
    Followed followed = Follow(**session, plan, interrupt.token(), show, TellAway);
    if (format == Format::kJson) WriteOut(JsonRows(rows, format));
    if (followed.end == FollowEnd::kJobEnded) return kExitOk;  // the events were asked for, not the outcome
    return ReportFollowed(followed, job->id(), format);
  }
  v1::WatchJobRequest request;
  request.set_job_id(job->id());
  request.set_after_sequence(options.after);
  request.set_no_progress(true);
  request.set_no_follow(true);
  Status status = rpc::ReadStream<v1::WatchJobResponse>(
      [&](grpc::ClientContext* context) { return (*session)->stub().WatchJob(context, request); },
      std::chrono::minutes(5), interrupt.token(),
      [&](v1::WatchJobResponse& message) {
        if (message.has_event()) show(message.event());
        return true;
      });
  if (interrupt.happened()) return kExitInterrupted;
  if (!status.ok()) return Fail(WithAdvice(status, (*session)->context()), format);
  if (format == Format::kJson) WriteOut(JsonRows(rows, format));
  return kExitOk;
}

}  // namespace poolmark::cli
