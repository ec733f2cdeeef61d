// `poolmark load`: the load generator at the command line.
#pragma once

namespace CLI {
class App;
}

namespace poolmark::cli {

// Registers the command; its callback runs the load and sets `exit_code`: 0 done, 1 failed, 2 wrong use,
// 130 interrupted (with a complete record file).
void AddLoad(CLI::App& app, int& exit_code);

}  // namespace poolmark::cli
