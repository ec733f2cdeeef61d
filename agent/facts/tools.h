// Installed tools with version and digest: what the manifest and the check "tools" say. The version is what
// the tool itself prints.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "agent/facts/command.h"

namespace poolmark::agent {

struct ToolInfo {
  std::string name;
  std::string version;  // "" unknown
  std::string path;     // "" not installed
  std::string sha256;
  std::string note;
};

// Tools that a pool may need, in the order they are listed.
const std::vector<std::string>& KnownTools();
// The arguments that make a tool print its version ("--version", "-V").
std::vector<std::string> VersionArguments(const std::string& tool);
// "iperf 3.12 (cJSON 1.7.15)" -> "3.12"; "Version: 6.06" -> "6.06"; "" when there is none.
std::string ParseToolVersion(std::string_view text);
// Digests are kept by (path, size, mtime), so that asking again is cheap.
ToolInfo LookUpTool(const std::string& name, Spawner* spawner, const std::string& root);

}  // namespace poolmark::agent
