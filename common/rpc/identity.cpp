#include "common/rpc/identity.h"

#include <grpcpp/security/auth_context.h>
#include <grpcpp/server_context.h>

#include <mutex>
#include <unordered_map>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/base/units.h"
#include "common/rpc/pki.h"

namespace poolmark::rpc {
namespace {

struct RoleWord {
  Role role;
  std::string_view name;
};
constexpr RoleWord kRoles[] = {{Role::kViewer, "viewer"},     {Role::kAutomation, "automation"},
                               {Role::kOperator, "operator"}, {Role::kAdmin, "admin"},
                               {Role::kAgent, "agent"},       {Role::kController, "controller"}};
constexpr std::string_view kScheme = "spiffe://";

Status Denied(std::string code, std::string message, std::string hint) {
  return ToStatus(
      Error{absl::StatusCode::kPermissionDenied, std::move(code), "", std::move(message), std::move(hint)});
}

struct Known {
  std::string serial;
  Nanoseconds not_after{};
};

// Certificates are few and calls many: what is in them is remembered by their text.
Result<Known> KnownOfPem(const std::string& pem) {
  static std::mutex mutex;  // guards `known`
  static std::unordered_map<std::string, Known> known;
  {
    std::lock_guard lock(mutex);
    auto found = known.find(pem);
    if (found != known.end()) return found->second;
  }
  POOLMARK_ASSIGN_OR_RETURN(CertificateInfo info, ParseCertificate(pem));
  std::lock_guard lock(mutex);
  if (known.size() > 8192) known.clear();
  return known[pem] = {info.serial, info.not_after};
}

}  // namespace

std::optional<Role> ParseRole(std::string_view text) {
  for (const RoleWord& word : kRoles) {
    if (word.name == text) return word.role;
  }
  return std::nullopt;
}

std::string RoleName(Role role) {
  for (const RoleWord& word : kRoles) {
    if (word.role == role) return std::string(word.name);
  }
  return "none";
}

std::string SpiffeUri(const std::string& cluster, Role role, const std::string& name) {
  return absl::StrCat("spiffe://", cluster, "/", RoleName(role), "/", name);
}

Result<Identity> ParseSpiffeUri(std::string_view text) {
  const std::string uri(text);
  const std::string form = "the form is spiffe://<cluster>/<role>/<name>";
  if (uri.rfind(kScheme, 0) != 0)
    return InvalidInput("identity", absl::StrCat("'", uri, "' is no identity"), form);
  std::vector<std::string> parts = absl::StrSplit(uri.substr(kScheme.size()), '/');
  if (parts.size() != 3 || !IsName(parts[0]) || !IsName(parts[2])) {
    return InvalidInput("identity", absl::StrCat("'", uri, "' is no identity"), form);
  }
  std::optional<Role> role = ParseRole(parts[1]);
  if (!role) return InvalidInput("identity", absl::StrCat("'", parts[1], "' is no role"), form);
  return Identity{parts[0], *role, parts[2], "", Nanoseconds(0)};
}

std::string ServerName(Role role, const std::string& name) {
  if (role == Role::kController) return "controller.poolmark";
  return absl::StrCat(name, ".", RoleName(role), ".poolmark");
}

Result<Identity> IdentityOf(const grpc::AuthContext& context) {
  if (!context.IsPeerAuthenticated()) {
    return Denied("no_identity", "the caller shows no certificate", "log in with 'poolmark login TOKEN'");
  }
  std::vector<std::string> uris;
  for (const grpc::string_ref& value : context.FindPropertyValues("x509_subject_alternative_name")) {
    std::string text(value.data(), value.size());
    if (text.rfind(kScheme, 0) == 0) uris.push_back(std::move(text));
  }
  if (uris.size() != 1) {
    return Denied("no_identity",
                  absl::StrCat("the caller's certificate has ", uris.size(), " identities, not 1"),
                  "enrol again with a new token");
  }
  auto identity = ParseSpiffeUri(uris.front());
  if (!identity.ok()) return Denied("no_identity", std::string(identity.status().message()), "");
  auto pems = context.FindPropertyValues("x509_pem_cert");
  if (pems.size() != 1) return Denied("no_identity", "the caller's certificate cannot be read", "");
  auto known = KnownOfPem(std::string(pems.front().data(), pems.front().size()));
  if (!known.ok()) return Denied("no_identity", std::string(known.status().message()), "");
  identity->serial = known->serial;
  identity->not_after = known->not_after;
  return identity;
}

Result<Identity> CallerOf(const grpc::ServerContextBase& context) {
  auto auth = context.auth_context();
  if (!auth) return Denied("no_identity", "the call has no security context", "");
  return IdentityOf(*auth);
}

Status MayChangeJobOf(const Identity& caller, const std::string& owner) {
  if (caller.role == Role::kOperator || caller.role == Role::kAdmin) return absl::OkStatus();
  if (caller.role == Role::kAutomation && caller.name == owner) return absl::OkStatus();
  return Denied(
      "not_owner",
      absl::StrCat("'", caller.name, "' (", RoleName(caller.role), ") may not change a job of '", owner, "'"),
      "ask its owner or an operator");
}

Status MayActAsMachine(const Identity& caller, const std::string& machine) {
  if (caller.role == Role::kAgent && caller.name == machine) return absl::OkStatus();
  return Denied("not_this_machine",
                absl::StrCat("the certificate of '", caller.name, "' (", RoleName(caller.role),
                             ") does not speak for machine '", machine, "'"),
                "enrol the machine under its own name");
}

Status MayRevoke(const Identity& caller) {
  if (caller.role == Role::kAdmin) return absl::OkStatus();
  return Denied("needs_admin",
                absl::StrCat("'", caller.name, "' (", RoleName(caller.role), ") may not revoke certificates"),
                "ask an admin");
}

}  // namespace poolmark::rpc
