#include "common/base/secrets.h"

#include <sys/stat.h>
#include <unistd.h>

#include "absl/strings/str_cat.h"
#include "common/base/files.h"
#include "common/base/log.h"

namespace poolmark {
namespace {

constexpr uint64_t kMaxSecret = 64u << 10;

}  // namespace

bool IsSecretName(const std::string& name) {
  if (name.empty() || name.size() > 128 || name[0] == '.') return false;
  for (char c : name) {
    bool good = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
                c == '_' || c == '-';
    if (!good) return false;
  }
  return true;
}

Result<std::string> Secrets::ReadSecret(const std::string& path, const std::string& name) const {
  struct stat facts;
  if (lstat(path.c_str(), &facts) != 0)
    return NotFound(path, absl::StrCat("secret '", name, "' is not there"));
  if (!S_ISREG(facts.st_mode) || (facts.st_uid != 0 && facts.st_uid != geteuid()) ||
      (facts.st_mode & 077) != 0) {
    return Precondition(path, absl::StrCat("secret '", name, "' could be read by others"),
                        absl::StrCat("chown root and chmod 600 ", path));
  }
  POOLMARK_ASSIGN_OR_RETURN(std::string value, ReadFile(path, kMaxSecret));
  if (!value.empty() && value.back() == '\n') value.pop_back();
  if (value.empty() || value.find('\0') != std::string::npos || value.find('\n') != std::string::npos) {
    return Precondition(path, absl::StrCat("secret '", name, "' must be one line of text"));
  }
  AddLogRedaction(value);
  return value;
}

Result<std::string> Secrets::Get(const std::string& name) const {
  if (!IsSecretName(name))
    return InvalidInput("secret", absl::StrCat("'", name, "' is no name of a secret"),
                        "use letters, digits, '.', '_' and '-'");
  for (const std::string* place : {&credentials_, &directory_}) {
    if (place->empty()) continue;
    auto value = ReadSecret(absl::StrCat(*place, "/", name), name);
    if (value.ok() || !absl::IsNotFound(value.status())) return value;
  }
  return NotFound("secret", absl::StrCat("this machine has no secret '", name, "'"),
                  directory_.empty() ? "give the program a directory of secrets"
                                     : absl::StrCat("write it to ", directory_, "/", name, " (mode 600)"));
}

void LearnRedactions() {
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view word = *entry;
    const size_t equals = word.find('=');
    if (word.starts_with(kRedactVariable) && equals != std::string_view::npos)
      AddLogRedaction(std::string(word.substr(equals + 1)));
  }
}

std::vector<std::string> Secrets::AllValues() const {
  std::vector<std::string> values;
  for (const std::string* place : {&credentials_, &directory_}) {
    if (place->empty()) continue;
    auto names = ListDir(*place);
    for (const std::string& name : names.ok() ? *names : std::vector<std::string>()) {
      if (!IsSecretName(name)) continue;
      if (auto value = ReadSecret(absl::StrCat(*place, "/", name), name); value.ok())
        values.push_back(*value);
    }
  }
  return values;
}

}  // namespace poolmark
