#include "cli/commands/completion.h"

namespace poolmark::cli {
namespace {

std::string Words(const CommandNode& node) {
  std::string words;
  for (const CommandNode& command : node.commands) words += (words.empty() ? "" : " ") + command.name;
  for (const CommandOption& option : node.options) words += (words.empty() ? "" : " ") + option.name;
  return words;
}

// One `case` arm for each command: what may follow it.
void AddArms(const CommandNode& node, const std::string& path, std::string* arms) {
  *arms += "    \"" + path + "\") words=\"" + Words(node) + "\" ;;\n";
  for (const CommandNode& command : node.commands) AddArms(command, path + " " + command.name, arms);
}

void AddPaths(const CommandNode& node, const std::string& path, std::string* paths) {
  for (const CommandNode& command : node.commands) {
    const std::string below = path + " " + command.name;
    *paths += (paths->empty() ? "" : "|") + ("\"" + below + "\"");
    AddPaths(command, below, paths);
  }
}

std::string Bash(const CommandNode& root) {
  std::string arms, paths;
  AddArms(root, "", &arms);
  AddPaths(root, "", &paths);
  return "_poolmark() {\n"
         "  local current=\"${COMP_WORDS[COMP_CWORD]}\" path=\"\" words=\"\" i\n"
         "  for ((i = 1; i < COMP_CWORD; i++)); do\n"
         "    case \"$path ${COMP_WORDS[i]}\" in\n"
         "    " +
         paths +
         ") path=\"$path ${COMP_WORDS[i]}\" ;;\n"
         "    esac\n"
         "  done\n"
         "  case \"$path\" in\n" +
         arms +
         "  esac\n"
         "  COMPREPLY=($(compgen -W \"$words\" -- \"$current\"))\n"
         "}\n"
         "complete -o default -F _poolmark poolmark\n";
}

std::string Quoted(const std::string& text) {
  std::string out = "'";
  for (char c : text) {
    if (c == '\'' || c == '\\') out += '\\';
    out += c;
  }
  return out + "'";
}

void AddFish(const CommandNode& node, const std::string& condition, std::string* text) {
  std::string names;
  for (const CommandNode& command : node.commands) names += (names.empty() ? "" : " ") + command.name;
  for (const CommandNode& command : node.commands) {
    std::string here = condition.empty() ? "__fish_use_subcommand"
                                         : condition + "; and not __fish_seen_subcommand_from " + names;
    *text += "complete -c poolmark -f -n " + Quoted(here) + " -a " + command.name + " -d " +
             Quoted(command.description) + "\n";
    std::string below =
        (condition.empty() ? "" : condition + "; and ") + "__fish_seen_subcommand_from " + command.name;
    for (const CommandOption& option : command.options) {
      bool is_long = option.name.rfind("--", 0) == 0;
      *text += "complete -c poolmark -n " + Quoted(below) +
               (is_long ? " -l " + option.name.substr(2) : " -s " + option.name.substr(1)) + " -d " +
               Quoted(option.description) + "\n";
    }
    AddFish(command, below, text);
  }
}

}  // namespace

std::string CompletionScript(const CommandNode& root, const std::string& shell) {
  if (shell == "zsh") return "autoload -U +X bashcompinit && bashcompinit\n" + Bash(root);
  if (shell == "bash") return Bash(root);
  std::string text;
  AddFish(root, "", &text);
  return text;
}

}  // namespace poolmark::cli
