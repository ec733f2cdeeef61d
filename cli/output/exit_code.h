// The exit codes of `poolmark`: an interface for scripts, documented in docs/cli.md and never renumbered.
#pragma once
#include "common/base/result.h"

namespace poolmark::cli {

enum ExitCode : int {
  kExitOk = 0,          // done; for a job: succeeded and valid
  kExitFailed = 1,      // connection, I/O, anything else
  kExitUsage = 2,       // wrong use, a refused plan or spec, a file of another version
  kExitJobFailed = 3,   // a check failed, an engine died …
  kExitJobInvalid = 4,  // ended, but a point has no valid repeat; of `compare`: a point is not compared
  kExitCancelled = 5,
  kExitDirty = 6,    // the tear-down left something or could not be proven; outranks the codes above
  kExitTimeout = 7,  // --timeout; the job goes on
  kExitPermission = 8,
  kExitOurFault = 70,  // a defect of this program
  kExitInterrupted = 130,
};

// Of a failure that came back from a call or from this machine.
int ExitCodeOf(const Status& status);

}  // namespace poolmark::cli
