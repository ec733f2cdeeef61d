#include "controller/api/controller_service.h"

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "common/base/digest.h"
#include "common/base/files.h"
#include "common/base/log.h"
#include "common/base/version.h"
#include "common/results/layout.h"
#include "common/rpc/status.h"
#include "common/spec/read.h"
#include "controller/api/job_logs.h"
#include "controller/api/result_files.h"
#include "controller/ca/enroll_service.h"
#include "controller/runner/request_limits.h"
#include "controller/runner/results_writer.h"
#include "controller/runner/validated.h"

namespace poolmark::controller {
namespace {

using rpc::ToGrpc;

constexpr uint32_t kDefaultPage = 100;
constexpr uint32_t kMaxPage = 1000;
// A message holds 4 MiB; what is added to each entry of a page goes on top.
constexpr size_t kMaxPageBytes = 2u << 20;
constexpr Nanoseconds kClosing = std::chrono::seconds(5);

// Runs the body that gives a Status; every handler is one of these.
template <class Body>
grpc::Status Handle(Body body) {
  return ToGrpc(body());
}

// A mutating request's answer by its id, or what `make` answers, stored under it. `make` may run twice only
// when the process ended in between; what it does is idempotent by itself.
// `scope`: whose request it is, where an answer is for nobody else.
template <class Request, class Response, class Make>
Status Once(Store* store, const Request& request, Response* response, Make make,
            const std::string& scope = "") {
  if (request.request_id().empty()) return make();
  POOLMARK_RETURN_IF_ERROR(CheckRequestId(request.request_id()));
  Request body = request;
  body.clear_request_id();
  const std::string digest = Sha256Hex(absl::StrCat(Request::descriptor()->full_name(), "\n", scope,
                                                    scope.empty() ? "" : "\n", body.SerializeAsString()));
  POOLMARK_ASSIGN_OR_RETURN(auto answer, store->FindAnswer(request.request_id(), digest));
  if (answer && response->ParseFromString(*answer)) return absl::OkStatus();
  POOLMARK_RETURN_IF_ERROR(make());
  return store->StoreAnswer(request.request_id(), digest, response->SerializeAsString());
}

}  // namespace

Result<StoredJob> ControllerServiceImpl::OwnJob(const grpc::ServerContextBase& context,
                                                const std::string& job_id) {
  POOLMARK_ASSIGN_OR_RETURN(rpc::Identity caller, rpc::CallerOf(context));
  POOLMARK_ASSIGN_OR_RETURN(StoredJob job, environment_.store->Get(job_id));
  POOLMARK_RETURN_IF_ERROR(rpc::MayChangeJobOf(caller, job.job.owner()));
  return job;
}

grpc::ServerReadReactor<v1::UploadInputRequest>* ControllerServiceImpl::UploadInput(
    grpc::CallbackServerContext* context, v1::UploadInputResponse* response) {
  return streams_.Consume<v1::UploadInputRequest, v1::UploadInputResponse>(
      context, response,
      [this](rpc::Inbox<v1::UploadInputRequest>& in, v1::UploadInputResponse* answer) -> Status {
        v1::UploadInputRequest message;
        if (!in.Read(&message)) return InvalidInput("upload", "no message came");
        const std::string sha256 = message.sha256();
        if (environment_.inputs->Has(sha256)) {
          POOLMARK_ASSIGN_OR_RETURN(uint64_t size, environment_.inputs->SizeOf(sha256));
          answer->set_size(size);
          answer->set_already_there(true);
          return absl::OkStatus();
        }
        POOLMARK_ASSIGN_OR_RETURN(InputStore::Upload upload, environment_.inputs->Begin(sha256));
        do {
          POOLMARK_RETURN_IF_ERROR(upload.Append(message.data()));
        } while (in.Read(&message));
        // A client that died mid-way looks like the end of its stream: the digest tells.
        POOLMARK_ASSIGN_OR_RETURN(uint64_t size, upload.Finish());
        answer->set_size(size);
        return absl::OkStatus();
      });
}

grpc::ServerWriteReactor<v1::WatchJobResponse>* ControllerServiceImpl::WatchJob(
    grpc::CallbackServerContext* context, const v1::WatchJobRequest* request) {
  auto outbox = streams_.Open<v1::WatchJobResponse>(context);
  auto* reactor = outbox->reactor();
  auto job = environment_.store->Get(request->job_id());
  if (!job.ok()) {
    outbox->Finish(job.status());
    return reactor;
  }
  v1::WatchJobRequest full = *request;
  full.set_job_id(job->job.id());
  watches_.Add(full, std::move(outbox));
  return reactor;
}

grpc::ServerWriteReactor<v1::StreamJobLogsResponse>* ControllerServiceImpl::StreamLogs(
    grpc::CallbackServerContext* context, const v1::StreamJobLogsRequest* request) {
  return streams_.Produce<v1::StreamJobLogsResponse>(
      context, [this, request = *request](rpc::Outbox<v1::StreamJobLogsResponse>& out) -> Status {
        return SendLogs(jobs_, request, out.stop_token(),
                        [&out](v1::StreamJobLogsResponse chunk) { return out.Write(std::move(chunk)); });
      });
}

grpc::ServerWriteReactor<v1::FetchResultsResponse>* ControllerServiceImpl::FetchResults(
    grpc::CallbackServerContext* context, const v1::FetchResultsRequest* request) {
  return streams_.Produce<v1::FetchResultsResponse>(
      context, [this, request = *request](rpc::Outbox<v1::FetchResultsResponse>& out) -> Status {
        POOLMARK_ASSIGN_OR_RETURN(StoredJob job, environment_.store->Get(request.job_id()));
        return SendResult(ResultsDir(environment_, job.job.id()), request.path(), request.offset(),
                          [&out](v1::FetchResultsResponse chunk) { return out.Write(std::move(chunk)); });
      });
}

grpc::Status ControllerServiceImpl::SubmitJob(grpc::ServerContext* context,
                                              const v1::SubmitJobRequest* request,
                                              v1::SubmitJobResponse* response) {
  return Handle([&]() -> Status {
    POOLMARK_ASSIGN_OR_RETURN(rpc::Identity caller, rpc::CallerOf(*context));
    POOLMARK_ASSIGN_OR_RETURN(*response, jobs_.Submit(*request, caller.name));
    Log(LogLevel::kInfo, "job.submitted", {{"job", response->job_id()}, {"by", caller.name}});
    return absl::OkStatus();
  });
}

grpc::Status ControllerServiceImpl::ValidateJob(grpc::ServerContext*, const v1::ValidateJobRequest* request,
                                                v1::ValidateJobResponse* response) {
  *response = jobs_.Validate(request->job());
  return grpc::Status::OK;
}

grpc::Status ControllerServiceImpl::GetJob(grpc::ServerContext*, const v1::GetJobRequest* request,
                                           v1::GetJobResponse* response) {
  return Handle([&]() -> Status {
    POOLMARK_ASSIGN_OR_RETURN(StoredJob job, environment_.store->Get(request->job_id()));
    *response->mutable_job() = job.job;
    const std::string path =
        JoinPath(ResultsDir(environment_, job.job.id()), std::string(results::kSummaryFile));
    // Larger ones are fetched as a file: a message holds 4 MiB.
    if (FileExists(path)) {
      auto text = ReadFile(path, 3u << 20);
      if (text.ok()) response->set_summary_json(*text);
    }
    return absl::OkStatus();
  });
}

grpc::Status ControllerServiceImpl::ListJobs(grpc::ServerContext*, const v1::ListJobsRequest* request,
                                             v1::ListJobsResponse* response) {
  return Handle([&]() -> Status {
    uint64_t before = 0;
    if (!request->page_token().empty() && !absl::SimpleAtoi(request->page_token(), &before)) {
      return InvalidInput("page_token", "is none that ListJobs gave", "start without one");
    }
    std::vector<v1::JobState> states;
    for (int state : request->states()) {
      if (!v1::JobState_IsValid(state) || state == v1::JOB_STATE_UNSPECIFIED)
        return InvalidInput("states", absl::StrCat(state, " is no job state"));
      states.push_back(static_cast<v1::JobState>(state));
    }
    const uint32_t size = request->page_size() == 0 ? kDefaultPage : std::min(request->page_size(), kMaxPage);
    POOLMARK_ASSIGN_OR_RETURN(Store::Page page,
                              environment_.store->List(states, before, size, kMaxPageBytes));
    for (v1::Job& job : page.jobs) *response->add_jobs() = std::move(job);
    if (page.next != 0) response->set_next_page_token(absl::StrCat(page.next));
    return absl::OkStatus();
  });
}

grpc::Status ControllerServiceImpl::CancelJob(grpc::ServerContext* context,
                                              const v1::CancelJobRequest* request,
                                              v1::CancelJobResponse* response) {
  return Handle([&]() -> Status {
    POOLMARK_ASSIGN_OR_RETURN(StoredJob job, OwnJob(*context, request->job_id()));
    POOLMARK_ASSIGN_OR_RETURN(rpc::Identity caller, rpc::CallerOf(*context));
    return Once(environment_.store, *request, response, [&]() -> Status {
      POOLMARK_ASSIGN_OR_RETURN(*response->mutable_job(),
                                jobs_.Cancel(job.job.id(), request->force(), caller.name));
      Log(LogLevel::kInfo, "job.cancel",
          {{"job", job.job.id()}, {"by", caller.name}, {"force", request->force() ? "yes" : "no"}});
      return absl::OkStatus();
    });
  });
}

grpc::Status ControllerServiceImpl::DeleteJob(grpc::ServerContext* context,
                                              const v1::DeleteJobRequest* request,
                                              v1::DeleteJobResponse* response) {
  return Handle([&]() -> Status {
    return Once(environment_.store, *request, response, [&]() -> Status {
      POOLMARK_ASSIGN_OR_RETURN(StoredJob job, OwnJob(*context, request->job_id()));
      if (request->job_id() != job.job.id())
        return InvalidInput(request->job_id(), "deleting takes the whole id",
                            absl::StrCat("did you mean ", job.job.id(), "?"));
      POOLMARK_ASSIGN_OR_RETURN(uint64_t bytes, jobs_.Delete(job.job.id()));
      response->set_freed_bytes(bytes);
      return absl::OkStatus();
    });
  });
}

grpc::Status ControllerServiceImpl::ListResultFiles(grpc::ServerContext*,
                                                    const v1::ListResultFilesRequest* request,
                                                    v1::ListResultFilesResponse* response) {
  return Handle([&]() -> Status {
    POOLMARK_ASSIGN_OR_RETURN(StoredJob job, environment_.store->Get(request->job_id()));
    bool closed = IsClosed(environment_, job.job.id());
    // The last files follow the last state by moments.
    const Nanoseconds deadline = environment_.clock->Steady() + kClosing;
    while (!closed && IsTerminal(job.job.state()) && environment_.clock->Steady() < deadline) {
      WaitFor({}, std::chrono::milliseconds(50));
      closed = IsClosed(environment_, job.job.id());
    }
    POOLMARK_ASSIGN_OR_RETURN(auto files, ListResults(ResultsDir(environment_, job.job.id()), closed));
    for (v1::ResultFile& file : files) *response->add_files() = std::move(file);
    response->set_job_finished(closed);
    return absl::OkStatus();
  });
}

grpc::Status ControllerServiceImpl::ListMachines(grpc::ServerContext*, const v1::ListMachinesRequest* request,
                                                 v1::ListMachinesResponse* response) {
  const auto ends = authority_.MachineEnds();
  const uint32_t size = request->page_size() == 0 ? kMaxPage : std::min(request->page_size(), kMaxPage);
  Registry::Page page =
      environment_.registry->ListPage(request->with_facts(), request->page_token(), size, kMaxPageBytes);
  response->set_next_page_token(page.next);
  for (v1::Machine& machine : page.machines) {
    auto end = ends->find(machine.name());
    if (end != ends->end()) machine.set_certificate_expires_wall_ns(end->second.count());
    *response->add_machines() = std::move(machine);
  }
  return grpc::Status::OK;
}

grpc::Status ControllerServiceImpl::SetMachineState(grpc::ServerContext* context,
                                                    const v1::SetMachineStateRequest* request,
                                                    v1::SetMachineStateResponse* response) {
  return Handle([&]() -> Status {
    POOLMARK_ASSIGN_OR_RETURN(rpc::Identity caller, rpc::CallerOf(*context));
    const bool revoke = request->action() == v1::MACHINE_ACTION_REVOKE;
    if (revoke) POOLMARK_RETURN_IF_ERROR(rpc::MayRevoke(caller));
    if (request->reason().size() > kMaxReason)
      return InvalidInput(
          "reason",
          absl::StrCat("it has ", request->reason().size(), " bytes, at most ", kMaxReason, " are allowed"),
          "shorten it");
    return Once(environment_.store, *request, response, [&]() -> Status {
      POOLMARK_ASSIGN_OR_RETURN(
          *response->mutable_machine(),
          environment_.registry->Act(request->machine(), request->action(), request->reason(),
                                     caller.role == rpc::Role::kAdmin));
      if (revoke) {
        POOLMARK_RETURN_IF_ERROR(authority_.Revoke(true, request->machine()).status());
        environment_.registry->SetRevoked(authority_.RevokedSerials());
        streams_.CancelIf([&](const rpc::Identity& peer) {
          return peer.role == rpc::Role::kAgent && peer.name == request->machine();
        });
      }
      Log(LogLevel::kInfo, "machine.action",
          {{"machine", request->machine()},
           {"action", v1::MachineAction_Name(request->action())},
           {"by", caller.name}});
      jobs_.Wake();
      return absl::OkStatus();
    });
  });
}

grpc::Status ControllerServiceImpl::ListStacks(grpc::ServerContext*, const v1::ListStacksRequest*,
                                               v1::ListStacksResponse* response) {
  return Handle([&]() -> Status {
    POOLMARK_ASSIGN_OR_RETURN(auto names, ListDir(environment_.inputs->stacks_dir()));
    POOLMARK_ASSIGN_OR_RETURN(auto validated,
                              ReadValidated(JoinPath(environment_.state_dir, kValidatedFile)));
    std::map<std::string, std::string> last_job;  // stack -> the last job that validated it
    for (const ValidatedConfiguration& entry : validated) {
      last_job[entry.stack] = entry.job_id;
      v1::ValidatedConfiguration* out = response->add_validated();
      out->set_stack(entry.stack);
      out->set_digest(entry.digest);
      out->set_vendor(entry.vendor);
      for (const std::string& component : entry.components) out->add_components(component);
      out->set_job_id(entry.job_id);
      out->set_date(entry.date);
    }
    for (const std::string& name : names) {
      if (!name.ends_with(".yaml")) continue;
      POOLMARK_ASSIGN_OR_RETURN(std::string text,
                                ReadFile(JoinPath(environment_.inputs->stacks_dir(), name), kMaxSpecBytes));
      Errors errors;
      auto stack = spec::ReadStack(text, name, &errors);
      v1::StackInfo* info = response->add_stacks();
      info->set_name(name.substr(0, name.size() - 5));
      const auto job = last_job.find(info->name());
      info->set_validated(job == last_job.end() ? "no verdict yet" : job->second);
      if (!stack.ok()) {
        info->set_description(absl::StrCat("cannot be read: ", std::string(stack.status().message())));
        continue;
      }
      info->set_strategy(std::string(spec::StrategyName(stack->strategy)));
      info->set_description(stack->description);
      info->set_simulated(stack->simulated);
      for (const spec::ProcessTemplate& process : stack->processes) {
        std::string program = process.image.empty() ? process.exec : process.image;
        for (const auto& [param, value] : stack->params) {  // as it runs unless a job sets it otherwise
          if (program == absl::StrCat("${", param, "}") && !value.empty()) program = value;
        }
        info->add_components(absl::StrCat(process.name, ": ", program));
      }
    }
    return absl::OkStatus();
  });
}

grpc::Status ControllerServiceImpl::GetVersion(grpc::ServerContext* context, const v1::GetVersionRequest*,
                                               v1::GetVersionResponse* response) {
  response->set_version(Version());
  response->set_cluster_id(environment_.store->cluster_id());
  response->set_wall_ns(environment_.clock->Wall().count());
  response->add_api_versions("v1");
  auto caller = rpc::CallerOf(*context);
  if (caller.ok()) {
    response->set_caller_name(caller->name);
    response->set_caller_role(std::string(rpc::RoleName(caller->role)));
  }
  return grpc::Status::OK;
}

grpc::Status ControllerServiceImpl::RenewCertificate(grpc::ServerContext* context,
                                                     const v1::RenewCertificateRequest* request,
                                                     v1::RenewCertificateResponse* response) {
  return Handle([&]() -> Status {
    POOLMARK_ASSIGN_OR_RETURN(rpc::Identity caller, rpc::CallerOf(*context));
    // One after another: the same request that comes again meanwhile is one certificate, too.
    std::lock_guard lock(renewing_);
    return Once(
        environment_.store, *request, response,
        [&] { return controller::RenewCertificate(authority_, caller, *request, response); },
        rpc::SpiffeUri(caller.cluster, caller.role, caller.name));
  });
}

}  // namespace poolmark::controller
