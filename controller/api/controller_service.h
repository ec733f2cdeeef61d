// ControllerService: what users and automation ask. Who may call what is decided before a handler runs
// (common/rpc/rules.h); whose job it is, here. Thread-safe.
#pragma once
#include <mutex>
#include <string>

#include "common/rpc/streams.h"
#include "controller/api/job_watch.h"
#include "controller/ca/ca.h"
#include "controller/runner/manager.h"
#include "poolmark/v1/controller.grpc.pb.h"

namespace poolmark::controller {

class ControllerServiceImpl final
    : public v1::ControllerService::WithCallbackMethod_UploadInput<
          v1::ControllerService::WithCallbackMethod_WatchJob<
              v1::ControllerService::WithCallbackMethod_StreamLogs<
                  v1::ControllerService::WithCallbackMethod_FetchResults<v1::ControllerService::Service>>>> {
 public:
  // All must outlive this.
  ControllerServiceImpl(JobManager* jobs, Authority* authority, rpc::Streams* streams)
      : jobs_(*jobs),
        environment_(jobs->environment()),
        authority_(*authority),
        streams_(*streams),
        watches_(environment_) {}

  grpc::ServerReadReactor<v1::UploadInputRequest>* UploadInput(grpc::CallbackServerContext* context,
                                                               v1::UploadInputResponse* response) override;
  grpc::ServerWriteReactor<v1::WatchJobResponse>* WatchJob(grpc::CallbackServerContext* context,
                                                           const v1::WatchJobRequest* request) override;
  grpc::ServerWriteReactor<v1::StreamJobLogsResponse>* StreamLogs(
      grpc::CallbackServerContext* context, const v1::StreamJobLogsRequest* request) override;
  grpc::ServerWriteReactor<v1::FetchResultsResponse>* FetchResults(
      grpc::CallbackServerContext* context, const v1::FetchResultsRequest* request) override;

  grpc::Status SubmitJob(grpc::ServerContext*, const v1::SubmitJobRequest*, v1::SubmitJobResponse*) override;
  grpc::Status ValidateJob(grpc::ServerContext*, const v1::ValidateJobRequest*,
                           v1::ValidateJobResponse*) override;
  grpc::Status GetJob(grpc::ServerContext*, const v1::GetJobRequest*, v1::GetJobResponse*) override;
  grpc::Status ListJobs(grpc::ServerContext*, const v1::ListJobsRequest*, v1::ListJobsResponse*) override;
  grpc::Status CancelJob(grpc::ServerContext*, const v1::CancelJobRequest*, v1::CancelJobResponse*) override;
  grpc::Status DeleteJob(grpc::ServerContext*, const v1::DeleteJobRequest*, v1::DeleteJobResponse*) override;
  grpc::Status ListResultFiles(grpc::ServerContext*, const v1::ListResultFilesRequest*,
                               v1::ListResultFilesResponse*) override;
  grpc::Status ListMachines(grpc::ServerContext*, const v1::ListMachinesRequest*,
                            v1::ListMachinesResponse*) override;
  grpc::Status SetMachineState(grpc::ServerContext*, const v1::SetMachineStateRequest*,
                               v1::SetMachineStateResponse*) override;
  grpc::Status ListStacks(grpc::ServerContext*, const v1::ListStacksRequest*,
                          v1::ListStacksResponse*) override;
  grpc::Status GetVersion(grpc::ServerContext*, const v1::GetVersionRequest*,
                          v1::GetVersionResponse*) override;
  grpc::Status RenewCertificate(grpc::ServerContext*, const v1::RenewCertificateRequest*,
                                v1::RenewCertificateResponse*) override;

 private:
  Result<StoredJob> OwnJob(const grpc::ServerContextBase& context, const std::string& job_id);

  JobManager& jobs_;
  const Environment& environment_;
  Authority& authority_;
  rpc::Streams& streams_;
  JobWatches watches_;
  std::mutex renewing_;
};

}  // namespace poolmark::controller
