// Between our Status and gRPC's: the structured errors travel in the status details (ErrorDetail), so that
// code, place and hint reach the client. Pure functions.
#pragma once
#include <grpcpp/support/status.h>

#include "common/base/result.h"

namespace poolmark::rpc {

grpc::Status ToGrpc(const Status& status);
// All errors of an input at once, as INVALID_ARGUMENT (of several) or the kind of the only one.
grpc::Status ToGrpc(const Errors& errors);

// The message has a line for each error; ErrorsOf gives them back apart.
Status FromGrpc(const grpc::Status& status);
// The errors behind a status that came over the wire, or the one of a local status. Empty when OK.
Errors ErrorsOf(const Status& status);

}  // namespace poolmark::rpc
