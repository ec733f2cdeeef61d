// jobs, status, cancel, delete, stacks: one call each.
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "cli/output/exit_code.h"
#include "cli/remote/commands.h"
#include "cli/remote/follow.h"
#include "cli/remote/show.h"
#include "cli/remote/watch_view.h"
#include "common/base/digest.h"
#include "common/base/time_format.h"
#include "common/base/units.h"

namespace poolmark::cli {
namespace {

std::string Ago(int64_t wall_ns) {
  if (wall_ns == 0) return "";
  auto seconds = std::chrono::duration_cast<std::chrono::seconds>(RealClock().Wall() - Nanoseconds(wall_ns));
  return FormatDuration(std::max(seconds, std::chrono::seconds(0)));
}

std::string FirstReason(const v1::Job& job) {
  if (job.reasons().empty()) return job.waiting_for().empty() ? "" : "waits for " + job.waiting_for();
  return job.reasons(0).code() + ": " + job.reasons(0).message();
}

void PrintStatus(const v1::Job& job) {
  auto line = [](const std::string& name, const std::string& value) {
    if (value.empty()) return;
    std::string padded = name;
    padded.resize(12, ' ');
    WriteOut(padded + value + "\n");
  };
  line("job", job.id());
  line("name", Printable(job.name()));
  line("owner", Printable(job.owner()));
  line("state", Coloured(StateWord(job.state()), StateColour(job.state())) +
                    (job.cancel_requested() && !IsTerminal(job.state()) ? " (cancel requested)" : ""));
  line("tear-down", TeardownWord(job.teardown()));
  line("position", Printable(PositionText(job.position())));
  line("waits for", Printable(job.waiting_for()));
  line("submitted", job.submitted_wall_ns() == 0 ? "" : IsoUtc(Nanoseconds(job.submitted_wall_ns())));
  line("started", job.has_started_wall_ns() ? IsoUtc(Nanoseconds(job.started_wall_ns())) : "");
  line("ended", job.has_finished_wall_ns() ? IsoUtc(Nanoseconds(job.finished_wall_ns())) : "");
  line("estimate", job.estimated_ns() == 0 ? ""
                                           : FormatDuration(std::chrono::duration_cast<std::chrono::seconds>(
                                                 Nanoseconds(job.estimated_ns()))));
  std::string machines;
  for (const auto& machine : job.machines()) absl::StrAppend(&machines, machines.empty() ? "" : " ", machine);
  line("machines", Printable(machines));
  for (const auto& label : job.labels()) line("label", Printable(label.key() + "=" + label.value()));
  for (const auto& reason : job.reasons()) line("reason", ReasonText(reason, "            "));
}

}  // namespace

int RunJobs(const JobsOptions& options) {
  const Format format = options.remote.format();
  auto session = Session::Open(options.remote);
  if (!session.ok()) return Fail(session.status(), format);
  v1::ListJobsRequest request;
  for (std::string word : options.states) {
    for (char& c : word) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
    v1::JobState state = v1::JOB_STATE_UNSPECIFIED;
    if (!v1::JobState_Parse("JOB_STATE_" + word, &state) || state == v1::JOB_STATE_UNSPECIFIED) {
      return Fail(InvalidInput("--state", absl::StrCat("'", word, "' is no state of a job"),
                               "SUBMITTED, QUEUED, PREFLIGHT, LAUNCHING, VERIFYING, BENCHMARKING, "
                               "COLLECTING, TEARING_DOWN, SUCCEEDED, INVALID, FAILED, "
                               "CANCELLED or REFUSED"),
                  format);
    }
    request.add_states(state);
  }
  Table table({"JOB", "NAME", "OWNER", "STATE", "TEAR-DOWN", "REPEATS", "AGE", "REASON"});
  std::vector<Json> rows;
  while (rows.size() < options.limit) {
    request.set_page_size(std::min<uint32_t>(options.limit - static_cast<uint32_t>(rows.size()), 1000));
    auto reply = rpc::Call((*session)->stub(), &v1::ControllerService::Stub::ListJobs, request,
                           rpc::Deadline("ControllerService/ListJobs"));
    if (!reply.ok()) return Fail(WithAdvice(reply.status(), (*session)->context()), format);
    for (const auto& job : reply->jobs()) {
      rows.push_back(JobJson(job));
      std::string repeats =
          job.position().total_repeats() == 0
              ? ""
              : absl::StrCat(job.position().done_repeats(), "/", job.position().total_repeats());
      table.Add({{job.id()},
                 {job.name()},
                 {job.owner()},
                 {StateWord(job.state()), StateColour(job.state())},
                 {TeardownWord(job.teardown())},
                 {repeats},
                 {Ago(job.submitted_wall_ns())},
                 {Clip(FirstReason(job), 60)}});
    }
    if (reply->next_page_token().empty() || reply->jobs().empty()) break;
    request.set_page_token(reply->next_page_token());
  }
  WriteOut(format == Format::kTable ? table.Text() : JsonRows(rows, format));
  return kExitOk;
}

int RunStatus(const JobOptions& options) {
  const Format format = options.remote.format();
  auto session = Session::Open(options.remote);
  if (!session.ok()) return Fail(session.status(), format);
  v1::GetJobRequest request;
  request.set_job_id(options.job);
  auto reply = rpc::Call((*session)->stub(), &v1::ControllerService::Stub::GetJob, request,
                         rpc::Deadline("ControllerService/GetJob"));
  if (!reply.ok()) return Fail(WithAdvice(reply.status(), (*session)->context()), format);
  if (format == Format::kTable) {
    PrintStatus(reply->job());
    return kExitOk;
  }
  Json json = JobJson(reply->job());
  auto summary = ParseJson(reply->summary_json());
  json["summary"] = summary.ok() ? *summary : Json();
  WriteOut(JsonText(json, format));
  return kExitOk;
}

int RunCancel(const JobOptions& options) {
  const Format format = options.remote.format();
  auto session = Session::Open(options.remote);
  if (!session.ok()) return Fail(session.status(), format);
  // Whether it had ended before: a job that waits has when the request is answered.
  v1::GetJobRequest look;
  look.set_job_id(options.job);
  auto before = rpc::Call((*session)->stub(), &v1::ControllerService::Stub::GetJob, look,
                          rpc::Deadline("ControllerService/GetJob"));
  if (!before.ok()) return Fail(WithAdvice(before.status(), (*session)->context()), format);
  v1::CancelJobRequest request;
  request.set_request_id(NewUuid());
  request.set_job_id(options.job);
  request.set_force(options.force);
  auto reply = rpc::Call((*session)->stub(), &v1::ControllerService::Stub::CancelJob, request,
                         rpc::Deadline("ControllerService/CancelJob"));
  if (!reply.ok()) return Fail(WithAdvice(reply.status(), (*session)->context()), format);
  if (format != Format::kTable) {
    WriteOut(JsonText(JobJson(reply->job()), format));
  } else if (reply->job().state() == v1::JOB_STATE_CANCELLED && !IsTerminal(before->job().state())) {
    WriteOut(absl::StrCat("job ", reply->job().id(), " was cancelled\n"));
  } else if (IsTerminal(reply->job().state())) {
    WriteOut(absl::StrCat("job ", reply->job().id(), " has ended already: ", StateWord(reply->job().state()),
                          "\n"));
  } else {
    WriteOut(absl::StrCat("job ", reply->job().id(),
                          " will end after its tear-down; follow it with 'poolmark wait ", reply->job().id(),
                          "'\n"));
  }
  return kExitOk;
}

int RunDelete(const JobOptions& options) {
  const Format format = options.remote.format();
  auto session = Session::Open(options.remote);
  if (!session.ok()) return Fail(session.status(), format);
  v1::DeleteJobRequest request;
  request.set_request_id(NewUuid());
  request.set_job_id(options.job);
  auto reply = rpc::Call((*session)->stub(), &v1::ControllerService::Stub::DeleteJob, request,
                         rpc::Deadline("ControllerService/DeleteJob"));
  if (!reply.ok()) return Fail(WithAdvice(reply.status(), (*session)->context()), format);
  WriteOut(format == Format::kTable ? absl::StrCat("deleted, ", FormatBytes(reply->freed_bytes()), " freed\n")
                                    : JsonText({{"freed_bytes", reply->freed_bytes()}}, format));
  return kExitOk;
}

namespace {

int ShowValidated(const v1::ListStacksResponse& reply, Format format) {
  Table table({"STACK", "DIGEST", "VENDOR", "VERSIONS", "JOB", "ENDED"});
  std::vector<Json> rows;
  for (const auto& entry : reply.validated()) {
    Json components = Json::array();
    std::string versions;
    for (const auto& component : entry.components()) {
      components.push_back(component);
      absl::StrAppend(&versions, versions.empty() ? "" : ", ", component);
    }
    rows.push_back({{"stack", entry.stack()},
                    {"digest", entry.digest()},
                    {"vendor", entry.vendor()},
                    {"components", components},
                    {"job", entry.job_id()},
                    {"ended", entry.date()}});
    table.Add({{entry.stack()},
               {entry.digest().substr(0, 12)},
               {entry.vendor().empty() ? "no GPU" : entry.vendor()},
               {versions},
               {entry.job_id()},
               {entry.date()}});
  }
  WriteOut(format == Format::kTable ? table.Text() : JsonRows(rows, format));
  return kExitOk;
}

}  // namespace

int RunStacks(const RemoteOptions& options, bool validated) {
  const Format format = options.format();
  auto session = Session::Open(options);
  if (!session.ok()) return Fail(session.status(), format);
  auto reply = rpc::Call((*session)->stub(), &v1::ControllerService::Stub::ListStacks,
                         v1::ListStacksRequest(), rpc::Deadline("ControllerService/ListStacks"));
  if (!reply.ok()) return Fail(WithAdvice(reply.status(), (*session)->context()), format);
  if (validated) return ShowValidated(*reply, format);
  Table table({"STACK", "STRATEGY", "COMPONENTS", "VALIDATED", "DESCRIPTION"});
  std::vector<Json> rows;
  for (const auto& stack : reply->stacks()) {
    rows.push_back(StackJson(stack));
    std::string components;
    for (const auto& component : stack.components())
      absl::StrAppend(&components, components.empty() ? "" : " ", component);
    table.Add({{stack.name()},
               {stack.strategy()},
               {components},
               {stack.simulated() ? "simulated, never" : stack.validated()},
               {stack.description()}});
  }
  WriteOut(format == Format::kTable ? table.Text() : JsonRows(rows, format));
  return kExitOk;
}

}  // namespace poolmark::cli
