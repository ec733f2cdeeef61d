// The client's side of a connection: a channel to a named party, and unary calls over it. The party is known
// by its certificate, not by its address. Streams: streams.h. Channels are thread-safe.
#pragma once
#include <grpcpp/channel.h>
#include <grpcpp/client_context.h>
#include <grpcpp/security/credentials.h>

#include <chrono>
#include <memory>
#include <stop_token>
#include <string>

#include "common/base/clock.h"
#include "common/base/result.h"
#include "common/rpc/rules.h"
#include "common/rpc/status.h"

namespace poolmark::rpc {

struct ChannelOptions {
  std::string address;  // "10.0.0.1:7443", "[::1]:7443", "head.lab:7443"
  std::string
      server_name;  // who must answer: ServerName(Role::kController, ""), ServerName(Role::kAgent, "n1")
  std::string identity_dir;  // of the caller (tls.h)
};
// Does not connect yet. Reconnects by itself, at most every 10 s; pings every 20 s, so that a dead link is
// noticed within 30 s; messages up to 4 MiB.
Result<std::shared_ptr<grpc::Channel>> MakeChannel(const ChannelOptions& options,
                                                   const Clock& clock = RealClock());
// For credentials of another kind (enrolment, tests).
std::shared_ptr<grpc::Channel> MakeChannel(const std::string& address, const std::string& server_name,
                                           const std::shared_ptr<grpc::ChannelCredentials>& credentials);

inline void SetDeadline(grpc::ClientContext* context, std::chrono::nanoseconds deadline) {
  if (deadline.count() <= 0) return;
  context->set_deadline(std::chrono::system_clock::now() +
                        std::chrono::duration_cast<std::chrono::system_clock::duration>(deadline));
}

// One unary call. `stop` cancels it. A failure carries the server's errors (status.h).
//   POOLMARK_ASSIGN_OR_RETURN(auto reply, rpc::Call(*stub, &v1::ControllerService::Stub::GetJob, request,
//                                                   rpc::Deadline("ControllerService/GetJob")));
template <class Stub, class Request, class Response>
Result<Response> Call(Stub& stub,
                      grpc::Status (Stub::*method)(grpc::ClientContext*, const Request&, Response*),
                      const Request& request, std::chrono::nanoseconds deadline, std::stop_token stop = {}) {
  grpc::ClientContext context;
  SetDeadline(&context, deadline);
  std::stop_callback cancel(stop, [&context] { context.TryCancel(); });
  Response response;
  grpc::Status status = (stub.*method)(&context, request, &response);
  if (!status.ok()) return FromGrpc(status);
  return response;
}

}  // namespace poolmark::rpc
