// The errors behind a status apart again, where ToStatus(Errors) made one of several. Pure, thread-safe.
#pragma once
#include "common/base/result.h"

namespace poolmark {

// None for OK; of a status that holds one error, or a foreign one, that one.
Errors SplitErrors(const Status& status);

}  // namespace poolmark
