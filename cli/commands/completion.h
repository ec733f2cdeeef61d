// Shell completions from the tree of commands. Pure.
#pragma once
#include <string>
#include <vector>

namespace poolmark::cli {

struct CommandOption {
  std::string name;  // "--output", "-o"
  std::string description;
};
struct CommandNode {
  std::string name;
  std::string description;
  std::vector<CommandOption> options;
  std::vector<CommandNode> commands;
};

// `shell`: bash, zsh or fish.
std::string CompletionScript(const CommandNode& root, const std::string& shell);

}  // namespace poolmark::cli
