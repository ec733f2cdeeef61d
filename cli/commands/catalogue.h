// `poolmark catalogue list | confirm`: the series that results rest on, and live evidence for a version of
// one's own (decision M14).
#pragma once
#include <string>

namespace CLI {
class App;
}

namespace poolmark::cli {

// $POOLMARK_CATALOGUE, else the installed one.
std::string DefaultCatalogue();

void AddCatalogue(CLI::App& app, int& exit_code);

}  // namespace poolmark::cli
