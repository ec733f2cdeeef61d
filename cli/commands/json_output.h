// `-o json`, for the commands that print either text or one JSON document without a controller; `--json` is
// the same. Not for commands that print rows: those take the format from cli/output/table.h.
#pragma once
#include <CLI/CLI.hpp>
#include <string>

namespace poolmark::cli {

// Sets `json` when the user asks for it; `what` stands in the help text.
inline void AddJsonOutput(CLI::App& command, bool* json, const std::string& what) {
  command
      .add_option_function<std::string>(
          "-o,--output", [json](const std::string& format) { *json = format == "json"; },
          "text, or json for " + what)
      ->check(CLI::IsMember({"text", "json"}))
      ->default_str("text");
  command.add_flag("--json", *json, "As --output json");
}

}  // namespace poolmark::cli
