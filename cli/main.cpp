// The program `poolmark`. Each command registers itself; its callback sets the exit code.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <exception>

#include "cli/command_list.h"
#include "cli/commands/whole_number.h"
#include "cli/output/exit_code.h"
#include "cli/output/table.h"
#include "cli/output/terminal.h"
#include "common/base/secrets.h"
#include "common/base/version.h"
#include "common/workload/keys.h"

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
  ReadWholeNumbersPlainly(app);
#undef POOLMARK_ADD
}

// The first word, where it is neither an option nor a command.
std::string UnknownCommand(const CLI::App& app, int argc, char** argv) {
  if (argc < 2 || argv[1][0] == '-') return "";
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    if (command->check_name(argv[1])) return "";
  }
  return argv[1];
}

// Whether the user asked for JSON, where the words could not be read.
Format WantedFormat(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i], next = i + 1 < argc ? argv[i + 1] : "";
    for (const char* name : {"json", "jsonl"}) {
      if (((word == "-o" || word == "--output") && next == name) || word == std::string("-o") + name ||
          word == std::string("--output=") + name ||
          ((word == "--json" || (word == "--progress" && next == name)) && std::string(name) == "json"))
        return FormatOf(name);
    }
  }
  return Format::kTable;
}

int WrongUse(const Error& error, Format format) {
  WriteErr(ErrorText({error}, format));
  return kExitUsage;
}

int Main(int argc, char** argv) {
  LearnRedactions();
  CLI::App app("Measures what a distributed KV cache is worth on your machines.", "poolmark");
  app.set_version_flag("--version", std::string(Version()));
  app.require_subcommand(1);
  int exit_code = 0;
  Register(app, exit_code);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    // Help and version are no errors; everything else is a wrong use.
    const std::string word = UnknownCommand(app, argc, argv);
    if (error.get_exit_code() != 0 && !word.empty()) {
      std::vector<std::string> known;
      for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
        if (!command->get_group().empty()) known.push_back(command->get_name());
      }
      const std::string near = workload::NearestKey(word, known);
      return WrongUse({absl::StatusCode::kInvalidArgument, "usage", "", "'" + word + "' is no command",
                       near.empty() ? "'poolmark --help' lists them" : "did you mean '" + near + "'?"},
                      WantedFormat(argc, argv));
    }
    const Format format = WantedFormat(argc, argv);
    if (error.get_exit_code() != 0 && format != Format::kTable)
      return WrongUse({absl::StatusCode::kInvalidArgument, "usage", "", error.what(), "add --help"}, format);
    return app.exit(error) == 0 ? kExitOk : kExitUsage;
  }
  return exit_code;
}

}  // namespace
}  // namespace poolmark::cli

int main(int argc, char** argv) {
  try {
    return poolmark::cli::FinishOutput(poolmark::cli::Main(argc, argv));
  } catch (const std::exception& error) {
    std::fprintf(stderr, "poolmark: %s\nThis is a fault of the program; please report it.\n",
                 poolmark::cli::Printable(error.what(), true).c_str());
    return poolmark::cli::kExitOurFault;
  }
}
