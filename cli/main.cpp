// The program `poolmark`. Each command registers itself; its callback sets the exit code.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <exception>

#include "cli/command_list.h"
#include "cli/output/exit_code.h"
#include "common/base/version.h"

namespace poolmark::cli {

#define POOLMARK_DECLARE(name) void name(CLI::App& app, int& exit_code);
POOLMARK_REMOTE_COMMANDS(POOLMARK_DECLARE)
POOLMARK_COMMANDS(POOLMARK_DECLARE)
#undef POOLMARK_DECLARE

namespace {

void Register(CLI::App& app, int& exit_code) {
#define POOLMARK_ADD(name) name(app, exit_code);
  POOLMARK_REMOTE_COMMANDS(POOLMARK_ADD)
  for (CLI::App* command : app.get_subcommands({})) command->group("With a controller");
  POOLMARK_COMMANDS(POOLMARK_ADD)
  for (CLI::App* command : app.get_subcommands({})) {
    if (command->get_group() == "Subcommands") command->group("Without a controller");
  }
#undef POOLMARK_ADD
}

int Main(int argc, char** argv) {
  CLI::App app("Measures what a distributed KV cache is worth on your machines.", "poolmark");
  app.set_version_flag("--version", std::string(Version()));
  app.require_subcommand(1);
  int exit_code = 0;
  Register(app, exit_code);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    // Help and version are no errors; everything else is a wrong use.
    return app.exit(error) == 0 ? kExitOk : kExitUsage;
  }
  return exit_code;
}

}  // namespace
}  // namespace poolmark::cli

int main(int argc, char** argv) {
  try {
    return poolmark::cli::Main(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "poolmark: %s\nThis is a fault of the program; please report it.\n", error.what());
    return poolmark::cli::kExitOurFault;
  }
}
