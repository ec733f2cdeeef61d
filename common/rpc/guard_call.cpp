#include "common/rpc/guard_call.h"

#include <grpcpp/server_context.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/log.h"
#include "common/rpc/audit_arguments.h"
#include "common/rpc/rules.h"
#include "common/rpc/status.h"

namespace poolmark::rpc {
namespace {

std::string Who(const Identity& caller) {
  return RoleName(caller.role) + " " + caller.name;
}

// "/poolmark.v1.ControllerService/GetJob" -> "ControllerService/GetJob"
std::string ShortName(const std::string& path) {
  size_t package = path.find("v1.");
  return package == std::string::npos ? path : path.substr(package + 3);
}

std::string ResultText(const Status& status) {
  return status.ok() ? "ok" : std::string(status.ToString(absl::StatusToStringMode::kWithNoExtraData));
}

class CallInterceptor final : public grpc::experimental::Interceptor {
 public:
  CallInterceptor(grpc::ServerContextBase* context, const char* method,
                  const std::function<void(const std::string&)>* seen, AuditLog* audit)
      : context_(context), method_(method), seen_(seen), audit_(audit) {}
  void Intercept(grpc::experimental::InterceptorBatchMethods* methods) override {
    using grpc::experimental::InterceptionHookPoints;
    if (methods->QueryInterceptionHookPoint(InterceptionHookPoints::POST_RECV_INITIAL_METADATA))
      (*seen_)(context_->peer());
    if (audit_ != nullptr && methods->QueryInterceptionHookPoint(InterceptionHookPoints::POST_RECV_MESSAGE) &&
        methods->GetRecvMessage() != nullptr) {
      // Of our own services alone (IsAudited), whose requests all are protobuf messages.
      arguments_ = AuditArguments(*static_cast<const google::protobuf::Message*>(methods->GetRecvMessage()));
    }
    if (audit_ != nullptr && methods->QueryInterceptionHookPoint(InterceptionHookPoints::PRE_SEND_STATUS))
      Audit(methods->GetSendStatus());
    methods->Proceed();
  }

 private:
  void Audit(const grpc::Status& status) const {
    auto caller = CallerOf(*context_);
    AuditEntry entry;
    if (caller.ok()) {
      entry.who = Who(*caller);
      entry.serial = caller->serial;
    }
    entry.peer = context_->peer();
    entry.method = ShortName(method_);
    entry.arguments = arguments_;
    entry.result =
        ResultText(Status(static_cast<absl::StatusCode>(status.error_code()), status.error_message()));
    audit_->Add(entry);
  }

  grpc::ServerContextBase* context_;
  const char* method_;
  const std::function<void(const std::string&)>* seen_;
  AuditLog* audit_;  // null: this call is not audited
  std::vector<std::pair<std::string, std::string>> arguments_;
};

class CallInterceptorFactory final : public grpc::experimental::ServerInterceptorFactoryInterface {
 public:
  CallInterceptorFactory(std::function<void(const std::string&)> seen, std::shared_ptr<AuditLog> audit)
      : seen_(std::move(seen)), audit_(std::move(audit)) {}
  grpc::experimental::Interceptor* CreateServerInterceptor(grpc::experimental::ServerRpcInfo* info) override {
    const char* method = info->method() == nullptr ? "" : info->method();
    return new CallInterceptor(info->server_context(), method, &seen_,
                               IsAudited(method) ? audit_.get() : nullptr);
  }

 private:
  const std::function<void(const std::string&)> seen_;
  const std::shared_ptr<AuditLog> audit_;
};

}  // namespace

CallChecker::CallChecker(std::string cluster, bool clients_have_certificates,
                         std::function<bool(const Identity&)> is_revoked, std::shared_ptr<CallCounts> counts,
                         std::shared_ptr<AuditLog> audit, const Clock& clock)
    : cluster_(std::move(cluster)),
      clients_have_certificates_(clients_have_certificates),
      is_revoked_(std::move(is_revoked)),
      counts_(std::move(counts)),
      audit_(std::move(audit)),
      clock_(clock) {}

Status CallChecker::CheckRate(const std::string& path, const Identity& caller) {
  if (caller.role == Role::kController) return absl::OkStatus();
  const std::string who = Who(caller);
  const Nanoseconds now = RealClock().Steady();
  const bool submits = ShortName(path) == "ControllerService/SubmitJob";
  if (calls_.Take(who, now) && (!submits || submissions_.Take(who, now))) return absl::OkStatus();
  return ToStatus(Error{
      absl::StatusCode::kResourceExhausted, "rate_limited", "",
      absl::StrCat(who, submits ? " submits more than a job a second" : " makes more than 50 calls a second"),
      "slow down and try again"});
}

Status CallChecker::Check(const std::string& path, const grpc::AuthContext& context) {
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
  if (HasExpired(caller, clock_.Wall())) {
    return denied("expired", absl::StrCat("the certificate of '", caller.name, "' has expired"),
                  "connect again if it was renewed; an admin can give a new token");
  }
  POOLMARK_RETURN_IF_ERROR(CheckRate(path, caller));
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
  // What is too much must not fill the logs either.
  if (absl::IsResourceExhausted(status)) return ToGrpc(status);
  Log(LogLevel::kWarning, "rpc.denied", {{"method", path}, {"why", std::string(status.message())}});
  if (audit_ != nullptr) {
    AuditEntry entry;
    auto caller = context == nullptr ? Result<Identity>(status) : IdentityOf(*context);
    if (caller.ok()) {
      entry.who = Who(*caller);
      entry.serial = caller->serial;
    }
    entry.method = ShortName(path);
    entry.result = ResultText(status);
    audit_->Add(entry);
  }
  return ToGrpc(status);
}

std::unique_ptr<grpc::experimental::ServerInterceptorFactoryInterface> MakeCallInterceptor(
    std::function<void(const std::string& peer)> seen, std::shared_ptr<AuditLog> audit) {
  return std::make_unique<CallInterceptorFactory>(std::move(seen), std::move(audit));
}

}  // namespace poolmark::rpc
