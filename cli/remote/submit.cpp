// submit: files up, job in; with --dry-run the plan only, with --wait until it has ended.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "cli/output/exit_code.h"
#include "cli/output/interrupt.h"
#include "cli/remote/commands.h"
#include "cli/remote/follow.h"
#include "cli/remote/show.h"
#include "cli/remote/upload.h"
#include "cli/remote/watch_view.h"
#include "common/base/digest.h"
#include "common/base/time_format.h"

namespace poolmark::cli {
namespace {

Errors ErrorsOfItems(const v1::ValidateJobResponse& reply) {
  Errors errors;
  for (const auto& item : reply.refusals()) {
    errors.push_back(
        {absl::StatusCode::kInvalidArgument, item.code(), item.where(), item.message(), item.hint()});
  }
  return errors;
}

// The job lacks files: what else the controller finds wrong with it, in one list with them.
int RefuseAll(Session& session, const v1::SubmitJobRequest& job, const JobFiles& files) {
  Errors errors = files.missing;
  v1::ValidateJobRequest request;
  *request.mutable_job() = job;
  auto reply = rpc::Call(session.stub(), &v1::ControllerService::Stub::ValidateJob, request,
                         rpc::Deadline("ControllerService/ValidateJob"));
  if (reply.ok()) {
    for (Error& error : ErrorsOfItems(*reply)) {
      const bool told = std::any_of(files.lacks.begin(), files.lacks.end(), [&](const std::string& name) {
        return error.message.find("'" + name + "'") != std::string::npos;
      });
      if (!told) errors.push_back(std::move(error));
    }
  }
  WriteErr(ErrorText(errors, session.format()));
  return kExitUsage;
}

int DryRun(Session& session, const v1::SubmitJobRequest& job) {
  v1::ValidateJobRequest request;
  *request.mutable_job() = job;
  auto reply = rpc::Call(session.stub(), &v1::ControllerService::Stub::ValidateJob, request,
                         rpc::Deadline("ControllerService/ValidateJob"));
  if (!reply.ok()) return Fail(WithAdvice(reply.status(), session.context()), session.format());
  if (session.format() != Format::kTable) {
    Json refusals = Json::array();
    for (const auto& item : reply->refusals()) {
      refusals.push_back({{"code", item.code()},
                          {"where", item.where()},
                          {"message", item.message()},
                          {"hint", item.hint()}});
    }
    Json notes = Json::array();
    for (const auto& note : reply->notes()) notes.push_back(note);
    auto plan = ParseJson(reply->plan_json());
    WriteOut(JsonText({{"accepted", reply->accepted()},
                       {"refusals", refusals},
                       {"estimated_seconds", static_cast<double>(reply->estimated_ns()) / 1e9},
                       {"notes", notes},
                       {"plan", plan.ok() ? *plan : Json()}},
                      session.format()));
    return reply->accepted() ? kExitOk : kExitUsage;
  }
  if (!reply->accepted()) {
    WriteErr(ErrorText(ErrorsOfItems(*reply), Format::kTable));
    return kExitUsage;
  }
  WriteOut(Printable(reply->explanation(), true));
  if (!reply->explanation().empty() && reply->explanation().back() != '\n') WriteOut("\n");
  for (const auto& note : reply->notes()) WriteOut("note: " + Printable(note) + "\n");
  WriteOut(absl::StrCat(
      "accepted; estimated time ",
      FormatDuration(std::chrono::duration_cast<std::chrono::seconds>(Nanoseconds(reply->estimated_ns()))),
      "\n"));
  return kExitOk;
}

}  // namespace

int RunSubmit(const SubmitOptions& options) {
  const Format format = options.remote.format();
  if (options.job_file.empty() == options.from.empty()) {
    return Fail(
        InvalidInput("submit", "one of a job file and --from DIR is needed", "poolmark submit job.yaml"),
        format);
  }
  auto files = options.from.empty() ? FilesOfJob(options.job_file) : FilesOfResults(options.from);
  if (!files.ok()) return Fail(files.status(), format);
  Interrupt interrupt;
  auto session = Session::Open(options.remote);
  if (!session.ok()) return Fail(session.status(), format);
  v1::SubmitJobRequest request;
  request.set_request_id(options.request_id.empty() ? NewUuid() : options.request_id);
  request.set_name(options.name.empty() ? files->name : options.name);
  request.set_job_path(files->job_path);
  request.set_no_continue(options.no_continue);
  for (const auto& [key, value] : files->set) (*request.mutable_set())[key] = value;
  for (const auto& [key, value] : options.set) (*request.mutable_set())[key] = value;
  for (const auto& [key, value] : options.labels) {
    auto* label = request.add_labels();
    label->set_key(key);
    label->set_value(value);
  }
  for (const LocalInput& input : files->inputs) {
    Status sent = Upload(**session, input);
    if (!sent.ok()) return Fail(WithAdvice(sent, (*session)->context()), format);
    auto* entry = request.add_inputs();
    entry->set_path(input.path);
    entry->set_sha256(input.sha256);
    entry->set_size(input.size);
    if (interrupt.happened()) return kExitInterrupted;
  }
  if (!files->missing.empty()) return RefuseAll(**session, request, *files);
  if (options.dry_run) return DryRun(**session, request);
  auto reply = rpc::Call((*session)->stub(), &v1::ControllerService::Stub::SubmitJob, request,
                         rpc::Deadline("ControllerService/SubmitJob"));
  if (!reply.ok()) return Fail(WithAdvice(reply.status(), (*session)->context()), format);
  if (format == Format::kTable) {
    WriteOut(reply->job_id() + "\n");
    for (const auto& note : reply->notes()) WriteErr("note: " + Printable(note) + "\n");
  } else {
    Json notes = Json::array();
    for (const auto& note : reply->notes()) notes.push_back(note);
    WriteOut(
        JsonText({{"job", reply->job_id()}, {"notes", notes}}, options.wait ? Format::kJsonLines : format));
  }
  if (!options.wait) return kExitOk;
  return WatchToEnd(**session, reply->job_id(), interrupt, options.timeout);
}

}  // namespace poolmark::cli
