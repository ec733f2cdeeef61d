#include "cli/remote/session.h"

#include <cstdlib>

#include "absl/strings/str_cat.h"
#include "cli/output/exit_code.h"
#include "common/base/log.h"
#include "common/rpc/renewal.h"

namespace poolmark::cli {
namespace {

std::string FromEnvironment(const std::string& given, const char* name) {
  if (!given.empty()) return given;
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

}  // namespace

Result<rpc::CliContext> ContextOf(const RemoteOptions& options) {
  POOLMARK_ASSIGN_OR_RETURN(auto store, rpc::ContextStore::Load(rpc::ContextStore::DefaultDir()));
  POOLMARK_ASSIGN_OR_RETURN(rpc::CliContext context,
                            store.Find(FromEnvironment(options.context, "POOLMARK_CONTEXT")));
  const std::string address = FromEnvironment(options.controller, "POOLMARK_CONTROLLER");
  if (!address.empty()) context.controller = address;
  return context;
}

bool HasNoLogin(const RemoteOptions& options) {
  if (!FromEnvironment(options.context, "POOLMARK_CONTEXT").empty()) return false;
  const auto store = rpc::ContextStore::Load(rpc::ContextStore::DefaultDir());
  return store.ok() && store->All().empty();
}

Result<std::unique_ptr<Session>> Session::Open(const RemoteOptions& options) {
  std::unique_ptr<Session> session(new Session());
  session->format_ = options.format();
  POOLMARK_ASSIGN_OR_RETURN(session->context_, ContextOf(options));
  POOLMARK_ASSIGN_OR_RETURN(session->channel_, rpc::MakeChannel({session->context_.controller,
                                                                 rpc::ServerName(rpc::Role::kController, ""),
                                                                 session->context_.identity_dir}));
  session->stub_ = v1::ControllerService::NewStub(session->channel_);
  auto renewed =
      rpc::RenewIfDue(session->context_.identity_dir, RealClock(), rpc::RenewOver(session->channel_));
  if (!renewed.ok() && !IsTransient(renewed.status())) {
    Log(LogLevel::kWarning, "certificate.renewal_failed", {{"why", std::string(renewed.status().message())}});
  }
  return session;
}

Status WithAdvice(const Status& status, const rpc::CliContext& context) {
  if (!IsTransient(status)) return status;
  Error error = ErrorOf(status);
  error.where = absl::StrCat("controller ", context.controller);
  error.hint = "is it running, and does the address still hold? try 'poolmark doctor'";
  return ToStatus(error);
}

int Fail(const Status& status, Format format) {
  WriteErr(ErrorText(rpc::ErrorsOf(status), format));
  return ExitCodeOf(status);
}

bool IsTransient(const Status& status) {
  // CANCELLED is what calls caught in a server's shutdown get (grpc#41785).
  return status.code() == absl::StatusCode::kUnavailable || status.code() == absl::StatusCode::kCancelled ||
         status.code() == absl::StatusCode::kDeadlineExceeded;
}

}  // namespace poolmark::cli
