// Keys of one relay link: made for one job, known by the digest of their public half. No CA stands behind
// them: an end accepts the keys it was told and no other. Thread-safe.
#pragma once
#include <string>

#include "common/base/clock.h"
#include "common/base/result.h"

namespace poolmark::relay {

struct Key {
  std::string private_pem;
  std::string certificate_pem;  // self-signed, CA:FALSE; carries the public key, its name is for logs only
  std::string pin;              // SHA-256 of the public key (SubjectPublicKeyInfo, DER), 64 hex digits
};

// P-256. `wall` is now; the certificate holds from an hour before (clocks differ) for `life`.
Result<Key> MakeKey(const std::string& name, Nanoseconds wall, Nanoseconds life);

// The pin of the first certificate of a PEM text.
Result<std::string> PinOf(const std::string& certificate_pem);

}  // namespace poolmark::relay
