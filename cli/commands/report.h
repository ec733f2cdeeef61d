// `poolmark report DIR`: summary, verdict and page computed again from the files of a results directory.
#pragma once

namespace CLI {
class App;
}

namespace poolmark::cli {

void AddReport(CLI::App& app, int& exit_code);

}  // namespace poolmark::cli
