// The program `poolmark`. Each command registers itself; its callback sets the exit code.
#include <CLI/CLI.hpp>

#include "cli/commands/compare.h"
#include "cli/commands/load.h"
#include "cli/commands/quality.h"
#include "cli/commands/report.h"
#include "cli/commands/workload.h"
#include "common/base/version.h"

int main(int argc, char** argv) {
  CLI::App app("Measures what a distributed KV cache is worth on your machines.", "poolmark");
  app.set_version_flag("--version", std::string(poolmark::Version()));
  app.require_subcommand(1);
  int exit_code = 0;
  poolmark::cli::AddLoad(app, exit_code);
  poolmark::cli::AddQuality(app, exit_code);
  poolmark::cli::AddWorkload(app, exit_code);
  poolmark::cli::AddReport(app, exit_code);
  poolmark::cli::AddCompare(app, exit_code);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    // Help and version are no errors; everything else is a wrong use.
    return app.exit(error) == 0 ? 0 : 2;
  }
  return exit_code;
}
