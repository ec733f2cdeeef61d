#include "controller/steps/head_process.h"

#include "absl/strings/str_cat.h"
#include "controller/steps/launch.h"
#include "controller/steps/load_plan.h"

namespace poolmark::controller {
namespace {

// Ends the process; what it wrote up to now is then complete on its disk.
StepOutcome StopOnHead(JobRun* run, const HeadProcess& process) {
  const std::string& head = run->plan->head;
  auto link = run->registry->Link(head);
  if (!link.ok()) return StepOutcome::Stopped();
  v1::StopProcessRequest request;
  request.set_request_id(
      run->RequestId(head, absl::StrCat("stop/", process.request, "/", process.spec.id())));
  *request.mutable_lease() = run->Lease(head);
  request.set_id(process.spec.id());
  request.set_grace_ns(run->force() ? 0 : Nanoseconds(std::chrono::seconds(5)).count());
  if (run->registry->Silence(head) < run->registry->timing().silent)
    (void)(*link)->StopProcess(request, run->shutdown);
  return StepOutcome::Stopped();
}

}  // namespace

StepOutcome RunOnHead(JobRun* run, ProcessWatch* watch, const HeadProcess& process) {
  const std::string& head = run->plan->head;
  const std::string& id = process.spec.id();
  watch->Expect(id, true);
  Status started = StartOne(run, head, process.spec, process.request, watch);
  if (run->stop.stop_requested()) return StopOnHead(run, process);
  if (!started.ok())
    return {StepOutcome::Kind::kInterrupted,
            {ReasonOf(started, head, absl::StrCat("starting the ", process.what))}};
  process.on_started();
  Nanoseconds last_line = run->clock->Steady();
  bool first = true;
  std::string error;
  for (;;) {
    const bool ended = watch->AwaitEnd(id, run->clock->Steady() + run->timing.poll);
    for (const std::string& line : watch->TakeProgress(id)) {
      auto progress = ParseProgress(line);
      if (!progress) continue;
      last_line = run->clock->Steady();
      first = false;
      if (progress->event == "error") error = progress->message;
      process.on_line(line);
    }
    if (ended) break;
    if (run->stop.stop_requested()) return StopOnHead(run, process);
    if (auto death = watch->FirstDeath()) {
      StopOnHead(run, process);
      return {StepOutcome::Kind::kInterrupted, {DeathReason(run, *death, "process_died")}};
    }
    const Nanoseconds silence = run->clock->Steady() - last_line;
    if (silence > (first ? run->timing.load_start : run->timing.load_stall) &&
        run->registry->Silence(head) < run->registry->timing().suspect) {
      StopOnHead(run, process);
      return StepOutcome::Interrupted(absl::StrCat(process.code, "_stalled"),
                                      absl::StrCat("no progress line of the ", process.what, " for ",
                                                   silence.count() / 1'000'000'000, " s"),
                                      head);
    }
  }
  auto status = watch->StatusOf(id);
  if (status && status->state() == v1::PROCESS_STATE_EXITED && status->exit_code() == 0 &&
      !status->has_exit_signal())
    return StepOutcome::Passed();
  ProcessWatch::Death death{head, status.value_or(v1::ProcessStatus())};
  const bool refused = process.refusal_is_final && status && status->has_exit_code() &&
                       status->exit_code() == 2 && !error.empty();
  v1::Reason reason = DeathReason(run, death, absl::StrCat(process.code, refused ? "_refused" : "_failed"));
  if (!error.empty())
    reason.set_message(absl::StrCat("the ", process.what, refused ? " refuses: " : " failed: ", error));
  return {refused ? StepOutcome::Kind::kFailed : StepOutcome::Kind::kInterrupted, {reason}};
}

}  // namespace poolmark::controller
