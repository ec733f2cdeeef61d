#include "controller/machines/grpc_agent_link.h"

#include <grpcpp/client_context.h>

#include <algorithm>
#include <condition_variable>
#include <mutex>

#include "common/rpc/rules.h"
#include "common/rpc/status.h"
#include "poolmark/v1/agent.grpc.pb.h"

namespace poolmark::controller {
namespace {

using Stub = v1::AgentService::StubInterface;
using std::chrono::system_clock;

// A connection that breaks for a moment is no agent that is away.
constexpr std::chrono::seconds kTryAgainFor{10};

void SetDeadline(grpc::ClientContext* context, std::chrono::seconds deadline) {
  if (deadline.count() > 0) context->set_deadline(system_clock::now() + deadline);
}

// Sleeps unless stopped; false when stopped.
bool Pause(std::stop_token stop, std::chrono::milliseconds time) {
  std::mutex mutex;
  std::condition_variable_any wake;
  std::unique_lock lock(mutex);
  return !wake.wait_for(lock, stop, time, [] { return false; }) && !stop.stop_requested();
}

template <class Request, class Response, class Method>
Result<Response> Unary(Stub* stub, Method method, const Request& request, std::chrono::seconds deadline,
                       std::stop_token stop) {
  const auto end = system_clock::now() + deadline;
  // An agent that was started again may listen elsewhere: the caller then asks the registry for its new link.
  const auto last_try = std::min(end, system_clock::now() + kTryAgainFor);
  std::chrono::milliseconds pause(100);
  for (;;) {
    grpc::ClientContext context;
    context.set_deadline(end);
    Response response;
    std::stop_callback cancel(stop, [&context] { context.TryCancel(); });
    grpc::Status status = (stub->*method)(&context, request, &response);
    if (status.ok()) return response;
    if (status.error_code() != grpc::StatusCode::UNAVAILABLE || system_clock::now() + pause >= last_try) {
      return rpc::FromGrpc(status);
    }
    if (!Pause(stop, pause)) return rpc::FromGrpc(status);
    pause = std::min(pause * 2, std::chrono::milliseconds(2000));
  }
}

template <class Request, class Response, class Method>
Status Streaming(Stub* stub, Method method, const Request& request, std::chrono::seconds deadline,
                 std::stop_token stop, const OnMessage<Response>& on_message) {
  grpc::ClientContext context;
  SetDeadline(&context, deadline);
  std::stop_callback cancel(stop, [&context] { context.TryCancel(); });
  auto reader = (stub->*method)(&context, request);
  Response response;
  bool ended_early = false;
  while (reader->Read(&response)) {
    if (!on_message(response)) {
      ended_early = true;
      context.TryCancel();
      break;
    }
  }
  grpc::Status status = reader->Finish();
  if (ended_early) return absl::OkStatus();
  return rpc::FromGrpc(status);
}

class GrpcAgentLink final : public AgentLink {
 public:
  explicit GrpcAgentLink(std::shared_ptr<grpc::ChannelInterface> channel)
      : stub_(v1::AgentService::NewStub(channel)) {}

#define POOLMARK_UNARY(Name)                                                                         \
  Result<v1::Name##Response> Name(const v1::Name##Request& request, std::stop_token stop) override { \
    return Unary<v1::Name##Request, v1::Name##Response>(                                             \
        stub_.get(), &Stub::Name, request, rpc::Deadline("AgentService/" #Name), std::move(stop));   \
  }
#define POOLMARK_STREAM(Name)                                                                     \
  Status Name(const v1::Name##Request& request, std::stop_token stop,                             \
              const OnMessage<v1::Name##Response>& on_message) override {                         \
    return Streaming<v1::Name##Request, v1::Name##Response>(stub_.get(), &Stub::Name, request,    \
                                                            rpc::Deadline("AgentService/" #Name), \
                                                            std::move(stop), on_message);         \
  }
  POOLMARK_UNARY(AcquireLease)
  POOLMARK_UNARY(GetFacts)
  POOLMARK_STREAM(RunChecks)
  POOLMARK_UNARY(MeasureLine)
  POOLMARK_UNARY(StartProcess)
  POOLMARK_STREAM(WatchProcesses)
  POOLMARK_UNARY(StopProcess)
  POOLMARK_STREAM(StreamLogs)
  POOLMARK_UNARY(StartSampling)
  POOLMARK_STREAM(StreamSamples)
  POOLMARK_UNARY(StopSampling)
  POOLMARK_UNARY(Probe)
  POOLMARK_UNARY(ResetCaches)
  POOLMARK_STREAM(Teardown)
  POOLMARK_STREAM(FetchFile)
  POOLMARK_UNARY(ListFiles)
#undef POOLMARK_UNARY
#undef POOLMARK_STREAM

 private:
  std::unique_ptr<v1::AgentService::Stub> stub_;
};

}  // namespace

AgentLinkPtr MakeGrpcAgentLink(std::shared_ptr<grpc::ChannelInterface> channel) {
  return std::make_shared<GrpcAgentLink>(std::move(channel));
}

}  // namespace poolmark::controller
