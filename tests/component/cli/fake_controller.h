// A ControllerService with behaviour, behind the real server, TLS and roles: jobs whose events and files the
// test sets, and connections that break when it says so. Thread-safe where handlers run.
#pragma once
#include <atomic>
#include <condition_variable>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "common/rpc/server.h"
#include "common/rpc/streams.h"
#include "controller/ca/enroll_service.h"
#include "poolmark/v1/controller.grpc.pb.h"
#include "tests/component/cli/program.h"
#include "tests/support/cluster.h"

namespace poolmark::test {

using ServiceBase =
    v1::ControllerService::WithCallbackMethod_WatchJob<v1::ControllerService::WithCallbackMethod_StreamLogs<
        v1::ControllerService::WithCallbackMethod_FetchResults<
            v1::ControllerService::WithCallbackMethod_UploadInput<v1::ControllerService::Service>>>>;

class FakeController final : public ServiceBase {
 public:
  explicit FakeController(rpc::Streams* streams) : streams_(streams) {}

  // What the test sets. The mutex guards all of it while the server runs.
  std::mutex mutex;
  std::condition_variable changed;
  v1::Job job;
  std::vector<v1::JobEvent> events;
  bool ended = true;          // the event stream ends after `events`
  int break_logs_after = 0;   // once: UNAVAILABLE after so many chunks
  int break_watch_after = 0;  // once: UNAVAILABLE after so many events
  std::map<std::string, std::string> files;
  int break_fetch_after = 0;  // once: UNAVAILABLE after so many chunks
  bool corrupt = false;       // one byte of what is sent
  bool finished = true;
  std::map<std::string, std::string> uploads;  // by digest
  int upload_bytes_received = 0;
  std::vector<v1::SubmitJobRequest> submitted;
  Errors refusals;
  std::vector<v1::SetMachineStateRequest> machine_changes;
  std::vector<v1::CancelJobRequest> cancels;
  std::string log = "one\ntwo\x1b[31m\n";

  grpc::Status GetJob(grpc::ServerContext*, const v1::GetJobRequest* request,
                      v1::GetJobResponse* response) override;
  grpc::Status ListJobs(grpc::ServerContext*, const v1::ListJobsRequest* request,
                        v1::ListJobsResponse* response) override;
  grpc::Status SubmitJob(grpc::ServerContext*, const v1::SubmitJobRequest* request,
                         v1::SubmitJobResponse* response) override;
  grpc::Status ValidateJob(grpc::ServerContext*, const v1::ValidateJobRequest* request,
                           v1::ValidateJobResponse* response) override;
  grpc::Status CancelJob(grpc::ServerContext*, const v1::CancelJobRequest* request,
                         v1::CancelJobResponse* response) override;
  grpc::Status ListResultFiles(grpc::ServerContext*, const v1::ListResultFilesRequest*,
                               v1::ListResultFilesResponse* response) override;
  grpc::Status ListMachines(grpc::ServerContext*, const v1::ListMachinesRequest*,
                            v1::ListMachinesResponse* response) override;
  grpc::Status SetMachineState(grpc::ServerContext*, const v1::SetMachineStateRequest* request,
                               v1::SetMachineStateResponse* response) override;
  grpc::Status GetVersion(grpc::ServerContext* context, const v1::GetVersionRequest*,
                          v1::GetVersionResponse* response) override;
  grpc::ServerWriteReactor<v1::WatchJobResponse>* WatchJob(grpc::CallbackServerContext* context,
                                                           const v1::WatchJobRequest* request) override;
  grpc::ServerWriteReactor<v1::StreamJobLogsResponse>* StreamLogs(grpc::CallbackServerContext* context,
                                                                  const v1::StreamJobLogsRequest*) override;
  grpc::ServerWriteReactor<v1::FetchResultsResponse>* FetchResults(
      grpc::CallbackServerContext* context, const v1::FetchResultsRequest* request) override;
  grpc::ServerReadReactor<v1::UploadInputRequest>* UploadInput(grpc::CallbackServerContext* context,
                                                               v1::UploadInputResponse* response) override;

 private:
  rpc::Streams* streams_;
};

// The fake behind both listeners, and a CLI whose configuration lies in a temporary directory.
struct CliFixture {
  CliFixture();
  ~CliFixture();
  // Logs the CLI in by certificate, without a token.
  void LogIn(rpc::Role role);
  std::map<std::string, std::string> Environment() const;
  Outcome Cli(const std::vector<std::string>& arguments, const std::string& input = "") {
    return Run("poolmark", arguments, Environment(), input);
  }
  std::string Token(const std::string& name, rpc::Role role);
  void Event(uint64_t sequence, v1::JobState state, const std::string& message);

  Cluster cluster;
  TempDir home;
  rpc::Streams streams;
  FakeController service;
  controller::TokenStore tokens;
  std::unique_ptr<rpc::Server> server;
  std::unique_ptr<controller::EnrollServiceImpl> enroll_service;
  std::unique_ptr<rpc::Server> enroll;
};

}  // namespace poolmark::test
