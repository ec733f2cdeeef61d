// Secrets by name: files in a directory that only root (or the agent's user) can read, or systemd
// credentials ($CREDENTIALS_DIRECTORY). Values go to processes by environment, never by argv, and into
// nothing that is written. Thread-safe: reads the directories anew each time.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "common/base/result.h"

namespace poolmark {

// Letters, digits, '.', '_' and '-', not beginning with '.'; at most 128.
bool IsSecretName(const std::string& name);

class Secrets {
 public:
  // Either may be empty. A name is looked for in the credentials first.
  Secrets(std::string directory, std::string credentials_directory)
      : directory_(std::move(directory)), credentials_(std::move(credentials_directory)) {}
  // The content without a final line end; it is redacted from our own log from then on. Errors name the
  // secret and the file to make, never a value.
  Result<std::string> Get(const std::string& name) const;
  // All values that can be read, for looking for them where they must not be.
  std::vector<std::string> AllValues() const;

 private:
  Result<std::string> ReadSecret(const std::string& path, const std::string& name) const;
  std::string directory_;
  std::string credentials_;
};

// Variables whose values a program of ours must not repeat when others say them to it: the secrets of a job's
// other programs. The controller names them beside a process's own secrets; a machine that lacks one leaves
// it out, and only our own programs get the values.
inline constexpr std::string_view kRedactVariable = "POOLMARK_REDACT_";
// Takes the values of those variables from the environment.
void LearnRedactions();
// What an engine, a router or a tool answered, without the secrets that this process has read or learnt: what
// is told to whoever holds a secret may come back in an error's text, a label or a header. A secret of fewer
// than 8 bytes is taken out of our own log alone: it would be found in figures.
std::string Redacted(std::string text);

}  // namespace poolmark
