#include "controller/api/registry_service.h"

#include "common/rpc/identity.h"
#include "common/rpc/status.h"

namespace poolmark::controller {

grpc::Status AgentRegistryServiceImpl::Register(grpc::ServerContext* context,
                                                const v1::RegisterRequest* request,
                                                v1::RegisterResponse* response) {
  auto answer = [&]() -> Status {
    POOLMARK_ASSIGN_OR_RETURN(rpc::Identity caller, rpc::CallerOf(*context));
    POOLMARK_RETURN_IF_ERROR(rpc::MayActAsMachine(caller, request->machine()));
    POOLMARK_ASSIGN_OR_RETURN(*response, jobs_.environment().registry->Register(*request));
    jobs_.Wake();
    return absl::OkStatus();
  };
  return rpc::ToGrpc(answer());
}

grpc::Status AgentRegistryServiceImpl::Heartbeat(grpc::ServerContext* context,
                                                 const v1::HeartbeatRequest* request,
                                                 v1::HeartbeatResponse* response) {
  const int64_t received = jobs_.environment().clock->Wall().count();  // t2 before anything else
  auto answer = [&]() -> Status {
    POOLMARK_ASSIGN_OR_RETURN(rpc::Identity caller, rpc::CallerOf(*context));
    POOLMARK_RETURN_IF_ERROR(rpc::MayActAsMachine(caller, request->machine()));
    POOLMARK_ASSIGN_OR_RETURN(*response, jobs_.environment().registry->Heartbeat(*request, received));
    return absl::OkStatus();
  };
  return rpc::ToGrpc(answer());
}

}  // namespace poolmark::controller
