#include "cli/output/exit_code.h"

namespace poolmark::cli {

int ExitCodeOf(const Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kOk:
      return kExitOk;
    case absl::StatusCode::kInvalidArgument:
      return kExitUsage;
    case absl::StatusCode::kPermissionDenied:
    case absl::StatusCode::kUnauthenticated:
      return kExitPermission;
    case absl::StatusCode::kInternal:
    case absl::StatusCode::kDataLoss:
      return kExitOurFault;
    default:
      return kExitFailed;
  }
}

}  // namespace poolmark::cli
