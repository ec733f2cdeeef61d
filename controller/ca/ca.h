// The cluster's certificate authority: one P-256 CA whose key never leaves its directory. Signs what tokens
// allow, remembers what it signed, keeps the list of revoked serials. Directory 0700, key 0600:
//   ca.pem ca.key cluster.json issued.jsonl revoked.json tokens/
// The daemon and the `poolmark-controller` commands use one directory at the same time; writers take a file
// lock. Thread-safe.
#pragma once
#include <chrono>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "common/base/clock.h"
#include "common/base/result.h"
#include "common/rpc/identity.h"
#include "common/rpc/tls.h"
#include "controller/ca/tokens.h"

namespace poolmark::controller {

inline constexpr std::chrono::hours kMachineLifetime{30 * 24};
inline constexpr std::chrono::hours kUserLifetime{90 * 24};
inline constexpr std::chrono::hours kAuthorityLifetime{10 * 365 * 24};

struct IssuedCertificate {
  std::string serial;
  std::string name;
  rpc::Role role = rpc::Role::kNone;
  Nanoseconds not_after{};
  bool revoked = false;
};

class Authority {
 public:
  // Makes key and certificate; refuses a directory that has one.
  static Result<std::unique_ptr<Authority>> Create(const std::string& dir, const std::string& cluster,
                                                   const Clock& clock);
  static Result<std::unique_ptr<Authority>> Open(const std::string& dir, const Clock& clock);
  ~Authority();

  const std::string& cluster() const;
  const std::string& ca_pem() const;
  // SHA-256 of the CA certificate (DER): what tokens carry.
  const std::string& ca_sha256() const;

  // Signs a request for exactly this name and role: the request's key must be P-256, its common name `name`.
  // Recorded in issued.jsonl before it is returned. The text has the leaf first, then the CA.
  Result<std::string> Sign(const std::string& request_pem, rpc::Role role, const std::string& name,
                           Nanoseconds lifetime);
  // The same for the holder of `serial`, which must not have been revoked: looked up and signed under one
  // lock, so that a revocation finds either no renewed certificate to come or one that it covers.
  Result<std::string> Renew(const std::string& request_pem, rpc::Role role, const std::string& name,
                            const std::string& serial);
  // Uses a token up and signs for its name and role, under one lock as well. A request that cannot be signed
  // leaves the token good.
  struct Enrolled {
    TokenGrant grant;
    std::string certificate_pem;
  };
  Result<Enrolled> Enroll(TokenStore& tokens, const std::string& secret, const std::string& name,
                          const std::string& request_pem);
  // Key, request and certificate at once, for parties on this machine.
  Result<rpc::IdentityText> Issue(rpc::Role role, const std::string& name, Nanoseconds lifetime);

  // Revokes every certificate of a machine or a user that is still within its life, and withdraws the tokens
  // of the name that nobody has used. Returns how many certificates.
  Result<size_t> Revoke(bool machine, const std::string& name);
  // Re-reads revoked.json when it changed, at most once a second.
  bool IsRevoked(const std::string& serial) const;
  // Of certificates that have not expired; goes to agents with every heartbeat.
  std::vector<std::string> RevokedSerials() const;
  // Newest first.
  Result<std::vector<IssuedCertificate>> Issued() const;
  // When the newest certificate of each machine ends. Kept until a further one is issued.
  std::shared_ptr<const std::map<std::string, Nanoseconds>> MachineEnds() const;

 private:
  Authority();
  // The directory's lock is held.
  Result<std::string> SignLocked(const std::string& request_pem, rpc::Role role, const std::string& name,
                                 Nanoseconds lifetime);
  struct State;
  std::unique_ptr<State> state_;
};

// The life of a role's certificates.
Nanoseconds LifetimeOf(rpc::Role role);

}  // namespace poolmark::controller
