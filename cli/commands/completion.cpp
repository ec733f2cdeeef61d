#include "cli/commands/completion.h"

namespace poolmark::cli {
namespace {

std::string Join(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : " ") + word;
  return text;
}

std::string Words(const CommandNode& node) {
  std::vector<std::string> words = node.values;
  for (const CommandNode& command : node.commands) words.push_back(command.name);
  for (const CommandOption& option : node.options) words.push_back(option.name);
  return Join(words);
}

// One `case` arm for each command, on the commands so far and the word before: what may follow. An option's
// value is one of its own, or else a file's name, which the shell completes where there are no words.
void AddArms(const CommandNode& node, const std::string& path, std::string* arms) {
  for (const CommandOption& option : node.options) {
    if (option.takes_value)
      *arms += "    \"" + path + "|" + option.name + "\") words=\"" + Join(option.values) + "\" ;;\n";
  }
  *arms += "    \"" + path + "|\"*) words=\"" + Words(node) + "\" ;;\n";
  for (const CommandNode& command : node.commands) AddArms(command, path + " " + command.name, arms);
}

void AddPaths(const CommandNode& node, const std::string& path, std::string* paths) {
  for (const CommandNode& command : node.commands) {
    const std::string below = path + " " + command.name;
    *paths += (paths->empty() ? "" : "|") + ("\"" + below + "\"");
    AddPaths(command, below, paths);
  }
}

std::string Function(const CommandNode& root, const std::string& name) {
  std::string arms, paths;
  AddArms(root, "", &arms);
  AddPaths(root, "", &paths);
  return name +
         "() {\n"
         "  local current=\"${COMP_WORDS[COMP_CWORD]}\" before=\"${COMP_WORDS[COMP_CWORD-1]}\" path=\"\" "
         "words=\"\" "
         "i\n"
         "  for ((i = 1; i < COMP_CWORD; i++)); do\n"
         "    case \"$path ${COMP_WORDS[i]}\" in\n"
         "    " +
         paths +
         ") path=\"$path ${COMP_WORDS[i]}\" ;;\n"
         "    esac\n"
         "  done\n"
         "  case \"$path|$before\" in\n" +
         arms +
         "  esac\n"
         "  COMPREPLY=($(compgen -W \"$words\" -- \"$current\"))\n"
         "}\n"
         "complete -o default -F " +
         name + " poolmark\n";
}

// Works sourced, and as a file `_poolmark` of a directory in fpath: then zsh runs it as the function
// _poolmark at the first completion, which must answer that one, too.
std::string Zsh(const CommandNode& root) {
  return "#compdef poolmark\nautoload -U +X bashcompinit && bashcompinit\n" +
         Function(root, "_poolmark_words") +
         "if [ \"${funcstack[1]}\" = _poolmark ]; then _bash_complete -o default -F _poolmark_words; fi\n";
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
               (is_long ? " -l " + option.name.substr(2) : " -s " + option.name.substr(1)) +
               (!option.takes_value     ? ""
                : option.values.empty() ? " -r"
                                        : " -x -a " + Quoted(Join(option.values))) +
               " -d " + Quoted(option.description) + "\n";
    }
    if (!command.values.empty())
      *text += "complete -c poolmark -f -n " + Quoted(below) + " -a " + Quoted(Join(command.values)) + "\n";
    AddFish(command, below, text);
  }
}

}  // namespace

std::string CompletionScript(const CommandNode& root, const std::string& shell) {
  if (shell == "zsh") return Zsh(root);
  if (shell == "bash") return Function(root, "_poolmark");
  std::string text;
  AddFish(root, "", &text);
  return text;
}

}  // namespace poolmark::cli
