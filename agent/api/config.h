// agent.yaml: how one machine's agent is set up. Read once at start. Values.
#pragma once
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "common/base/clock.h"
#include "common/base/result.h"

namespace poolmark::agent {

struct AgentConfig {
  std::string machine;                    // its name in pools; empty: the certificate's
  std::string listen = "127.0.0.1:7445";  // where the controller dials
  bool allow_any_address = false;         // 0.0.0.0 and :: only when this says so
  std::string advertise;                  // what the controller is told to dial; empty: `listen`
  std::string controller;                 // host:port; empty: what enrolment told
  std::string state_dir = "/var/lib/poolmark-agent";
  std::string work_dir = "/var/lib/poolmark-work";
  std::vector<std::string> directories;  // further places where jobs may make directories (disk tiers)
  std::string tls_dir;                   // empty: <state_dir>/tls
  std::string allow_file = "/etc/poolmark/allow.yaml";
  std::string secrets_dir = "/etc/poolmark/secrets";
  std::string guard;   // empty: poolmark-guard beside this program
  std::string run_as;  // user that engines run as; see EnginesUser
  std::string catalogue_dir = "/usr/share/poolmark/catalogue";
  std::string exporters_file;                    // empty: own readers only
  Nanoseconds grace = std::chrono::seconds(30);  // SIGTERM to SIGKILL when a lease runs out
  Nanoseconds kill_wait = std::chrono::seconds(15);
  bool use_cgroup = true;                     // `containment: subreaper` turns it off
  std::optional<uint64_t> log_segment_bytes;  // ten of them are kept for each process
  uint64_t keep_logs_bytes = 2ull << 30;      // of ended runs; the newest one stays whatever it has
};

// All errors at once, with line and column; unknown keys are errors with a suggestion.
Result<AgentConfig> ParseAgentConfig(std::string_view yaml, const std::string& where);
Result<AgentConfig> LoadAgentConfig(const std::string& path);
inline constexpr char kEnginesUser[] = "poolmark-run";  // made by the package
// Who engines run as: `run_as`; empty: the agent's own user, but for an agent that is root kEnginesUser.
// Engines that are root could rewrite ledgers, logs and the allow-list, so an agent that is root refuses to
// start when there is no such user, until somebody writes `run_as: root`. An empty answer: the agent's own.
Result<std::string> EnginesUser(const AgentConfig& config, unsigned agent_uid,
                                const std::function<bool(const std::string& user)>& exists);
// Fills what depends on other values and makes paths absolute.
Status CompleteConfig(AgentConfig* config);

}  // namespace poolmark::agent
