// The controller's side of one machine's agent: every call of AgentService, with its deadline, retries and
// cancellation behind it. Calls block; any thread may call, several at once. `stop` ends a call early
// (CANCELLED). Errors are of transport or refusals; domain outcomes are in the answers.
#pragma once
#include <functional>
#include <memory>
#include <stop_token>
#include <string>

#include "common/base/result.h"
#include "poolmark/v1/agent.pb.h"

namespace poolmark::controller {

// Gets each message of a stream; false ends the stream early (the call then returns OK).
template <class Message>
using OnMessage = std::function<bool(const Message&)>;

class AgentLink {
 public:
  virtual ~AgentLink() = default;

  virtual Result<v1::AcquireLeaseResponse> AcquireLease(const v1::AcquireLeaseRequest&, std::stop_token) = 0;
  virtual Result<v1::GetFactsResponse> GetFacts(const v1::GetFactsRequest&, std::stop_token) = 0;
  virtual Status RunChecks(const v1::RunChecksRequest&, std::stop_token,
                           const OnMessage<v1::RunChecksResponse>&) = 0;
  virtual Result<v1::MeasureLineResponse> MeasureLine(const v1::MeasureLineRequest&, std::stop_token) = 0;
  virtual Result<v1::StartProcessResponse> StartProcess(const v1::StartProcessRequest&, std::stop_token) = 0;
  virtual Status WatchProcesses(const v1::WatchProcessesRequest&, std::stop_token,
                                const OnMessage<v1::WatchProcessesResponse>&) = 0;
  virtual Result<v1::StopProcessResponse> StopProcess(const v1::StopProcessRequest&, std::stop_token) = 0;
  virtual Status StreamLogs(const v1::StreamLogsRequest&, std::stop_token,
                            const OnMessage<v1::StreamLogsResponse>&) = 0;
  virtual Result<v1::StartSamplingResponse> StartSampling(const v1::StartSamplingRequest&,
                                                          std::stop_token) = 0;
  virtual Status StreamSamples(const v1::StreamSamplesRequest&, std::stop_token,
                               const OnMessage<v1::StreamSamplesResponse>&) = 0;
  virtual Result<v1::StopSamplingResponse> StopSampling(const v1::StopSamplingRequest&, std::stop_token) = 0;
  virtual Result<v1::ProbeResponse> Probe(const v1::ProbeRequest&, std::stop_token) = 0;
  virtual Result<v1::ResetCachesResponse> ResetCaches(const v1::ResetCachesRequest&, std::stop_token) = 0;
  virtual Status Teardown(const v1::TeardownRequest&, std::stop_token,
                          const OnMessage<v1::TeardownResponse>&) = 0;
  virtual Status FetchFile(const v1::FetchFileRequest&, std::stop_token,
                           const OnMessage<v1::FetchFileResponse>&) = 0;
  virtual Result<v1::ListFilesResponse> ListFiles(const v1::ListFilesRequest&, std::stop_token) = 0;
};

using AgentLinkPtr = std::shared_ptr<AgentLink>;
// Makes the link to the agent of `machine` at `address` (host:port).
using LinkFactory = std::function<AgentLinkPtr(const std::string& machine, const std::string& address)>;

}  // namespace poolmark::controller
