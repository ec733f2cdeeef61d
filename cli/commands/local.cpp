// Small commands that need no controller: init, cat, completion, and the hidden help-markdown.
#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "cli/commands/completion.h"
#include "cli/commands/examples.h"
#include "cli/output/exit_code.h"
#include "cli/output/table.h"
#include "common/base/errors.h"
#include "common/base/files.h"
#include "common/base/zstd_file.h"

namespace poolmark::cli {
namespace {

int Fail(const Status& status, Format format = Format::kTable) {
  WriteErr(ErrorText(SplitErrors(status), format));
  return ExitCodeOf(status);
}

int WriteExamples(const std::string& directory, bool force, Format format) {
  Status made = MakeDirs(directory);
  if (!made.ok()) return Fail(made, format);
  for (const ExampleFile& file : kExamples) {
    const std::string path = JoinPath(directory, file.name);
    if (FileExists(path) && !force)
      return Fail(InvalidInput(path, "it exists already", "give another directory, or --force to replace it"),
                  format);
  }
  std::vector<Json> rows;
  for (const ExampleFile& file : kExamples) {
    const std::string path = JoinPath(directory, file.name);
    Status written = AtomicWriteFile(path, file.text);
    if (!written.ok()) return Fail(written, format);
    if (format == Format::kTable) WriteOut(path + "\n");
    rows.push_back({{"file", path}});
  }
  if (format != Format::kTable) WriteOut(JsonRows(rows, format));
  return kExitOk;
}

// Records as they stand, a line each, on a terminal without what would steer it; for kJson one array of them,
// whose lines are checked.
int Cat(const std::vector<std::string>& paths, Format format) {
  const bool array = format == Format::kJson;
  std::string pending = array ? "[" : "";
  bool any = false;
  constexpr size_t kFlushBytes = 1u << 16;
  const auto shown = [terminal = StdoutIsTerminal()](const std::string& text) {
    return terminal ? Printable(text, true) : text;
  };
  for (const std::string& path : paths) {
    auto reader = LineReader::Open(path);
    if (!reader.ok()) return Fail(reader.status(), format);
    std::string line;
    for (;;) {
      auto more = (*reader)->Next(&line);
      if (!more.ok() || !*more) {
        WriteOut(shown(pending));
        pending.clear();
        if (!more.ok()) return Fail(more.status(), format);
        break;
      }
      if (array && line.empty()) continue;
      if (array) {
        if (auto record = ParseJson(line); !record.ok()) {
          WriteOut(shown(pending));
          return Fail(InvalidInput(absl::StrCat(path, ":", (*reader)->line_number()), "is no record in JSON",
                                   "leave -o json away to see the file as it is"),
                      format);
        }
        pending += any ? ",\n" : "\n";
        any = true;
        pending += line;
      } else {
        pending += line + '\n';
      }
      if (pending.size() >= kFlushBytes) {
        WriteOut(shown(pending));
        pending.clear();
      }
    }
  }
  if (array) WriteOut(any ? "\n]\n" : "]\n");
  return kExitOk;
}

// "TEXT:{bash,zsh,fish}" -> the three words.
std::vector<std::string> ValuesOf(const CLI::Option& option) {
  const std::string type = option.get_type_name();
  const size_t open = type.find('{'), close = type.rfind('}');
  if (open == std::string::npos || close == std::string::npos || close < open) return {};
  std::vector<std::string> values = absl::StrSplit(type.substr(open + 1, close - open - 1), ',');
  return values;
}

CommandNode NodeOf(const CLI::App* app) {
  CommandNode node{app->get_name(), app->get_description(), {}, {}, {}};
  for (const CLI::Option* option : app->get_options()) {
    const bool takes_value = option->get_items_expected_max() > 0;
    for (const std::string& name : option->get_lnames())
      node.options.push_back({"--" + name, option->get_description(), takes_value, ValuesOf(*option)});
    for (const std::string& name : option->get_snames())
      node.options.push_back({"-" + name, option->get_description(), takes_value, ValuesOf(*option)});
    if (option->get_positional()) node.values = ValuesOf(*option);
  }
  for (const CLI::App* command : app->get_subcommands([](const CLI::App*) { return true; })) {
    if (command->get_group().empty()) continue;  // hidden
    node.commands.push_back(NodeOf(command));
    for (const std::string& alias : command->get_aliases()) {
      CommandNode again = node.commands.back();
      again.name = alias;
      node.commands.push_back(again);
    }
  }
  return node;
}

std::string MarkdownOf(const CLI::App* app, const std::string& path) {
  std::string text = "\n### " + path + "\n\n```\n" + app->help(path.substr(0, path.rfind(' '))) + "```\n";
  // CLI11 starts a help text with the description and leaves trailing blanks.
  for (size_t at = text.find(" \n"); at != std::string::npos; at = text.find(" \n")) text.erase(at, 1);
  for (const CLI::App* command : app->get_subcommands([](const CLI::App*) { return true; })) {
    if (!command->get_group().empty()) text += MarkdownOf(command, path + " " + command->get_name());
  }
  return text;
}

}  // namespace

void AddLocal(CLI::App& app, int& exit_code) {
  auto directory = std::make_shared<std::string>(".");
  auto force = std::make_shared<bool>(false);
  CLI::App* init = app.add_subcommand("init", "Write commented examples: pool.yaml, stack.yaml, job.yaml");
  init->add_option("DIR", *directory, "Where to")->capture_default_str();
  init->add_flag("--force", *force, "Replace files that exist");
  auto output = std::make_shared<std::string>("table");
  init->add_option("-o,--output", *output, "table, json or jsonl")
      ->check(CLI::IsMember({"table", "json", "jsonl"}))
      ->capture_default_str();
  init->callback([directory, force, output, &exit_code] {
    exit_code = WriteExamples(*directory, *force, FormatOf(*output));
  });

  auto paths = std::make_shared<std::vector<std::string>>();
  CLI::App* cat =
      app.add_subcommand("cat", "Print .jsonl.zst files of a results directory as JSON Lines, for pipes");
  cat->add_option("FILE", *paths, "Files; plain ones too")->required();
  auto records = std::make_shared<std::string>("table");  // not given: JSON Lines too, but errors for people
  cat->add_option("-o,--output", *records, "jsonl, as without it, or json: one array of all records")
      ->check(CLI::IsMember({"json", "jsonl"}));
  cat->callback([paths, records, &exit_code] { exit_code = Cat(*paths, FormatOf(*records)); });

  auto shell = std::make_shared<std::string>();
  CLI::App* completion =
      app.add_subcommand("completion", "Print completions: source <(poolmark completion bash)");
  completion->add_option("SHELL", *shell, "bash, zsh or fish")
      ->required()
      ->check(CLI::IsMember({"bash", "zsh", "fish"}));
  auto wrapped = std::make_shared<std::string>("table");
  completion->add_option("-o,--output", *wrapped, "table: the script itself; json or jsonl: it as a text")
      ->check(CLI::IsMember({"table", "json", "jsonl"}))
      ->capture_default_str();
  completion->callback([shell, wrapped, &app] {
    const std::string script = CompletionScript(NodeOf(&app), *shell);
    const Format format = FormatOf(*wrapped);
    WriteOut(format == Format::kTable ? script : JsonText({{"shell", *shell}, {"script", script}}, format));
  });

  CLI::App* markdown = app.add_subcommand("help-markdown", "Print docs/cli.md's reference part")->group("");
  markdown->callback([&app] {
    std::string text;
    for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
      if (!command->get_group().empty()) text += MarkdownOf(command, "poolmark " + command->get_name());
    }
    WriteOut(text);
  });
}

}  // namespace poolmark::cli
