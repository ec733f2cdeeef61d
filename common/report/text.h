// The report for terminals and programs. Pure.
#pragma once
#include <string>

#include "common/report/recompute.h"

namespace poolmark::report {

std::string ReportText(const Recomputed& job);
// {"summary": …, "problems": […], "differences": […]}.
Result<std::string> ReportJson(const Recomputed& job);

}  // namespace poolmark::report
