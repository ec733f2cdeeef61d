// AgentService: what the controller may ask of this machine. Thin: leases and runs are Runs', processes the
// guard's; here requests are checked, put into their words, and answered. Unary calls block a server thread;
// streams run on the workers of rpc::Streams. Thread-safe.
#pragma once
#include <functional>
#include <memory>
#include <mutex>

#include "agent/api/facts_keeper.h"
#include "agent/api/guard_spawner.h"
#include "agent/api/registration.h"
#include "agent/api/runs.h"
#include "agent/checks/line_rate.h"
#include "agent/facts/command.h"
#include "agent/facts/facts.h"
#include "agent/process/launch.h"
#include "agent/telemetry/sampler.h"
#include "common/base/secrets.h"
#include "common/http/client.h"
#include "common/prom/catalogue.h"
#include "common/rpc/streams.h"
#include "poolmark/v1/agent.grpc.pb.h"

namespace poolmark::agent {

using AgentServiceBase = v1::AgentService::WithCallbackMethod_WatchProcesses<
    v1::AgentService::WithCallbackMethod_StreamLogs<v1::AgentService::WithCallbackMethod_Teardown<
        v1::AgentService::WithCallbackMethod_FetchFile<v1::AgentService::WithCallbackMethod_RunChecks<
            v1::AgentService::WithCallbackMethod_StreamSamples<v1::AgentService::Service>>>>>>;

class AgentService final : public AgentServiceBase {
 public:
  AgentService(Runs* runs, rpc::Streams* streams, Secrets secrets);
  ~AgentService() override;

  grpc::Status AcquireLease(grpc::ServerContext*, const v1::AcquireLeaseRequest*,
                            v1::AcquireLeaseResponse*) override;
  grpc::Status GetFacts(grpc::ServerContext*, const v1::GetFactsRequest*, v1::GetFactsResponse*) override;
  grpc::Status MeasureLine(grpc::ServerContext*, const v1::MeasureLineRequest*,
                           v1::MeasureLineResponse*) override;
  grpc::Status StartSampling(grpc::ServerContext*, const v1::StartSamplingRequest*,
                             v1::StartSamplingResponse*) override;
  grpc::Status StopSampling(grpc::ServerContext*, const v1::StopSamplingRequest*,
                            v1::StopSamplingResponse*) override;
  grpc::Status StartProcess(grpc::ServerContext*, const v1::StartProcessRequest*,
                            v1::StartProcessResponse*) override;
  grpc::Status StopProcess(grpc::ServerContext*, const v1::StopProcessRequest*,
                           v1::StopProcessResponse*) override;
  grpc::Status Probe(grpc::ServerContext*, const v1::ProbeRequest*, v1::ProbeResponse*) override;
  grpc::Status ResetCaches(grpc::ServerContext*, const v1::ResetCachesRequest*,
                           v1::ResetCachesResponse*) override;
  grpc::Status ListFiles(grpc::ServerContext*, const v1::ListFilesRequest*, v1::ListFilesResponse*) override;

  grpc::ServerWriteReactor<v1::WatchProcessesResponse>* WatchProcesses(
      grpc::CallbackServerContext*, const v1::WatchProcessesRequest*) override;
  grpc::ServerWriteReactor<v1::StreamLogsResponse>* StreamLogs(grpc::CallbackServerContext*,
                                                               const v1::StreamLogsRequest*) override;
  grpc::ServerWriteReactor<v1::TeardownResponse>* Teardown(grpc::CallbackServerContext*,
                                                           const v1::TeardownRequest*) override;
  grpc::ServerWriteReactor<v1::RunChecksResponse>* RunChecks(grpc::CallbackServerContext*,
                                                             const v1::RunChecksRequest*) override;
  grpc::ServerWriteReactor<v1::StreamSamplesResponse>* StreamSamples(
      grpc::CallbackServerContext*, const v1::StreamSamplesRequest*) override;
  grpc::ServerWriteReactor<v1::FetchFileResponse>* FetchFile(grpc::CallbackServerContext*,
                                                             const v1::FetchFileRequest*) override;

  // What is known of the machine's facts, for registrations; never waits. Has them read when they are old.
  Registration::FactsNow FactsNow();
  // Takes up what an earlier agent began: readiness of processes that were still starting. What measured for
  // it is ended; the controller asks for it again.
  void Resume();

 private:
  FactsContext MakeFactsContext();
  void AddAllowed(v1::Facts* facts);
  Status StartOne(const v1::StartProcessRequest& request, v1::StartProcessResponse* response);
  Status MakeDirectories(ActiveRun& run, const v1::ProcessSpec& spec);
  // Does this machine let the job use this (CheckPlan.executables), and is it here?
  Status MayUse(const ActiveRun& run, const std::string& wanted);
  Status WriteFiles(ActiveRun& run, const v1::ProcessSpec& spec);
  Status TearDownRun(std::shared_ptr<ActiveRun> run, const v1::TeardownRequest& request,
                     rpc::Outbox<v1::TeardownResponse>& out, v1::TeardownResponse* last);
  Status CheckProbeTarget(ActiveRun& run, const std::string& host, uint16_t port);
  v1::ProbeResponse ProbeOnce(ActiveRun& run, const v1::ProbeRequest& request);
  v1::CheckResult RunReset(ActiveRun& run, const v1::ResetStep& step, bool read_back);

  Runs* runs_;
  rpc::Streams* streams_;
  Secrets secrets_;
  std::unique_ptr<Spawner> spawner_;
  GuardSpawner guard_spawner_;
  LineRate line_rate_;  // its tools run under the guard
  // Reads the catalogue at the first use: an agent that never samples need not carry it.
  Result<const prom::Catalogue*> TheCatalogue();
  // Ends the sampling of a run, or of any run when the name is empty.
  void EndSampling(const std::string& run);
  // Exporters and line-rate tools of an agent before this one: nobody reads them any more.
  void StopOrphanedTools(ActiveRun& run);
  std::shared_ptr<Sampler> SamplerOf(const std::string& run);

  std::unique_ptr<http::Client> client_;
  std::mutex sampling_mutex_;  // guards what follows
  std::unique_ptr<prom::Catalogue> catalogue_;
  std::shared_ptr<Sampler> sampler_;
  std::string sampling_run_;
  std::string sampling_request_;
  FactsKeeper facts_;  // its thread uses what is above
};

}  // namespace poolmark::agent
