// Keys, certificate requests and certificates (P-256, PEM). Behind it: OpenSSL. Signing is the controller's
// (controller/ca); here is what every party needs. Functions are thread-safe.
#pragma once
#include <string>
#include <vector>

#include "common/base/clock.h"
#include "common/base/result.h"

namespace poolmark::rpc {

struct CertificateInfo {
  std::string serial;  // lowercase hex
  std::string common_name;
  std::vector<std::string> uris;       // SAN URIs
  std::vector<std::string> dns_names;  // SAN DNS names
  Nanoseconds not_before{};            // wall time
  Nanoseconds not_after{};
  bool is_ca = false;
  std::string sha256;  // of the DER form, 64 hex
};

// A new private key, PKCS#8 PEM. It never leaves the machine it was made on.
Result<std::string> MakeKey();
// A request for `common_name`, signed with the key.
Result<std::string> MakeRequest(const std::string& key_pem, const std::string& common_name);
// Of the first certificate of a PEM text.
Result<CertificateInfo> ParseCertificate(const std::string& pem);
// Every certificate of a bundle.
Result<std::vector<CertificateInfo>> ParseBundle(const std::string& pem);
// Whether the key belongs to the first certificate of the chain, that to one CA of the bundle, and the time
// is within its life. gRPC 1.51 aborts the process on an empty certificate file, so files are checked before
// use.
Status CheckKeyPair(const std::string& certificate_pem, const std::string& key_pem, const std::string& ca_pem,
                    Nanoseconds wall);

}  // namespace poolmark::rpc
