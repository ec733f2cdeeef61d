// How full an engine's own cache was over the window and how much it holds, from the samples of its machine.
// Pure.
#pragma once
#include <string>
#include <vector>

#include "common/results/repeat_file.h"
#include "common/results/samples.h"
#include "controller/steps/plan.h"

namespace poolmark::controller {

// One for every engine, whatever could be read of it. A note says where usage was read for a part of the
// window only.
results::CacheFacts CacheFactsOf(const results::SampleLog& log, const PlannedProcess& process,
                                 Nanoseconds from, Nanoseconds to, std::vector<std::string>* notes);
results::CacheFacts UnreadCache(const PlannedProcess& process, const std::string& why);

}  // namespace poolmark::controller
