// `poolmark compare DIR DIR…`: results of several jobs against the first.
#pragma once

namespace CLI {
class App;
}

namespace poolmark::cli {

void AddCompare(CLI::App& app, int& exit_code);

}  // namespace poolmark::cli
