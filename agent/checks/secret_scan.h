// Secrets in command lines: what anyone can read with ps. Known values first, then the shapes of tokens and
// of options that carry them. Findings never hold a value. Pure.
#pragma once
#include <string>
#include <vector>

namespace poolmark::agent {

struct SecretFinding {
  size_t argument = 0;  // index in argv
  std::string kind;     // "value of a secret of this machine", "--api-key", "a token beginning with hf_"
  size_t length = 0;    // of the value
};

// `known`: values of secrets, those under 6 bytes are ignored (they would match anything).
std::vector<SecretFinding> ScanCommandLine(const std::vector<std::string>& argv,
                                           const std::vector<std::string>& known);

// The words of /proc/<pid>/cmdline.
std::vector<std::string> SplitCommandLine(const std::string& cmdline);

}  // namespace poolmark::agent
