// Who asked for a job's end: told in its events when they ask, and in its reasons when it ends, which may be
// after a restart of the controller.
#pragma once
#include <string>

#include "controller/jobs/store.h"

namespace poolmark::controller {

// The message of the event.
std::string CancelMessage(bool force, const std::string& who);
// Of the first who asked, by the job's events; "": they do not say.
std::string WhoCancelled(Store& store, const std::string& job_id);
v1::Reason CancelledReason(const std::string& who);

}  // namespace poolmark::controller
