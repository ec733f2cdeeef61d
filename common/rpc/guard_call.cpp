#include "common/rpc/guard_call.h"

#include <grpcpp/server_context.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/log.h"
#include "common/rpc/rules.h"
#include "common/rpc/status.h"

namespace poolmark::rpc {
namespace {

class PeerInterceptor final : public grpc::experimental::Interceptor {
 public:
  PeerInterceptor(grpc::ServerContextBase* context, const std::function<void(const std::string&)>* seen)
      : context_(context), seen_(seen) {}
  void Intercept(grpc::experimental::InterceptorBatchMethods* methods) override {
    using grpc::experimental::InterceptionHookPoints;
    if (methods->QueryInterceptionHookPoint(InterceptionHookPoints::POST_RECV_INITIAL_METADATA))
      (*seen_)(context_->peer());
    methods->Proceed();
  }

 private:
  grpc::ServerContextBase* context_;
  const std::function<void(const std::string&)>* seen_;
};

class PeerInterceptorFactory final : public grpc::experimental::ServerInterceptorFactoryInterface {
 public:
  explicit PeerInterceptorFactory(std::function<void(const std::string&)> seen) : seen_(std::move(seen)) {}
  grpc::experimental::Interceptor* CreateServerInterceptor(grpc::experimental::ServerRpcInfo* info) override {
    return new PeerInterceptor(info->server_context(), &seen_);
  }

 private:
  const std::function<void(const std::string&)> seen_;
};

}  // namespace

CallChecker::CallChecker(std::string cluster, bool clients_have_certificates,
                         std::function<bool(const Identity&)> is_revoked, std::shared_ptr<CallCounts> counts)
    : cluster_(std::move(cluster)),
      clients_have_certificates_(clients_have_certificates),
      is_revoked_(std::move(is_revoked)),
      counts_(std::move(counts)) {}

Status CallChecker::Check(const std::string& path, const grpc::AuthContext& context) const {
  auto denied = [](std::string code, std::string message, std::string hint) {
    return ToStatus(
        Error{absl::StatusCode::kPermissionDenied, std::move(code), "", std::move(message), std::move(hint)});
  };
  if (!clients_have_certificates_) {
    if (IsOpenToAnyone(path)) return absl::OkStatus();
    return denied("enrolment_only", absl::StrCat(path, " is not served here"), "this listener enrols only");
  }
  POOLMARK_ASSIGN_OR_RETURN(Identity caller, IdentityOf(context));
  if (!cluster_.empty() && caller.cluster != cluster_) {
    return denied("other_cluster",
                  absl::StrCat("the certificate of '", caller.name, "' is of cluster '", caller.cluster,
                               "', this is '", cluster_, "'"),
                  "enrol with a token of this cluster");
  }
  if (is_revoked_ && is_revoked_(caller)) {
    return denied("revoked", absl::StrCat("the certificate of '", caller.name, "' was revoked"),
                  "an admin can give a new token");
  }
  return CheckAllowed(path, caller.role);
}

grpc::Status CallChecker::Process(const InputMetadata& metadata, grpc::AuthContext* context, OutputMetadata*,
                                  OutputMetadata*) {
  counts_->calls.fetch_add(1, std::memory_order_relaxed);
  auto found = metadata.find(":path");
  std::string path = found == metadata.end() ? "" : std::string(found->second.data(), found->second.size());
  Status status =
      context == nullptr ? Internal("", "the call has no security context") : Check(path, *context);
  if (status.ok()) return grpc::Status::OK;
  counts_->denied.fetch_add(1, std::memory_order_relaxed);
  Log(LogLevel::kWarning, "rpc.denied", {{"method", path}, {"why", std::string(status.message())}});
  return ToGrpc(status);
}

std::unique_ptr<grpc::experimental::ServerInterceptorFactoryInterface> MakePeerInterceptor(
    std::function<void(const std::string& peer)> seen) {
  return std::make_unique<PeerInterceptorFactory>(std::move(seen));
}

}  // namespace poolmark::rpc
