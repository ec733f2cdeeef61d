#include "agent/checks/secret_scan.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>

#include "agent/facts/text.h"

namespace poolmark::agent {
namespace {

constexpr size_t kShortest = 6;

bool IsTokenChar(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-' ||
         c == '.';
}

struct Prefix {
  std::string_view text;
  size_t rest;  // token characters that must follow
};
constexpr std::array<Prefix, 11> kPrefixes = {{{"hf_", 20},
                                               {"sk-", 16},
                                               {"nvapi-", 20},
                                               {"ghp_", 30},
                                               {"github_pat_", 20},
                                               {"glpat-", 16},
                                               {"AKIA", 16},
                                               {"xoxb-", 16},
                                               {"xoxp-", 16},
                                               {"eyJhbGciOi", 30},
                                               {"AIza", 30}}};

// A token of a known shape anywhere in the word, not in the middle of another one.
std::optional<SecretFinding> FindPrefix(std::string_view word) {
  for (const Prefix& prefix : kPrefixes) {
    for (size_t at = word.find(prefix.text); at != std::string_view::npos;
         at = word.find(prefix.text, at + 1)) {
      if (at > 0 && IsTokenChar(word[at - 1]) && word[at - 1] != '.') continue;
      size_t end = at + prefix.text.size();
      while (end < word.size() && IsTokenChar(word[end])) ++end;
      if (end - at >= prefix.text.size() + prefix.rest) {
        return SecretFinding{0, "a token beginning with " + std::string(prefix.text), end - at};
      }
    }
  }
  return std::nullopt;
}

// scheme://user:password@host
std::optional<SecretFinding> FindUrlPassword(std::string_view word) {
  const size_t scheme = word.find("://");
  if (scheme == std::string_view::npos) return std::nullopt;
  const std::string_view rest = word.substr(scheme + 3);
  const std::string_view authority = rest.substr(0, rest.find_first_of("/?# "));
  const size_t at = authority.rfind('@');
  const size_t colon = authority.find(':');
  if (at == std::string_view::npos || colon == std::string_view::npos || colon + 1 >= at) return std::nullopt;
  return SecretFinding{0, "a password in a URL", at - colon - 1};
}

// Names of options and variables that carry a secret.
bool IsSecretName(std::string name) {
  name = Lower(name);
  std::replace(name.begin(), name.end(), '_', '-');
  static const std::vector<std::string> kNames = {
      "api-key",       "apikey",      "hf-token",          "token",         "password",
      "passwd",        "secret",      "auth-token",        "access-token",  "access-key",
      "secret-key",    "requirepass", "masterauth",        "auth",          "pass",
      "client-secret", "bearer",      "huggingface-token", "admin-api-key", "hub-token"};
  return std::find(kNames.begin(), kNames.end(), name) != kNames.end();
}

// A variable such as HF_TOKEN, MY_API_KEY, DB_PASSWORD.
bool IsSecretVariable(std::string_view name) {
  if (name.empty() || !std::all_of(name.begin(), name.end(), [](char c) {
        return (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
      })) {
    return false;
  }
  for (const std::string_view end :
       {"TOKEN", "SECRET", "PASSWORD", "PASSWD", "API_KEY", "ACCESS_KEY", "SECRET_KEY"}) {
    if (name.size() >= end.size() && name.substr(name.size() - end.size()) == end) return true;
  }
  return false;
}

bool IsValue(std::string_view value) {
  return value.size() >= kShortest && value.front() != '-' && value.front() != '$' && value.front() != '@';
}

std::string_view BaseName(std::string_view path) {
  const size_t slash = path.rfind('/');
  return slash == std::string_view::npos ? path : path.substr(slash + 1);
}

// Options of one letter that mean a password in this program.
bool IsShortSecret(std::string_view program, std::string_view option) {
  if (option == "-P") return program == "ipmitool";
  if (option == "-a") return program == "redis-cli" || program == "valkey-cli";
  if (option == "-p") return program == "sshpass" || program == "ipmi-dcmi";
  return false;
}

std::optional<SecretFinding> FindOption(const std::vector<std::string>& argv, size_t i) {
  const std::string& word = argv[i];
  const size_t equals = word.find('=');
  if (equals != std::string::npos) {
    const std::string name = word.substr(0, equals);
    const std::string_view value = std::string_view(word).substr(equals + 1);
    const size_t dashes = std::min(name.find_first_not_of('-'), name.size());
    if (dashes > 0 && IsSecretName(name.substr(dashes)) && IsValue(value))
      return SecretFinding{i, name, value.size()};
    if (IsSecretVariable(name) && IsValue(value)) return SecretFinding{i, name + "=", value.size()};
    return std::nullopt;
  }
  if (i + 1 >= argv.size() || word.size() < 2 || !IsValue(argv[i + 1])) {
    // "-a secret" of redis-cli may be short
    const bool short_option =
        i + 1 < argv.size() && IsShortSecret(BaseName(argv[0]), word) && !argv[i + 1].empty();
    return short_option ? std::optional(SecretFinding{i + 1, word, argv[i + 1].size()}) : std::nullopt;
  }
  const size_t dashes = std::min(word.find_first_not_of('-'), word.size());
  const bool option = dashes > 0 && IsSecretName(word.substr(dashes));
  if (option || IsShortSecret(BaseName(argv[0]), word)) return SecretFinding{i + 1, word, argv[i + 1].size()};
  return std::nullopt;
}

std::optional<SecretFinding> FindBearer(std::string_view word) {
  const std::string lower = Lower(word);
  for (const std::string_view scheme :
       {"authorization: bearer ", "authorization:bearer ", "authorization: basic "}) {
    const size_t at = lower.find(scheme);
    if (at != std::string::npos && word.size() >= at + scheme.size() + kShortest) {
      return SecretFinding{0, "an Authorization header", word.size() - at - scheme.size()};
    }
  }
  return std::nullopt;
}

}  // namespace

std::vector<std::string> SplitCommandLine(const std::string& cmdline) {
  std::vector<std::string> words;
  size_t start = 0;
  while (start < cmdline.size()) {
    const size_t end = std::min(cmdline.find('\0', start), cmdline.size());
    words.push_back(cmdline.substr(start, end - start));
    start = end + 1;
  }
  return words;
}

std::vector<SecretFinding> ScanCommandLine(const std::vector<std::string>& argv,
                                           const std::vector<std::string>& known) {
  std::vector<SecretFinding> findings;
  const auto add = [&](std::optional<SecretFinding> found, size_t argument) {
    if (!found) return false;
    found->argument = std::max(found->argument, argument);
    for (const SecretFinding& other : findings) {
      if (other.argument == found->argument) return true;  // one finding for one word
    }
    findings.push_back(std::move(*found));
    return true;
  };
  for (size_t i = 0; i < argv.size(); ++i) {
    bool is_known = false;
    for (const std::string& value : known) {
      if (value.size() < kShortest || argv[i].find(value) == std::string::npos) continue;
      add(SecretFinding{i, "the value of a secret of this machine", value.size()}, i);
      is_known = true;
      break;
    }
    if (is_known) continue;
    if (add(FindOption(argv, i), 0)) continue;
    if (add(FindPrefix(argv[i]), i)) continue;
    if (add(FindBearer(argv[i]), i)) continue;
    add(FindUrlPassword(argv[i]), i);
  }
  return findings;
}

}  // namespace poolmark::agent
