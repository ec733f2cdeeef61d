// What `poolmark-controller init` lays down in the state directory, and what `serve` and `token create` read.
//   <state>/controller.json   addresses            <state>/ca    the CA (ca.h)
//   <state>/running.json      while serve runs     <state>/tls   the controller's own identity (rpc/tls.h)
// Functions are thread-safe.
#pragma once
#include <optional>
#include <string>

#include "common/base/clock.h"
#include "common/base/result.h"
#include "common/rpc/identity.h"

namespace poolmark::controller {

class Authority;

struct Settings {
  std::string listen = "127.0.0.1:7443";         // ControllerService, AgentRegistryService
  std::string enroll_listen = "127.0.0.1:7444";  // EnrollService
  // What others are told to dial, where that differs from the address listened on (0.0.0.0, NAT). Empty: the
  // same.
  std::string advertise;
  std::string enroll_advertise;
  bool allow_any_address = false;
};

std::string AuthorityDir(const std::string& state);
std::string IdentityDir(const std::string& state);

struct InitOptions {
  std::string state;
  std::string cluster;  // name
  Settings settings;
  std::string admin;       // first user; empty: none
  std::string context;     // its CLI context
  std::string config_dir;  // of the CLI
};
// Makes CA, the controller's certificate, settings and the first admin's CLI context. Refuses a state
// directory that has a CA. The directory gets mode 0700.
Status Init(const InitOptions& options, const Clock& clock);

// Gives the controller a new certificate when it has none that is valid: after a month switched off, say.
Status EnsureIdentity(const std::string& state, Authority& authority, const Clock& clock);

// Unknown keys and other schema versions are errors.
Result<Settings> LoadSettings(const std::string& state);

// The addresses that a running `serve` listens on, with real ports.
struct Running {
  std::string listen;
  std::string enroll_listen;
};
// `web`: of the status page; empty: none.
Status WriteRunning(const std::string& state, const std::string& listen, const std::string& enroll_listen,
                    const std::string& web);
void RemoveRunning(const std::string& state);

// The address to enrol at, for tokens: the advertised one, else where serve listens, else where it will.
Result<std::string> EnrollAddress(const std::string& state);
// The address that enrolled parties are told to dial.
std::string ControllerAddress(const Settings& settings, const std::string& listening);

// One token as text, for a machine or a user.
Result<std::string> CreateToken(const std::string& state, const std::string& name, rpc::Role role,
                                Nanoseconds life, const Clock& clock);

}  // namespace poolmark::controller
