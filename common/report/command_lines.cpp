#include "common/report/command_lines.h"

#include <algorithm>
#include <cctype>

namespace poolmark::report {
namespace {

bool Digit(char c) {
  return c >= '0' && c <= '9';
}
bool Letter(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0;
}

// "--kv-port" -> kv, port
std::vector<std::string> PartsOf(std::string_view name) {
  std::vector<std::string> parts(1);
  for (const char c : name) {
    if (Letter(c)) {
      parts.back() += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    } else if (!parts.back().empty()) {
      parts.emplace_back();
    }
  }
  if (parts.back().empty()) parts.pop_back();
  return parts;
}

bool HasPart(const std::vector<std::string>& parts, std::initializer_list<std::string_view> wanted) {
  return std::any_of(parts.begin(), parts.end(), [&](const std::string& part) {
    return std::find(wanted.begin(), wanted.end(), part) != wanted.end();
  });
}

// A token that opens something, not one of a prompt ("--kv-bytes-per-token").
bool IsSecret(std::string_view name) {
  const auto parts = PartsOf(name);
  if (HasPart(parts, {"key", "apikey", "password", "passwd", "requirepass", "secret", "credential"}))
    return true;
  return !parts.empty() && parts.back() == "token" && (parts.size() < 2 || parts[parts.size() - 2] != "per");
}

// Machines are compared by what they are; where they and their ports are is each job's own.
bool IsPlace(std::string_view name) {
  return HasPart(PartsOf(name), {"port", "ports", "host", "address", "bind", "ip"});
}

void ReplaceAll(std::string* text, const std::string& from, const std::string& to) {
  if (from.empty()) return;
  for (size_t at = text->find(from); at != std::string::npos; at = text->find(from, at + to.size()))
    text->replace(at, from.size(), to);
}

// The length of an IPv4 address at `at`; 0 without one.
size_t AddressAt(std::string_view text, size_t at) {
  const size_t start = at;
  for (int part = 0; part < 4; ++part) {
    if (part > 0 && (at >= text.size() || text[at++] != '.')) return 0;
    const size_t digits = at;
    while (at < text.size() && Digit(text[at])) ++at;
    if (at == digits || at - digits > 3) return 0;
  }
  return at < text.size() && (Letter(text[at]) || text[at] == '.') ? 0 : at - start;
}

// The length of a port after `at`, which no letter or digit follows.
size_t PortAt(std::string_view text, size_t at) {
  size_t end = at;
  while (end < text.size() && Digit(text[end])) ++end;
  const size_t length = end - at;
  return length == 0 || length > 5 || (end < text.size() && Letter(text[end])) ? 0 : length;
}

// Places inside a value: addresses, the ports of URLs and of fields named port.
std::string WithoutPlaces(std::string_view text) {
  std::string out;
  for (size_t at = 0; at < text.size();) {
    const bool begins = at == 0 || (!Letter(text[at - 1]) && text[at - 1] != '.');
    if (const size_t address = begins && Digit(text[at]) ? AddressAt(text, at) : 0; address > 0) {
      out += "ADDRESS";
      at += address;
      continue;
    }
    if (Digit(text[at]) && at > 0) {
      std::string_view before = text.substr(0, at);
      while (!before.empty() &&
             (before.back() == ' ' || before.back() == '"' || before.back() == ':' || before.back() == '='))
        before.remove_suffix(1);
      const bool field = before.size() < at && before.ends_with("port");
      const bool of_host = at > 1 && text[at - 1] == ':' && (Letter(text[at - 2]) || text[at - 2] == ']') &&
                           (out.ends_with("ADDRESS:") || out.ends_with("localhost:") ||
                            text.substr(0, at).find("://") != std::string_view::npos);
      if (const size_t port = field || of_host ? PortAt(text, at) : 0; port > 0) {
        out += "PORT";
        at += port;
        continue;
      }
    }
    out += text[at++];
  }
  return out;
}

// Texts in JSON under a name that says secret.
std::string WithoutSecrets(std::string text) {
  for (size_t at = text.find("\":"); at != std::string::npos; at = text.find("\":", at + 2)) {
    const size_t open = at == 0 ? std::string::npos : text.rfind('"', at - 1);
    const size_t value = text.find_first_not_of(' ', at + 2);
    if (open == std::string::npos || value == std::string::npos || text[value] != '"') continue;
    if (!IsSecret(std::string_view(text).substr(open + 1, at - open - 1))) continue;
    const size_t end = text.find('"', value + 1);
    text.replace(value + 1, (end == std::string::npos ? text.size() : end) - value - 1, "SECRET");
  }
  return text;
}

// What a job made for itself is named after it, wherever it keeps such things.
std::string WithoutJob(std::string text, std::string_view job_id, std::string_view stack) {
  if (job_id.empty()) return text;
  ReplaceAll(&text, std::string(job_id), "JOB");
  ReplaceAll(&text, "JOB-" + std::string(stack), "JOB-STACK");
  for (size_t job = text.find("JOB"); job != std::string::npos; job = text.find("JOB", job + 3)) {
    const size_t start = text.find_last_of(" \"',=:", job);
    const size_t first = start == std::string::npos ? 0 : start + 1;
    if (first >= job || text[first] != '/') continue;
    text.erase(first, job - first);
    job = first;
  }
  return text;
}

}  // namespace

std::set<std::string> WordsThatCount(const std::vector<std::string>& argv, std::string_view job_id,
                                     std::string_view stack) {
  const auto is_flag = [](const std::string& word) {
    return word.size() > 1 && word[0] == '-' && !Digit(word[1]);
  };
  const auto plain = [&](const std::string& text) {
    return WithoutPlaces(WithoutSecrets(WithoutJob(text, job_id, stack)));
  };
  std::set<std::string> out;
  for (size_t i = 0; i < argv.size(); ++i) {
    const std::string& word = argv[i];
    if (!is_flag(word)) {
      out.insert(plain(word));
      continue;
    }
    const size_t equals = word.find('=');
    const std::string name = word.substr(0, equals);
    std::string value;
    if (equals != std::string::npos) {
      value = word.substr(equals + 1);
    } else if (i + 1 < argv.size() && !is_flag(argv[i + 1])) {
      value = argv[++i];
    }
    if (IsPlace(name) || IsSecret(name)) continue;
    out.insert(value.empty() ? name : name + " " + plain(value));
  }
  return out;
}

std::map<std::string, std::set<std::string>> CommandLines(const results::ManifestFile& manifest,
                                                          const std::string& stack, std::string_view job_id) {
  std::map<std::string, std::set<std::string>> out;
  for (const auto& engine : manifest.engines) {
    if (engine.stack == stack) out[engine.role].merge(WordsThatCount(engine.argv, job_id, stack));
  }
  return out;
}

}  // namespace poolmark::report
