// How full an engine's own cache was over the window and how much it holds, from the samples of its machine.
// Pure.
#pragma once
#include <string>
#include <vector>

#include "common/results/plan_file.h"
#include "common/results/repeat_file.h"
#include "common/results/samples.h"

namespace poolmark::results {

// One for every engine, whatever could be read of it. A note says where usage was read for a part of the
// window only.
CacheFacts CacheFactsOf(const SampleLog& log, const PlanProcess& process, Nanoseconds from, Nanoseconds to,
                        std::vector<std::string>* notes);
CacheFacts UnreadCache(const PlanProcess& process, const std::string& why);

}  // namespace poolmark::results
