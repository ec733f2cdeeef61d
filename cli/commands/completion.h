// Shell completions from the tree of commands. Pure.
#pragma once
#include <string>
#include <vector>

namespace poolmark::cli {

struct CommandOption {
  std::string name;  // "--output", "-o"
  std::string description;
  bool takes_value = false;
  std::vector<std::string> values;  // the only ones it takes; empty: any
};
struct CommandNode {
  std::string name;
  std::string description;
  std::vector<CommandOption> options;
  std::vector<CommandNode> commands;
  std::vector<std::string> values;  // of its positional words, where only some are taken
};

// `shell`: bash, zsh or fish.
std::string CompletionScript(const CommandNode& root, const std::string& shell);

}  // namespace poolmark::cli
