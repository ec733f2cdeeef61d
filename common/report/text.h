// The report for terminals and programs. Pure.
#pragma once
#include <string>

#include "common/report/recompute.h"

namespace poolmark::report {

std::string ReportText(const Recomputed& job);
// What to say where no file is damaged and nothing differs; what was not computed again is named.
std::string FollowsText(const Recomputed& job);
// {"summary": …, "problems": […], "differences": […], "checked": […], "unchecked": […]}.
Result<std::string> ReportJson(const Recomputed& job);

}  // namespace poolmark::report
