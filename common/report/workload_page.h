// The picture of `poolmark workload inspect --html`: reuse by cache size, and what the text says. Pure.
#pragma once
#include <string>

#include "common/workload/inspect.h"

namespace poolmark::report {

std::string WorkloadPage(const workload::Inspection& inspection);

}  // namespace poolmark::report
