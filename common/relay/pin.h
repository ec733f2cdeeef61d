// The pin of an OpenSSL certificate. For .cpp files of this directory only.
#pragma once
#include <openssl/x509.h>

#include <string>

namespace poolmark::relay {

// SHA-256 of its SubjectPublicKeyInfo, 64 hex digits; "" when it has none.
std::string PinOf(X509* certificate);

}  // namespace poolmark::relay
