// Who calls: the identity in the peer's certificate, its SAN URI spiffe://<cluster>/<role>/<name>.
// Nothing else (address, common name, metadata) says who somebody is. Values; functions are thread-safe.
#pragma once
#include <optional>
#include <string>
#include <string_view>

#include "common/base/clock.h"
#include "common/base/result.h"

namespace grpc {
class AuthContext;
class ServerContextBase;
}  // namespace grpc

namespace poolmark::rpc {

// Bits, so that a rule can name several.
enum class Role : unsigned {
  kNone = 0,
  kViewer = 1,       // reads jobs, machines, results
  kAutomation = 2,   // submits, and cancels or deletes its own jobs
  kOperator = 4,     // all jobs, states of machines
  kAdmin = 8,        // revocation too
  kAgent = 16,       // a machine: registers, beats, renews
  kController = 32,  // commands agents
};

struct Identity {
  std::string cluster;
  Role role = Role::kNone;
  std::string name;
  std::string serial;        // of the certificate, lowercase hex
  Nanoseconds not_after{0};  // wall time of the certificate's end; 0: unknown
};

// "viewer" … "controller"; nothing for other words.
std::optional<Role> ParseRole(std::string_view text);
std::string RoleName(Role role);
// The URI of an identity, and back. Errors name the text and the form.
std::string SpiffeUri(const std::string& cluster, Role role, const std::string& name);
Result<Identity> ParseSpiffeUri(std::string_view uri);

// The DNS name in a server's certificate, by which a client knows whom it reached whatever address it
// dialled: "controller.poolmark", "<machine>.agent.poolmark".
std::string ServerName(Role role, const std::string& name);

// Its certificate's life has ended since its connection was made: TLS looks at it then and never again.
inline bool HasExpired(const Identity& identity, Nanoseconds wall) {
  return identity.not_after.count() != 0 && identity.not_after < wall;
}

// PERMISSION_DENIED (code "no_identity") when the peer has no certificate or no single valid URI in it.
Result<Identity> IdentityOf(const grpc::AuthContext& context);
// For handlers: who calls. The identity was checked before the handler ran.
Result<Identity> CallerOf(const grpc::ServerContextBase& context);

// Handler-level rules that need more than the role:
// automation may change only its own jobs; operator and admin all.
Status MayChangeJobOf(const Identity& caller, const std::string& owner);
// An agent speaks only for itself.
Status MayActAsMachine(const Identity& caller, const std::string& machine);
// Revoking a machine or a user is the CA's matter.
Status MayRevoke(const Identity& caller);

}  // namespace poolmark::rpc
