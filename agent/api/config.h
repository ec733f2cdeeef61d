// agent.yaml: how one machine's agent is set up. Read once at start. Values.
#pragma once
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
  std::string run_as;  // user that engines run as; empty: the agent's own
  std::string catalogue_dir = "/usr/share/poolmark/catalogue";
  std::string exporters_file;                    // empty: own readers only
  Nanoseconds grace = std::chrono::seconds(30);  // SIGTERM to SIGKILL when a lease runs out
  Nanoseconds kill_wait = std::chrono::seconds(15);
  bool use_cgroup = true;                     // `containment: subreaper` turns it off
  std::optional<uint64_t> log_segment_bytes;  // ten of them are kept for each process
};

// All errors at once, with line and column; unknown keys are errors with a suggestion.
Result<AgentConfig> ParseAgentConfig(std::string_view yaml, const std::string& where);
Result<AgentConfig> LoadAgentConfig(const std::string& path);
// Fills what depends on other values and makes paths absolute.
Status CompleteConfig(AgentConfig* config);

}  // namespace poolmark::agent
