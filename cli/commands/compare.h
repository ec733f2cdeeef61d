// `poolmark compare DIR DIR…`: results of several jobs against the first.
#pragma once
#include "common/report/compare.h"

namespace CLI {
class App;
}

namespace poolmark::cli {

// What a comparison ends with; as a gate (`fail_on_worse`) only where all was compared and nothing is worse
// with success.
int ExitCodeOf(const report::JobComparison& comparison, bool fail_on_worse);

void AddCompare(CLI::App& app, int& exit_code);

}  // namespace poolmark::cli
