// Owners of OpenSSL's objects, and its error text. For .cpp files only.
#pragma once
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include <memory>
#include <string>

#include "common/base/result.h"

namespace poolmark {

template <auto Free>
struct OpensslFree {
  template <class T>
  void operator()(T* object) const {
    Free(object);
  }
};
using KeyPtr = std::unique_ptr<EVP_PKEY, OpensslFree<EVP_PKEY_free>>;
using CertPtr = std::unique_ptr<X509, OpensslFree<X509_free>>;
using RequestPtr = std::unique_ptr<X509_REQ, OpensslFree<X509_REQ_free>>;
using BioPtr = std::unique_ptr<BIO, OpensslFree<BIO_free_all>>;
using NamePtr = std::unique_ptr<X509_NAME, OpensslFree<X509_NAME_free>>;
using ExtensionPtr = std::unique_ptr<X509_EXTENSION, OpensslFree<X509_EXTENSION_free>>;
using StorePtr = std::unique_ptr<X509_STORE, OpensslFree<X509_STORE_free>>;
using StoreContextPtr = std::unique_ptr<X509_STORE_CTX, OpensslFree<X509_STORE_CTX_free>>;
using SslContextPtr = std::unique_ptr<SSL_CTX, OpensslFree<SSL_CTX_free>>;
using SslPtr = std::unique_ptr<SSL, OpensslFree<SSL_free>>;

// Takes the newest error off OpenSSL's queue and clears the rest.
inline Status OpensslError(const std::string& doing) {
  char text[256] = "no detail";
  unsigned long code = ERR_peek_last_error();  // NOLINT: OpenSSL's type
  if (code != 0) ERR_error_string_n(code, text, sizeof text);
  ERR_clear_error();
  return Internal("tls", doing + ": " + text);
}

inline BioPtr ReadBio(const std::string& text) {
  return BioPtr(BIO_new_mem_buf(text.data(), static_cast<int>(text.size())));
}
inline std::string TextOf(BIO* bio) {
  char* data = nullptr;
  long size = BIO_get_mem_data(bio, &data);  // NOLINT
  return std::string(data, static_cast<size_t>(size));
}

}  // namespace poolmark
