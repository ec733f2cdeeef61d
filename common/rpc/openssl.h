// Keys, certificates and requests from their PEM texts. For .cpp files only.
#pragma once
#include <string>

#include "common/base/openssl.h"

namespace poolmark::rpc {

// Of PEM texts; null with a cleared error queue when the text holds none.
KeyPtr ReadKeyPem(const std::string& pem);
CertPtr ReadCertPem(const std::string& pem);
RequestPtr ReadRequestPem(const std::string& pem);
std::string CertPem(X509* certificate);

}  // namespace poolmark::rpc
