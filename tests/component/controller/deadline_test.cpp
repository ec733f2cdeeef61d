// Agents that beat and never answer: whichever call it is, the job comes to an end.
#include "tests/component/controller/fixture.h"

namespace poolmark::test {
namespace {

// The usual job, whose processes have a second to get ready.
v1::SubmitJobRequest Quick(ControllerFixture* f) {
  std::string stack = *ReadFile(Source("deploy/stacks/sim-local.yaml"));
  for (size_t at; (at = stack.find("within: 30s")) != std::string::npos;) stack.replace(at, 11, "within: 1s");
  return f->WithStack(stack);
}

}  // namespace

TEST_CASE("a call that no agent ever answers ends the job, whichever it is") {
  const std::string call =
      GENERATE("AcquireLease", "GetFacts", "RunChecks", "MeasureLine", "StartProcess", "WatchProcesses",
               "StartSampling", "StreamSamples", "StopSampling", "Probe", "ResetCaches", "FetchFile",
               "StreamLogs", "StopProcess", "Teardown");
  ControllerFixture f;
  f.environment.timing.ready_margin = std::chrono::seconds(1);
  f.environment.timing.load_start = std::chrono::seconds(2);
  f.environment.timing.load_stall = std::chrono::seconds(2);
  f.environment.timing.kv_settle = std::chrono::seconds(1);
  // A link of its own has a deadline for each call; for this one it is over at once.
  f.pool.SetHook([call](const std::string&, const std::string& name, std::stop_token) -> Status {
    if (name != call) return absl::OkStatus();
    return ToStatus(Error{absl::StatusCode::kDeadlineExceeded, "deadline", name, "no answer in time", ""});
  });
  INFO(call);
  const v1::Job job = f.Finished(f.Submit(Quick(&f)));
  CHECK(controller::IsTerminal(job.state()));
  // What these cost is told in the notes of the repeats.
  const std::set<std::string> harmless = {"StreamLogs", "StopProcess", "MeasureLine", "StreamSamples",
                                          "StopSampling"};
  if (!harmless.contains(call)) CHECK(job.reasons_size() > 0);
  if (call == "Teardown") CHECK(job.teardown() == v1::TEARDOWN_VERDICT_UNKNOWN);
}

}  // namespace poolmark::test
