#include "common/rpc/server.h"

#include <grpcpp/health_check_service_interface.h>
#include <grpcpp/resource_quota.h>
#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>
#include <sys/resource.h>

#include <algorithm>
#include <atomic>
#include <mutex>

#include "absl/strings/str_cat.h"
#include "common/base/log.h"
#include "common/rpc/acceptor.h"
#include "common/rpc/address.h"
#include "common/rpc/guard_call.h"
#include "common/rpc/streams.h"
#include "common/rpc/tls.h"

namespace poolmark::rpc {
namespace {

void ConfigureLimits(grpc::ServerBuilder* builder, const ServerOptions& options) {
  builder->SetMaxReceiveMessageSize(4 << 20);
  builder->SetMaxSendMessageSize(4 << 20);
  builder->AddChannelArgument(GRPC_ARG_MAX_METADATA_SIZE, 16 << 10);
  builder->AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, 100);
  builder->AddChannelArgument(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS,
                              static_cast<int>(options.handshake_timeout.count()));
  builder->AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, 20'000);
  builder->AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 10'000);
  builder->AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  builder->AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, 10'000);
  builder->AddChannelArgument(GRPC_ARG_HTTP2_MAX_PING_STRIKES, 5);
  builder->AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  builder->AddChannelArgument(GRPC_ARG_MAX_CONNECTION_AGE_MS,
                              static_cast<int>(options.connection_age.count()));
  grpc::ResourceQuota quota("poolmark");
  quota.SetMaxThreads(static_cast<int>(options.max_sync_threads));
  builder->SetResourceQuota(quota);
  builder->SetSyncServerOption(grpc::ServerBuilder::SyncServerOption::MIN_POLLERS, 1);
  builder->SetSyncServerOption(grpc::ServerBuilder::SyncServerOption::MAX_POLLERS, 2);
}

// What the caps of this process's servers add up to: several share its descriptors.
std::atomic<size_t> promised_connections{0};

// Connections that leave enough descriptors for everything else the process opens, other servers included:
// where they are scarce a server gets half of what is left, so that a later one gets some too.
size_t FittingConnections(size_t wanted) {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return wanted;
  const size_t budget = limit.rlim_cur > 512 ? limit.rlim_cur - 256 : limit.rlim_cur / 2;
  const size_t promised = promised_connections;
  const size_t fitting = std::max<size_t>(budget > promised ? (budget - promised) / 2 : 0, 4);
  if (fitting >= wanted) return wanted;
  Log(LogLevel::kWarning, "rpc.few_descriptors",
      {{"limit", limit.rlim_cur}, {"connections", fitting}, {"hint", "raise LimitNOFILE to 65536"}});
  return fitting;
}

}  // namespace

struct Server::State {
  ServerOptions options;
  std::string address;
  std::shared_ptr<CallCounts> calls = std::make_shared<CallCounts>();
  std::unique_ptr<Acceptor> acceptor;
  std::unique_ptr<grpc::experimental::ExternalConnectionAcceptor> gateway;
  std::unique_ptr<grpc::Server> server;
  std::once_flag shut;
  size_t promised = 0;
  ~State() { promised_connections -= promised; }
};

Server::Server() : state_(std::make_unique<State>()) {}
Server::~Server() {
  Shutdown(std::chrono::seconds(1));
}

Result<std::unique_ptr<Server>> Server::Start(const ServerOptions& options,
                                              const std::vector<Served>& services, const Clock& clock) {
  POOLMARK_ASSIGN_OR_RETURN(HostPort listen, ParseHostPort(options.address));
  if (IsAnyAddress(listen.host) && !options.allow_any_address) {
    return InvalidInput(options.address, "listening on every address of the machine must be asked for",
                        absl::StrCat("name one address, or ", options.how_to_allow_any));
  }
  std::unique_ptr<Server> server(new Server());
  State& state = *server->state_;
  state.options = options;
  Acceptor::Limits limits;
  limits.total = FittingConnections(options.max_connections);
  promised_connections += state.promised = limits.total;
  limits.per_source = options.max_connections_per_source;
  limits.pending = options.max_pending;
  POOLMARK_ASSIGN_OR_RETURN(state.acceptor, Acceptor::Listen(listen.host, listen.port, limits));
  state.address = FormatHostPort(listen.host, state.acceptor->port());
  POOLMARK_ASSIGN_OR_RETURN(
      auto credentials,
      MakeServerCredentials(options.identity_dir, options.clients_have_certificates, clock));
  credentials->SetAuthMetadataProcessor(
      std::make_shared<CallChecker>(options.cluster, options.clients_have_certificates, options.is_revoked,
                                    state.calls, options.audit, clock));

  grpc::EnableDefaultHealthCheckService(true);
  grpc::ServerBuilder builder;
  ConfigureLimits(&builder, options);
  state.gateway = builder.experimental().AddExternalConnectionAcceptor(
      grpc::ServerBuilder::experimental_type::ExternalConnectionType::FROM_FD, credentials);
  std::vector<std::unique_ptr<grpc::experimental::ServerInterceptorFactoryInterface>> interceptors;
  interceptors.push_back(MakeCallInterceptor(
      [acceptor = state.acceptor.get()](const std::string& peer) { acceptor->Seen(peer); }, options.audit));
  builder.experimental().SetInterceptorCreators(std::move(interceptors));
  for (const Served& served : services) builder.RegisterService(served.service);
  state.server = builder.BuildAndStart();
  if (!state.server) return Internal(options.address, "gRPC did not start its server");
  if (auto* health = state.server->GetHealthCheckService()) {
    for (const Served& served : services) {
      if (!served.name.empty()) health->SetServingStatus(served.name, true);
    }
  }
  state.acceptor->Start([gateway = state.gateway.get()](int fd) {
    grpc::experimental::ExternalConnectionAcceptor::NewConnectionParameters parameters;
    parameters.fd = fd;
    gateway->HandleNewConnection(&parameters);
  });
  Log(LogLevel::kInfo, "rpc.listening", {{"address", state.address}});
  return server;
}

const std::string& Server::address() const {
  return state_->address;
}
int Server::port() const {
  return state_->acceptor->port();
}

ServerCounts Server::counts() const {
  Acceptor::Counts accepted = state_->acceptor->counts();
  return {accepted.accepted,
          accepted.refused_full,
          accepted.evicted_pending,
          accepted.out_of_descriptors,
          state_->calls->calls,
          state_->calls->denied,
          accepted.live};
}

void Server::SetServing(bool serving) {
  if (auto* health = state_->server->GetHealthCheckService()) health->SetServingStatus(serving);
}

void Server::Shutdown(std::chrono::milliseconds grace) {
  if (!state_->server) return;
  std::call_once(state_->shut, [&] {
    SetServing(false);
    // First the acceptor: a socket handed over after gRPC's shutdown would stay open until the process ends.
    state_->acceptor->Stop();
    if (state_->options.streams != nullptr) {
      state_->options.streams->CloseAll(false);
      state_->options.streams->WaitNone(grace / 2);
      state_->options.streams->CloseAll(true);
    }
    state_->server->Shutdown(std::chrono::system_clock::now() + grace);
    state_->server->Wait();
  });
}

}  // namespace poolmark::rpc
