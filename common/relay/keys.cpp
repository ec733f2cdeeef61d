#include "common/relay/keys.h"

#include <openssl/rand.h>

#include <chrono>
#include <memory>

#include "common/base/digest.h"
#include "common/base/openssl.h"
#include "common/relay/pin.h"

namespace poolmark::relay {

std::string PinOf(X509* certificate) {
  unsigned char* der = nullptr;
  const int size = i2d_X509_PUBKEY(X509_get_X509_PUBKEY(certificate), &der);
  if (size <= 0) return "";
  const std::string pin =
      Sha256Hex(std::string_view(reinterpret_cast<const char*>(der), static_cast<size_t>(size)));
  OPENSSL_free(der);
  return pin;
}

Result<std::string> PinOf(const std::string& certificate_pem) {
  BioPtr bio(BIO_new_mem_buf(certificate_pem.data(), static_cast<int>(certificate_pem.size())));
  CertPtr certificate(bio ? PEM_read_bio_X509(bio.get(), nullptr, nullptr, nullptr) : nullptr);
  ERR_clear_error();
  if (!certificate) return InvalidInput("relay certificate", "is no PEM certificate");
  return PinOf(certificate.get());
}

Result<Key> MakeKey(const std::string& name, Nanoseconds wall, Nanoseconds life) {
  KeyPtr key(EVP_EC_gen("P-256"));
  CertPtr certificate(X509_new());
  if (!key || !certificate) return OpensslError("making a key");
  unsigned char serial[16];
  if (RAND_bytes(serial, sizeof serial) != 1) return OpensslError("drawing a serial number");
  serial[0] &= 0x7f;
  BIGNUM* number = BN_bin2bn(serial, sizeof serial, nullptr);
  BN_to_ASN1_INTEGER(number, X509_get_serialNumber(certificate.get()));
  BN_free(number);
  X509_set_version(certificate.get(), X509_VERSION_3);
  const time_t now = std::chrono::duration_cast<std::chrono::seconds>(wall).count();
  const time_t end = now + std::chrono::duration_cast<std::chrono::seconds>(life).count();
  X509_NAME* subject = X509_get_subject_name(certificate.get());
  X509_EXTENSION* no_ca = X509V3_EXT_conf_nid(nullptr, nullptr, NID_basic_constraints, "critical,CA:FALSE");
  const bool filled =
      X509_time_adj_ex(X509_getm_notBefore(certificate.get()), 0, -3600, const_cast<time_t*>(&now)) !=
          nullptr &&
      X509_time_adj_ex(X509_getm_notAfter(certificate.get()), 0, 0, const_cast<time_t*>(&end)) != nullptr &&
      X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_UTF8,
                                 reinterpret_cast<const unsigned char*>(name.c_str()), -1, -1, 0) == 1 &&
      X509_set_issuer_name(certificate.get(), subject) == 1 && no_ca != nullptr &&
      X509_add_ext(certificate.get(), no_ca, -1) == 1 && X509_set_pubkey(certificate.get(), key.get()) == 1;
  X509_EXTENSION_free(no_ca);
  if (!filled || X509_sign(certificate.get(), key.get(), EVP_sha256()) == 0)
    return OpensslError("making a certificate");
  BioPtr private_text(BIO_new(BIO_s_mem())), public_text(BIO_new(BIO_s_mem()));
  if (!private_text || !public_text ||
      PEM_write_bio_PrivateKey(private_text.get(), key.get(), nullptr, nullptr, 0, nullptr, nullptr) != 1 ||
      PEM_write_bio_X509(public_text.get(), certificate.get()) != 1) {
    return OpensslError("writing the key");
  }
  return Key{TextOf(private_text.get()), TextOf(public_text.get()), PinOf(certificate.get())};
}

}  // namespace poolmark::relay
