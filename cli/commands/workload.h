// `poolmark workload inspect FILE` and `poolmark workload generate`: what can be known of a workload without
// an engine.
#pragma once

namespace CLI {
class App;
}

namespace poolmark::cli {

void AddWorkload(CLI::App& app, int& exit_code);

}  // namespace poolmark::cli
