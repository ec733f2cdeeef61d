// AgentLink over gRPC. Unary calls are retried while the agent is UNAVAILABLE, within their deadline: every
// mutating call has a request id, so a repeated one has one effect.
#pragma once
#include <memory>

#include "controller/machines/agent_link.h"

namespace grpc {
class ChannelInterface;
}

namespace poolmark::controller {

AgentLinkPtr MakeGrpcAgentLink(std::shared_ptr<grpc::ChannelInterface> channel);

}  // namespace poolmark::controller
