// A command's connection to a controller: which context, which identity, in which form to answer.
// Not thread-safe; the stub is.
#pragma once
#include <memory>
#include <string>

#include "cli/output/table.h"
#include "common/base/result.h"
#include "common/rpc/channel.h"
#include "common/rpc/contexts.h"
#include "poolmark/v1/controller.grpc.pb.h"

namespace poolmark::cli {

// What every command that talks to a controller takes.
struct RemoteOptions {
  std::string context;     // --context, or POOLMARK_CONTEXT; empty: the current one
  std::string controller;  // --controller, or POOLMARK_CONTROLLER: another address than the context's
  std::string output = "table";
  Format format() const { return FormatOf(output); }
};

// The cluster that is meant, with the address to use.
Result<rpc::CliContext> ContextOf(const RemoteOptions& options);
// Nobody has logged in here, and no cluster is named.
bool HasNoLogin(const RemoteOptions& options);

class Session {
 public:
  // Loads the context and renews its certificate when two thirds of its life have passed. Does not wait for
  // the controller.
  static Result<std::unique_ptr<Session>> Open(const RemoteOptions& options);

  v1::ControllerService::Stub& stub() { return *stub_; }
  const rpc::CliContext& context() const { return context_; }
  Format format() const { return format_; }
  std::shared_ptr<grpc::Channel> channel() { return channel_; }

 private:
  Session() = default;
  rpc::CliContext context_;
  Format format_ = Format::kTable;
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<v1::ControllerService::Stub> stub_;
};

// Prints the failure in the command's form and gives its exit code.
int Fail(const Status& status, Format format);
// The same failure with what the user can do about a controller that does not answer.
Status WithAdvice(const Status& status, const rpc::CliContext& context);
// Worth another try of the same call: the controller is away or restarting.
bool IsTransient(const Status& status);

}  // namespace poolmark::cli
