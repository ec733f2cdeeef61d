// Making X.509 certificates. Pure but for the random serial. For ca.cpp (and tests that need odd
// certificates).
#pragma once
#include <string>
#include <vector>

#include "common/base/clock.h"
#include "common/base/result.h"

namespace poolmark::controller {

struct CertificatePlan {
  std::string common_name;
  std::vector<std::string> uris;
  std::vector<std::string> dns_names;
  Nanoseconds not_before{};  // wall time
  Nanoseconds not_after{};
  bool is_ca = false;
  bool serves = false;  // may be a TLS server
};

// Self-signed, for a CA.
Result<std::string> SelfSign(const std::string& key_pem, const CertificatePlan& plan);
// Signs the request's key. Refuses requests that do not prove possession of the key, or whose key is not
// P-256, or whose common name differs from the plan's.
Result<std::string> SignRequest(const std::string& request_pem, const CertificatePlan& plan,
                                const std::string& ca_pem, const std::string& ca_key_pem);

}  // namespace poolmark::controller
