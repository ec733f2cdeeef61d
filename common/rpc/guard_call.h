// What happens before a handler runs: the caller's certificate and role are checked on every call of a
// server. For server.cpp only.
#pragma once
#include <grpcpp/security/auth_metadata_processor.h>
#include <grpcpp/support/server_interceptor.h>

#include <atomic>
#include <functional>
#include <memory>
#include <string>

#include "common/rpc/audit.h"
#include "common/rpc/identity.h"
#include "common/rpc/rate_limit.h"

namespace poolmark::rpc {

struct CallCounts {
  std::atomic<uint64_t> calls{0};
  std::atomic<uint64_t> denied{0};
};

// gRPC runs it for every call of a connection, known method or not, before anything else.
class CallChecker final : public grpc::AuthMetadataProcessor {
 public:
  CallChecker(std::string cluster, bool clients_have_certificates,
              std::function<bool(const Identity&)> is_revoked, std::shared_ptr<CallCounts> counts,
              std::shared_ptr<AuditLog> audit, const Clock& clock);
  bool IsBlocking() const override { return false; }
  grpc::Status Process(const InputMetadata& metadata, grpc::AuthContext* context, OutputMetadata* consumed,
                       OutputMetadata* response) override;

 private:
  Status Check(const std::string& path, const grpc::AuthContext& context);
  // A controller's own calls to its agents are not counted.
  Status CheckRate(const std::string& path, const Identity& caller);

  const std::string cluster_;
  const bool clients_have_certificates_;
  const std::function<bool(const Identity&)> is_revoked_;
  const std::shared_ptr<CallCounts> counts_;
  const std::shared_ptr<AuditLog> audit_;  // may be null
  const Clock& clock_;
  RateLimiter calls_{Rate{50, 500}};
  RateLimiter submissions_{Rate{1, 30}};
};

// Tells `seen` the peer ("ipv4:127.0.0.1:4711") of each call that passed: its connection is no longer
// pending. Writes each audited call with its result into `audit` (may be null).
std::unique_ptr<grpc::experimental::ServerInterceptorFactoryInterface> MakeCallInterceptor(
    std::function<void(const std::string& peer)> seen, std::shared_ptr<AuditLog> audit);

}  // namespace poolmark::rpc
