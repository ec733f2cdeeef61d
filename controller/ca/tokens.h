// One-time enrolment tokens, a file each: tokens/<SHA-256 of the secret>.json; the secret itself is shown
// once and kept nowhere. Taking one is a rename, so of two takers one wins, also across processes and a
// crash. Thread-safe.
#pragma once
#include <string>

#include "common/base/clock.h"
#include "common/base/result.h"
#include "common/rpc/identity.h"

namespace poolmark::controller {

struct TokenGrant {
  std::string name;
  rpc::Role role = rpc::Role::kNone;
  std::string id;  // of the file
};

class TokenStore {
 public:
  // `dir` is the CA's directory.
  TokenStore(std::string dir, const Clock& clock) : dir_(std::move(dir)), clock_(clock) {}
  // Returns the secret. Clears expired ones away.
  Result<std::string> Create(const std::string& name, rpc::Role role, Nanoseconds life);
  // Uses the token up. `name` must be the token's. Errors: token_unknown, token_used, token_withdrawn,
  // token_expired, wrong_name.
  Result<TokenGrant> Take(const std::string& secret, const std::string& name);
  // Makes every unused token of a machine or a user worthless: after a revocation of the name.
  Status Withdraw(bool machine, const std::string& name);
  // Makes a token usable again whose taker made a mistake that gave it nothing.
  void PutBack(const TokenGrant& grant);

 private:
  std::string Path(const std::string& id, const char* state) const;
  const std::string dir_;
  const Clock& clock_;
};

}  // namespace poolmark::controller
