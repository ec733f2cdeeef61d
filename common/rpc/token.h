// The one-time token of an enrolment, as one word for people to copy: where to enrol, which CA must answer,
// for whom it is, and a 128-bit secret. Anyone who has it can become that machine or user once, until it
// expires. Pure functions.
#pragma once
#include <string>
#include <string_view>

#include "common/base/result.h"
#include "common/rpc/identity.h"

namespace poolmark::rpc {

struct EnrollToken {
  std::string address;    // of the enrolment listener
  std::string ca_sha256;  // of the CA certificate, 64 hex
  std::string name;
  Role role = Role::kNone;
  std::string secret;  // 32 hex
};

// "pmk1-…", letters, digits, '-' and '_'.
std::string FormatToken(const EnrollToken& token);
// Errors never contain the text, which is a secret.
Result<EnrollToken> ParseToken(std::string_view text);

}  // namespace poolmark::rpc
