#include "controller/ca/settings.h"

#include <sys/stat.h>

#include <cstdio>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "common/base/files.h"
#include "common/base/json.h"
#include "common/base/log.h"
#include "common/rpc/acceptor.h"
#include "common/rpc/address.h"
#include "common/rpc/contexts.h"
#include "common/rpc/tls.h"
#include "common/rpc/token.h"
#include "controller/ca/ca.h"
#include "controller/ca/tokens.h"

namespace poolmark::controller {
namespace {

constexpr int kSettingsVersion = 1;

Status CheckListen(const char* option, const std::string& address, bool allow_any) {
  auto parsed = rpc::ParseHostPort(address);
  if (!parsed.ok())
    return InvalidInput(option, ErrorOf(parsed.status()).message,
                        "the form is host:port or [v6-address]:port");
  if (rpc::IsAnyAddress(parsed->host) && !allow_any) {
    return InvalidInput(option, absl::StrCat("'", address, "' listens on every address of the machine"),
                        "name one address, or give --allow-any-address");
  }
  return absl::OkStatus();
}

Status CheckAdvertised(const char* option, const std::string& address) {
  if (address.empty()) return absl::OkStatus();
  auto parsed = rpc::ParseHostPort(address);
  if (!parsed.ok())
    return InvalidInput(option, ErrorOf(parsed.status()).message,
                        "the form is host:port or [v6-address]:port");
  if (rpc::IsAnyAddress(parsed->host) || parsed->port == 0) {
    return InvalidInput(option, absl::StrCat("nobody can dial '", address, "'"),
                        "give the address that others reach");
  }
  return absl::OkStatus();
}

Status CheckSettings(const Settings& settings) {
  POOLMARK_RETURN_IF_ERROR(CheckListen("--listen", settings.listen, settings.allow_any_address));
  POOLMARK_RETURN_IF_ERROR(
      CheckListen("--enroll-listen", settings.enroll_listen, settings.allow_any_address));
  POOLMARK_RETURN_IF_ERROR(CheckAdvertised("--advertise", settings.advertise));
  POOLMARK_RETURN_IF_ERROR(CheckAdvertised("--enroll-advertise", settings.enroll_advertise));
  auto any = [](const std::string& address) { return rpc::IsAnyAddress(rpc::ParseHostPort(address)->host); };
  if (any(settings.listen) && settings.advertise.empty())
    return InvalidInput("--advertise", "is needed with a listener on every address");
  if (any(settings.enroll_listen) && settings.enroll_advertise.empty()) {
    return InvalidInput("--enroll-advertise", "is needed with a listener on every address");
  }
  return absl::OkStatus();
}

Status SaveSettings(const std::string& state, const Settings& settings) {
  Json json = {{"schema_version", kSettingsVersion},
               {"listen", settings.listen},
               {"enroll_listen", settings.enroll_listen},
               {"advertise", settings.advertise},
               {"enroll_advertise", settings.enroll_advertise},
               {"allow_any_address", settings.allow_any_address}};
  POOLMARK_ASSIGN_OR_RETURN(std::string text, DumpJson(json, 2));
  return AtomicWriteFile(JoinPath(state, "controller.json"), text + "\n", 0600);
}

// host:0 becomes host:port with a port that is free now.
Result<std::string> WithPort(const std::string& address) {
  POOLMARK_ASSIGN_OR_RETURN(rpc::HostPort parsed, rpc::ParseHostPort(address));
  if (parsed.port != 0) return address;
  POOLMARK_ASSIGN_OR_RETURN(auto acceptor, rpc::Acceptor::Listen(parsed.host, 0, {}));
  return rpc::FormatHostPort(parsed.host, acceptor->port());
}

}  // namespace

std::string AuthorityDir(const std::string& state) {
  return JoinPath(state, "ca");
}
std::string IdentityDir(const std::string& state) {
  return JoinPath(state, "tls");
}

Status Init(const InitOptions& given, const Clock& clock) {
  InitOptions options = given;
  POOLMARK_RETURN_IF_ERROR(CheckSettings(options.settings));
  // Contexts and tokens carry these addresses: a port that the system may choose is chosen once, now.
  for (std::string* address : {&options.settings.listen, &options.settings.enroll_listen}) {
    POOLMARK_ASSIGN_OR_RETURN(*address, WithPort(*address));
  }
  POOLMARK_RETURN_IF_ERROR(MakeDirs(options.state, 0700));
  // Nobody lists it; what others must read (inputs of jobs, by their digest) they reach by name.
  if (chmod(options.state.c_str(), 0711) != 0) return FromErrno(options.state, "closing it to others", errno);
  POOLMARK_ASSIGN_OR_RETURN(auto authority,
                            Authority::Create(AuthorityDir(options.state), options.cluster, clock));
  POOLMARK_ASSIGN_OR_RETURN(
      auto own, authority->Issue(rpc::Role::kController, "controller", LifetimeOf(rpc::Role::kController)));
  POOLMARK_RETURN_IF_ERROR(rpc::InstallIdentity(IdentityDir(options.state), own, clock));
  POOLMARK_RETURN_IF_ERROR(SaveSettings(options.state, options.settings));
  if (options.admin.empty()) return absl::OkStatus();
  POOLMARK_ASSIGN_OR_RETURN(auto contexts, rpc::ContextStore::Load(options.config_dir));
  POOLMARK_ASSIGN_OR_RETURN(
      auto admin, authority->Issue(rpc::Role::kAdmin, options.admin, LifetimeOf(rpc::Role::kAdmin)));
  return contexts.Add(options.context, ControllerAddress(options.settings, options.settings.listen),
                      options.cluster, admin, clock);
}

Status EnsureIdentity(const std::string& state, Authority& authority, const Clock& clock) {
  auto current = rpc::LoadIdentity(IdentityDir(state), clock);
  if (current.ok()) return absl::OkStatus();
  Log(LogLevel::kWarning, "certificate.replaced", {{"why", std::string(current.status().message())}});
  POOLMARK_ASSIGN_OR_RETURN(
      auto fresh, authority.Issue(rpc::Role::kController, "controller", LifetimeOf(rpc::Role::kController)));
  return rpc::InstallIdentity(IdentityDir(state), fresh, clock);
}

Result<Settings> LoadSettings(const std::string& state) {
  const std::string path = JoinPath(state, "controller.json");
  if (!FileExists(path))
    return NotFound(path, "this is no state directory of a controller",
                    "make one with 'poolmark-controller init'");
  POOLMARK_ASSIGN_OR_RETURN(std::string text, ReadFile(path, 1u << 20));
  POOLMARK_ASSIGN_OR_RETURN(Json json, ParseJson(text, path));
  if (!json.is_object() || !json.contains("schema_version") || json["schema_version"] != kSettingsVersion) {
    return InvalidInput(path, absl::StrCat("schema_version is not ", kSettingsVersion),
                        "this version of poolmark-controller cannot use it");
  }
  Settings settings;
  for (const auto& [key, value] : json.items()) {
    if (key == "schema_version") continue;
    std::string* text_field = key == "listen"             ? &settings.listen
                              : key == "enroll_listen"    ? &settings.enroll_listen
                              : key == "advertise"        ? &settings.advertise
                              : key == "enroll_advertise" ? &settings.enroll_advertise
                                                          : nullptr;
    if (text_field != nullptr && value.is_string()) {
      *text_field = value.get<std::string>();
    } else if (key == "allow_any_address" && value.is_boolean()) {
      settings.allow_any_address = value.get<bool>();
    } else {
      return InvalidInput(path, absl::StrCat("'", key, "' is unknown or of the wrong type"),
                          "known: listen, enroll_listen, advertise, enroll_advertise, allow_any_address");
    }
  }
  POOLMARK_RETURN_IF_ERROR(CheckSettings(settings));
  return settings;
}

Status WriteRunning(const std::string& state, const std::string& listen, const std::string& enroll_listen,
                    const std::string& web) {
  Json json = {{"listen", listen}, {"enroll_listen", enroll_listen}};
  if (!web.empty()) json["web"] = web;
  POOLMARK_ASSIGN_OR_RETURN(std::string text, DumpJson(json, 2));
  return AtomicWriteFile(JoinPath(state, "running.json"), text + "\n", 0600);
}

void RemoveRunning(const std::string& state) {
  std::remove(JoinPath(state, "running.json").c_str());
}

Result<std::string> EnrollAddress(const std::string& state) {
  POOLMARK_ASSIGN_OR_RETURN(Settings settings, LoadSettings(state));
  if (!settings.enroll_advertise.empty()) return settings.enroll_advertise;
  const std::string path = JoinPath(state, "running.json");
  if (FileExists(path)) {
    POOLMARK_ASSIGN_OR_RETURN(std::string text, ReadFile(path, 1u << 20));
    POOLMARK_ASSIGN_OR_RETURN(Json json, ParseJson(text, path));
    if (json.is_object() && json.contains("enroll_listen") && json["enroll_listen"].is_string())
      return json["enroll_listen"].get<std::string>();
  }
  if (rpc::ParseHostPort(settings.enroll_listen)->port == 0) {
    return Precondition(path,
                        "the enrolment port is chosen when the controller starts, and it is not running",
                        "start 'poolmark-controller serve' first");
  }
  return settings.enroll_listen;
}

std::string ControllerAddress(const Settings& settings, const std::string& listening) {
  return settings.advertise.empty() ? listening : settings.advertise;
}

Result<std::string> CreateToken(const std::string& state, const std::string& name, rpc::Role role,
                                Nanoseconds life, const Clock& clock) {
  POOLMARK_ASSIGN_OR_RETURN(std::string address, EnrollAddress(state));
  POOLMARK_ASSIGN_OR_RETURN(auto authority, Authority::Open(AuthorityDir(state), clock));
  TokenStore tokens(AuthorityDir(state), clock);
  POOLMARK_ASSIGN_OR_RETURN(std::string secret, tokens.Create(name, role, life));
  return rpc::FormatToken({address, authority->ca_sha256(), name, role, secret});
}

}  // namespace poolmark::controller
