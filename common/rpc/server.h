// One gRPC server of ours: TLS from an identity directory, every call checked against rules.h before its
// handler runs, limits, the health service, and an end that does not hang. The daemons make one for each
// listener.
//
//   rpc::Streams streams;                                   // first: services need it, and it must outlive
//   the server MyService service(streams, ...); rpc::ServerOptions options{.address = "127.0.0.1:7443",
//   .identity_dir = state + "/tls", .streams = &streams}; POOLMARK_ASSIGN_OR_RETURN(auto server,
//   rpc::Server::Start(options, {&service}));
//   ... server->address() ...
//   server->Shutdown(5s);
// Unary handlers may use the synchronous API; streams use streams.h. Thread-safe.
#pragma once
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "common/base/clock.h"
#include "common/base/result.h"
#include "common/rpc/identity.h"

namespace grpc {
class Service;
}

namespace poolmark::rpc {

class AuditLog;
class Streams;

struct ServerOptions {
  std::string address;             // "127.0.0.1:7443", "[::1]:0"; port 0: chosen by the system
  bool allow_any_address = false;  // 0.0.0.0 and :: are refused without it
  std::string how_to_allow_any = "set allow_any_address";  // of this program, for the refusal
  std::string identity_dir;                                // tls.h
  // False for the enrolment listener only: callers have no certificate yet, and only RPCs open to anyone are
  // served.
  bool clients_have_certificates = true;
  Streams* streams = nullptr;  // closed by Shutdown; may be null when no service streams
  // Asked on every call, must be quick: true for a certificate that was withdrawn.
  std::function<bool(const Identity&)> is_revoked;
  // Each call that changes something, and each denied one; several servers may share one. May be null.
  std::shared_ptr<AuditLog> audit;
  std::string cluster;                       // callers of another cluster are refused; empty: not checked
  size_t max_sync_threads = 32;              // for unary handlers
  size_t max_connections = 4096;             // well below the limit of open files
  size_t max_connections_per_source = 2048;  // loopback excepted
  size_t max_pending = 1024;                 // connections that have made no call yet
  std::chrono::milliseconds handshake_timeout{10'000};
  // A certificate is looked at when a connection is made: after this time gRPC asks for a new one, made with
  // what the party has by then. Calls and streams that run are not ended. Far below the time for which a
  // renewed certificate overlaps with the one before (renewal.h).
  std::chrono::milliseconds connection_age{30 * 60 * 1000};
};

// What a server has seen since it started, for /metrics and tests.
struct ServerCounts {
  uint64_t accepted = 0;
  uint64_t refused_full = 0;     // over a cap
  uint64_t evicted_pending = 0;  // to make room for others
  uint64_t out_of_descriptors = 0;
  uint64_t calls = 0;
  uint64_t denied = 0;
  size_t live = 0;
};

// A service, and the full name by which the health service answers for it ("poolmark.v1.AgentService", as
// v1::AgentService::service_full_name() says); without one only the server as a whole is asked for.
struct Served {
  Served(grpc::Service* what, std::string full_name = "") : service(what), name(std::move(full_name)) {}
  grpc::Service* service;
  std::string name;
};

class Server {
 public:
  static Result<std::unique_ptr<Server>> Start(const ServerOptions& options,
                                               const std::vector<Served>& services,
                                               const Clock& clock = RealClock());
  // Shutdown(1 s), if it was not called.
  ~Server();
  // With the real port.
  const std::string& address() const;
  int port() const;
  ServerCounts counts() const;
  // Health, of the server and of each named service: NOT_SERVING keeps clients away while it goes on
  // answering.
  void SetServing(bool serving);
  // Stops accepting, finishes the streams, lets calls end within `grace`, cancels the rest. Returns when all
  // is over.
  void Shutdown(std::chrono::milliseconds grace);

 private:
  Server();
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace poolmark::rpc
