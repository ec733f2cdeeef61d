#include "common/rpc/channel.h"

#include <grpcpp/create_channel.h>

#include "common/rpc/tls.h"

namespace poolmark::rpc {

std::shared_ptr<grpc::Channel> MakeChannel(const std::string& address, const std::string& server_name,
                                           const std::shared_ptr<grpc::ChannelCredentials>& credentials) {
  grpc::ChannelArguments arguments;
  arguments.SetSslTargetNameOverride(server_name);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, 20'000);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 10'000);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  arguments.SetInt(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 500);
  // Despite its name also the least time that one attempt to connect gets, handshake included: a controller
  // to which a thousand agents return at once needs seconds for it.
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, 10'000);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 10'000);
  arguments.SetInt(GRPC_ARG_MAX_METADATA_SIZE, 1 << 20);  // errors of a whole spec come as details
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL,
                   1);  // two identities to one address never share a connection
  arguments.SetMaxReceiveMessageSize(4 << 20);
  arguments.SetMaxSendMessageSize(4 << 20);
  return grpc::CreateCustomChannel(address, credentials, arguments);
}

Result<std::shared_ptr<grpc::Channel>> MakeChannel(const ChannelOptions& options, const Clock& clock) {
  POOLMARK_ASSIGN_OR_RETURN(auto credentials, MakeChannelCredentials(options.identity_dir, clock));
  return MakeChannel(options.address, options.server_name, credentials);
}

}  // namespace poolmark::rpc
