// `-o json`, for the commands that print either text or one JSON document without a controller; `--json` is
// the same, and errors are JSON then, too. Not for commands that print rows: those take the format from
// cli/output/table.h.
#pragma once
#include <CLI/CLI.hpp>
#include <string>

#include "cli/output/table.h"
#include "cli/output/terminal.h"
#include "common/base/errors.h"

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

// Why the command failed, on stderr: a line, or {"errors": [...]}.
inline void WriteFailure(const Status& status, bool json) {
  WriteErr(ErrorText(SplitErrors(status), json ? Format::kJson : Format::kTable));
}

}  // namespace poolmark::cli
