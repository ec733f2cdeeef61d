#include "agent/api/config.h"

#include <limits.h>
#include <unistd.h>
#include <yaml-cpp/yaml.h>

#include <functional>
#include <map>

#include "absl/strings/str_cat.h"
#include "common/base/files.h"
#include "common/base/time_format.h"
#include "common/base/units.h"

namespace poolmark::agent {
namespace {

using Setter = std::function<std::string(const YAML::Node&, AgentConfig*)>;  // an error, or nothing

Setter Text(std::string AgentConfig::*member) {
  return [member](const YAML::Node& node, AgentConfig* config) -> std::string {
    if (!node.IsScalar()) return "must be a text";
    config->*member = node.Scalar();
    return "";
  };
}

Setter Duration(Nanoseconds AgentConfig::*member) {
  return [member](const YAML::Node& node, AgentConfig* config) -> std::string {
    if (!node.IsScalar()) return "must be a duration, such as 30s";
    auto duration = ParseDuration(node.Scalar());
    if (!duration.ok()) return std::string(duration.status().message());
    config->*member = *duration;
    return "";
  };
}

const std::map<std::string, Setter>& Setters() {
  static const std::map<std::string, Setter> setters = {
      {"machine", Text(&AgentConfig::machine)},
      {"listen", Text(&AgentConfig::listen)},
      {"advertise", Text(&AgentConfig::advertise)},
      {"controller", Text(&AgentConfig::controller)},
      {"state_dir", Text(&AgentConfig::state_dir)},
      {"work_dir", Text(&AgentConfig::work_dir)},
      {"tls_dir", Text(&AgentConfig::tls_dir)},
      {"allow_file", Text(&AgentConfig::allow_file)},
      {"secrets_dir", Text(&AgentConfig::secrets_dir)},
      {"guard", Text(&AgentConfig::guard)},
      {"run_as", Text(&AgentConfig::run_as)},
      {"catalogue_dir", Text(&AgentConfig::catalogue_dir)},
      {"exporters_file", Text(&AgentConfig::exporters_file)},
      {"stop_grace", Duration(&AgentConfig::grace)},
      {"kill_wait", Duration(&AgentConfig::kill_wait)},
      {"allow_any_address",
       [](const YAML::Node& node, AgentConfig* config) -> std::string {
         std::string text = node.IsScalar() ? node.Scalar() : "";
         if (text != "true" && text != "false") return "must be true or false";
         config->allow_any_address = text == "true";
         return "";
       }},
      {"containment",
       [](const YAML::Node& node, AgentConfig* config) -> std::string {
         std::string text = node.IsScalar() ? node.Scalar() : "";
         if (text != "auto" && text != "subreaper")
           return "must be auto (cgroup v2 where there is one) or subreaper";
         config->use_cgroup = text == "auto";
         return "";
       }},
      {"log_segment",
       [](const YAML::Node& node, AgentConfig* config) -> std::string {
         auto bytes = ParseBytes(node.IsScalar() ? node.Scalar() : "");
         if (!bytes.ok()) return std::string(bytes.status().message());
         if (*bytes < 65536) return "must be at least 64KiB";
         config->log_segment_bytes = *bytes;
         return "";
       }},
      {"keep_logs",
       [](const YAML::Node& node, AgentConfig* config) -> std::string {
         auto bytes = ParseBytes(node.IsScalar() ? node.Scalar() : "");
         if (!bytes.ok()) return std::string(bytes.status().message());
         config->keep_logs_bytes = *bytes;
         return "";
       }},
      {"directories",
       [](const YAML::Node& node, AgentConfig* config) -> std::string {
         if (!node.IsSequence()) return "must be a list of directories";
         for (const YAML::Node& entry : node) {
           if (!entry.IsScalar()) return "must be a list of directories";
           config->directories.push_back(entry.Scalar());
         }
         return "";
       }},
  };
  return setters;
}

// The known key that shares the longest beginning with the unknown one.
std::string Suggestion(const std::string& key) {
  std::string all;
  for (const auto& [name, setter] : Setters()) {
    if (name.substr(0, 3) == key.substr(0, 3)) return absl::StrCat("did you mean '", name, "'?");
    absl::StrAppend(&all, all.empty() ? "" : ", ", name);
  }
  return absl::StrCat("known: ", all);
}

std::string Absolute(const std::string& path) {
  if (path.empty() || path[0] == '/') return path;
  char here[PATH_MAX];
  return getcwd(here, sizeof here) == nullptr ? path : JoinPath(here, path);
}

}  // namespace

Result<AgentConfig> ParseAgentConfig(std::string_view yaml, const std::string& where) {
  AgentConfig config;
  Errors errors;
  try {
    YAML::Node root = YAML::Load(std::string(yaml));
    if (!root.IsMap() && !root.IsNull()) return InvalidInput(where, "must be a mapping of settings");
    for (const auto& entry : root) {
      std::string key = entry.first.Scalar();
      std::string place =
          absl::StrCat(where, ":", entry.first.Mark().line + 1, ":", entry.first.Mark().column + 1, " ", key);
      auto setter = Setters().find(key);
      if (key == "version" && entry.second.IsScalar() && entry.second.Scalar() == "1") continue;
      if (setter == Setters().end()) {
        errors.push_back(
            {absl::StatusCode::kInvalidArgument, "unknown_key", place, "no such setting", Suggestion(key)});
        continue;
      }
      std::string problem = setter->second(entry.second, &config);
      if (!problem.empty())
        errors.push_back({absl::StatusCode::kInvalidArgument, "bad_value", place, problem, ""});
    }
  } catch (const YAML::Exception& error) {
    return InvalidInput(absl::StrCat(where, ":", error.mark.line + 1, ":", error.mark.column + 1), error.msg);
  }
  if (!errors.empty()) return ToStatus(errors);
  return config;
}

Result<AgentConfig> LoadAgentConfig(const std::string& path) {
  POOLMARK_ASSIGN_OR_RETURN(std::string text, ReadFile(path, 1u << 20));
  return ParseAgentConfig(text, path);
}

Result<std::string> EnginesUser(const AgentConfig& config, unsigned agent_uid,
                                const std::function<bool(const std::string& user)>& exists) {
  if (!config.run_as.empty()) {
    if (exists(config.run_as)) return config.run_as;
    return NotFound("agent.yaml run_as", absl::StrCat("there is no user '", config.run_as, "'"),
                    "make it, or name another one");
  }
  if (agent_uid != 0) return std::string();
  if (exists(kEnginesUser)) return std::string(kEnginesUser);
  return Precondition("agent.yaml run_as", "the agent is root, and nothing says as which user engines run",
                      absl::StrCat("make the user '", kEnginesUser, "' (useradd --system ", kEnginesUser,
                                   ") or name another one; 'run_as: root' if jobs may do anything here"));
}

Status CompleteConfig(AgentConfig* config) {
  if (config->tls_dir.empty()) config->tls_dir = config->state_dir + "/tls";
  if (config->guard.empty()) {
    char self[PATH_MAX];
    ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
    if (length <= 0) return FromErrno("/proc/self/exe", "find this program", errno);
    std::string program(self, static_cast<size_t>(length));
    config->guard = program.substr(0, program.rfind('/')) + "/poolmark-guard";
  }
  for (std::string* path :
       {&config->state_dir, &config->work_dir, &config->tls_dir, &config->allow_file, &config->secrets_dir,
        &config->guard, &config->catalogue_dir, &config->exporters_file}) {
    *path = Absolute(*path);
  }
  for (std::string& path : config->directories) {
    path = Absolute(path);
    while (path.size() > 1 && path.back() == '/') path.pop_back();
  }
  if (config->machine.empty()) return InvalidInput("agent.yaml", "the machine has no name", "set 'machine'");
  if (!IsName(config->machine)) {
    return InvalidInput("agent.yaml machine", absl::StrCat("'", config->machine, "'"),
                        "use [a-z0-9][a-z0-9._-]{0,62}");
  }
  if (access(config->guard.c_str(), X_OK) != 0) {
    return Precondition(config->guard, "the guard's program cannot be executed", "install it or set 'guard'");
  }
  return absl::OkStatus();
}

}  // namespace poolmark::agent
