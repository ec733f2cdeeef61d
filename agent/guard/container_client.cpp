#include "agent/guard/container_client.h"

#include <algorithm>
#include <cctype>
#include <cstdlib>

namespace poolmark::guard {
namespace {

constexpr const char* kDeciding[] = {"HOME",           "XDG_RUNTIME_DIR",      "XDG_CONFIG_HOME",
                                     "XDG_DATA_HOME",  "DOCKER_HOST",          "DOCKER_CONTEXT",
                                     "DOCKER_CONFIG",  "DOCKER_CERT_PATH",     "DOCKER_TLS_VERIFY",
                                     "CONTAINER_HOST", "CONTAINER_CONNECTION", "CONTAINER_SSHKEY"};

std::string Lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) { return std::tolower(c); });
  return text;
}

std::string Trimmed(const std::string& text) {
  const size_t begin = text.find_first_not_of(" \t\r\n");
  if (begin == std::string::npos) return "";
  return text.substr(begin, text.find_last_not_of(" \t\r\n") - begin + 1);
}

}  // namespace

std::vector<std::string> InspectCommand(const std::string& client, const std::string& container) {
  return {client,   "inspect", "--type", "container", "--format", "{{index .Config.Labels \"poolmark.run\"}}",
          container};
}

Presence ReadInspect(int exit_code, const std::string& out, const std::string& all,
                     const std::string& container, const std::string& run) {
  if (exit_code == 0) return Trimmed(out) == run ? Presence::kOurs : Presence::kAnothers;
  // docker 28.2.2: "Error response from daemon: No such container: NAME"; earlier ones: "Error: No such
  // container: NAME"; podman 4.3.1: "Error: inspecting object: no such container NAME".
  const std::string said = Lower(all);
  const std::string name = Lower(container);
  for (const std::string& words :
       {"no such container: " + name, "no such container " + name, "no such container \"" + name,
        "no such object: " + name, "no such object: \"" + name, "no container with name or id \"" + name}) {
    if (said.find(words) != std::string::npos) return Presence::kAbsent;
  }
  return Presence::kUnknown;
}

std::vector<std::string> ClientVariables() {
  std::vector<std::string> words;
  for (const char* name : kDeciding) {
    if (const char* value = getenv(name)) words.push_back(std::string(name) + "=" + value);
  }
  return words;
}

std::vector<std::string> WithClientVariables(const std::vector<std::string>& env) {
  std::vector<std::string> words;
  for (const std::string& word : env) {
    const std::string name = word.substr(0, word.find('='));
    if (std::none_of(std::begin(kDeciding), std::end(kDeciding),
                     [&](const char* own) { return name == own; }))
      words.push_back(word);
  }
  for (std::string& word : ClientVariables()) words.push_back(std::move(word));
  return words;
}

}  // namespace poolmark::guard
