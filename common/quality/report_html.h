// The report page of a results directory: one HTML file without outside references. Pure, thread-safe.
#pragma once
#include <string>

#include "common/quality/analyze.h"
#include "common/quality/directory.h"

namespace poolmark::quality {

// Verdict, deltas with intervals, reuse over the windows, losses by tag, kind and position, and the lost
// questions with both answers. Everything from model or data set is escaped.
std::string ReportHtml(const LoadedDirectory& directory, const Analysis& analysis);

}  // namespace poolmark::quality
