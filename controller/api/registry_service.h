// AgentRegistryService: agents register and beat. Both calls are short and touch the disk only when something
// durable changes, so a few threads carry a thousand agents. Thread-safe.
#pragma once
#include "controller/runner/manager.h"
#include "poolmark/v1/controller.grpc.pb.h"

namespace poolmark::controller {

class AgentRegistryServiceImpl final : public v1::AgentRegistryService::Service {
 public:
  // Both must outlive this.
  explicit AgentRegistryServiceImpl(JobManager* jobs) : jobs_(*jobs) {}
  grpc::Status Register(grpc::ServerContext*, const v1::RegisterRequest*, v1::RegisterResponse*) override;
  grpc::Status Heartbeat(grpc::ServerContext*, const v1::HeartbeatRequest*, v1::HeartbeatResponse*) override;

 private:
  JobManager& jobs_;
};

}  // namespace poolmark::controller
