// Enrolment from the side that wants a certificate: `poolmark-agent join TOKEN`, `poolmark login TOKEN`.
// The key is made here and stays here. The server is believed only when the CA in its chain has the digest
// that the token carries, and when that CA certifies it as the controller. Thread-safe.
#pragma once
#include <string>

#include "common/base/clock.h"
#include "common/base/result.h"
#include "common/rpc/tls.h"
#include "common/rpc/token.h"

namespace poolmark::rpc {

struct Enrolled {
  IdentityText identity;
  std::string name;
  Role role = Role::kNone;
  std::string controller_address;
  std::string cluster;
};

// Install the identity with InstallIdentity afterwards: the token is used up once this returns OK.
Result<Enrolled> Enroll(const std::string& token_text, const Clock& clock = RealClock());

// The certificate with this digest from the chain that a TLS server shows; within 10 s.
Result<std::string> FetchPinnedCa(const std::string& address, const std::string& ca_sha256);

}  // namespace poolmark::rpc
