#include "common/rpc/pki.h"

#include <ctime>

#include "absl/strings/str_cat.h"
#include "common/base/digest.h"
#include "common/base/time_format.h"
#include "common/rpc/openssl.h"

namespace poolmark::rpc {
namespace {

// An encrypted key must be refused, never ask on the terminal.
int NoPassphrase(char*, int, int, void*) {
  return 0;
}

Nanoseconds WallOf(const ASN1_TIME* time) {
  std::tm broken{};
  if (ASN1_TIME_to_tm(time, &broken) != 1) return Nanoseconds{};
  return std::chrono::seconds(timegm(&broken));
}

std::string SerialOf(X509* certificate) {
  BIGNUM* number = ASN1_INTEGER_to_BN(X509_get0_serialNumber(certificate), nullptr);
  char* hex = BN_bn2hex(number);
  std::string text(hex);
  OPENSSL_free(hex);
  BN_free(number);
  for (char& c : text) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return text;
}

CertificateInfo InfoOf(X509* certificate) {
  CertificateInfo info;
  info.serial = SerialOf(certificate);
  char name[256] = "";
  X509_NAME_get_text_by_NID(X509_get_subject_name(certificate), NID_commonName, name, sizeof name);
  info.common_name = name;
  info.not_before = WallOf(X509_get0_notBefore(certificate));
  info.not_after = WallOf(X509_get0_notAfter(certificate));
  info.is_ca = X509_check_ca(certificate) == 1;
  auto* names =
      static_cast<GENERAL_NAMES*>(X509_get_ext_d2i(certificate, NID_subject_alt_name, nullptr, nullptr));
  for (int i = 0; names != nullptr && i < sk_GENERAL_NAME_num(names); ++i) {
    const GENERAL_NAME* entry = sk_GENERAL_NAME_value(names, i);
    if (entry->type != GEN_URI && entry->type != GEN_DNS) continue;
    std::string text(reinterpret_cast<const char*>(ASN1_STRING_get0_data(entry->d.ia5)),
                     static_cast<size_t>(ASN1_STRING_length(entry->d.ia5)));
    (entry->type == GEN_URI ? info.uris : info.dns_names).push_back(std::move(text));
  }
  if (names != nullptr) GENERAL_NAMES_free(names);
  unsigned char* der = nullptr;
  int size = i2d_X509(certificate, &der);
  if (size > 0)
    info.sha256 = Sha256Hex(std::string_view(reinterpret_cast<char*>(der), static_cast<size_t>(size)));
  OPENSSL_free(der);
  return info;
}

std::vector<CertPtr> ReadBundle(const std::string& pem) {
  std::vector<CertPtr> certificates;
  BioPtr bio = ReadBio(pem);
  while (X509* certificate = PEM_read_bio_X509(bio.get(), nullptr, NoPassphrase, nullptr))
    certificates.emplace_back(certificate);
  ERR_clear_error();  // the end of the text is an error to OpenSSL
  return certificates;
}

}  // namespace

KeyPtr ReadKeyPem(const std::string& pem) {
  BioPtr bio = ReadBio(pem);
  KeyPtr key(PEM_read_bio_PrivateKey(bio.get(), nullptr, NoPassphrase, nullptr));
  ERR_clear_error();
  return key;
}

CertPtr ReadCertPem(const std::string& pem) {
  BioPtr bio = ReadBio(pem);
  CertPtr certificate(PEM_read_bio_X509(bio.get(), nullptr, NoPassphrase, nullptr));
  ERR_clear_error();
  return certificate;
}

RequestPtr ReadRequestPem(const std::string& pem) {
  BioPtr bio = ReadBio(pem);
  RequestPtr request(PEM_read_bio_X509_REQ(bio.get(), nullptr, NoPassphrase, nullptr));
  ERR_clear_error();
  return request;
}

std::string CertPem(X509* certificate) {
  BioPtr bio(BIO_new(BIO_s_mem()));
  PEM_write_bio_X509(bio.get(), certificate);
  return TextOf(bio.get());
}

Result<std::string> MakeKey() {
  KeyPtr key(EVP_EC_gen("P-256"));
  if (!key) return OpensslError("making a P-256 key");
  BioPtr bio(BIO_new(BIO_s_mem()));
  if (PEM_write_bio_PKCS8PrivateKey(bio.get(), key.get(), nullptr, nullptr, 0, nullptr, nullptr) != 1)
    return OpensslError("writing a key");
  return TextOf(bio.get());
}

Result<std::string> MakeRequest(const std::string& key_pem, const std::string& common_name) {
  KeyPtr key = ReadKeyPem(key_pem);
  if (!key) return InvalidInput("key", "the private key cannot be read", "make a new one by enrolling again");
  RequestPtr request(X509_REQ_new());
  X509_NAME* name = X509_REQ_get_subject_name(request.get());
  if (X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_UTF8,
                                 reinterpret_cast<const unsigned char*>(common_name.data()),
                                 static_cast<int>(common_name.size()), -1, 0) != 1 ||
      X509_REQ_set_pubkey(request.get(), key.get()) != 1 ||
      X509_REQ_sign(request.get(), key.get(), EVP_sha256()) <= 0) {
    return OpensslError("making a certificate request");
  }
  BioPtr bio(BIO_new(BIO_s_mem()));
  if (PEM_write_bio_X509_REQ(bio.get(), request.get()) != 1)
    return OpensslError("writing a certificate request");
  return TextOf(bio.get());
}

Result<CertificateInfo> ParseCertificate(const std::string& pem) {
  CertPtr certificate = ReadCertPem(pem);
  if (!certificate) return InvalidInput("certificate", "no certificate in the text", "PEM is expected");
  return InfoOf(certificate.get());
}

Result<std::vector<CertificateInfo>> ParseBundle(const std::string& pem) {
  std::vector<CertificateInfo> infos;
  for (const CertPtr& certificate : ReadBundle(pem)) infos.push_back(InfoOf(certificate.get()));
  if (infos.empty()) return InvalidInput("certificate", "no certificate in the text", "PEM is expected");
  return infos;
}

Status CheckKeyPair(const std::string& certificate_pem, const std::string& key_pem, const std::string& ca_pem,
                    Nanoseconds wall) {
  std::vector<CertPtr> chain = ReadBundle(certificate_pem);
  KeyPtr key = ReadKeyPem(key_pem);
  std::vector<CertPtr> authorities = ReadBundle(ca_pem);
  if (chain.empty()) return InvalidInput("certificate", "the file holds no certificate", "enrol again");
  if (!key) return InvalidInput("key", "the file holds no readable private key", "enrol again");
  if (authorities.empty()) return InvalidInput("CA bundle", "the file holds no certificate", "enrol again");
  if (X509_check_private_key(chain.front().get(), key.get()) != 1) {
    ERR_clear_error();
    return InvalidInput("key", "the private key does not belong to the certificate", "enrol again");
  }
  StorePtr store(X509_STORE_new());
  for (const CertPtr& authority : authorities) X509_STORE_add_cert(store.get(), authority.get());
  StoreContextPtr context(X509_STORE_CTX_new());
  if (X509_STORE_CTX_init(context.get(), store.get(), chain.front().get(), nullptr) != 1)
    return OpensslError("checking a certificate");
  X509_STORE_CTX_set_time(context.get(), 0, static_cast<time_t>(wall / std::chrono::seconds(1)));
  if (X509_verify_cert(context.get()) != 1) {
    const char* why = X509_verify_cert_error_string(X509_STORE_CTX_get_error(context.get()));
    CertificateInfo info = InfoOf(chain.front().get());
    ERR_clear_error();
    return Precondition("certificate",
                        absl::StrCat("the certificate of '", info.common_name, "' (", IsoUtc(info.not_before),
                                     " to ", IsoUtc(info.not_after), ") is not valid: ", why),
                        "renew it by enrolling again with a new token");
  }
  return absl::OkStatus();
}

}  // namespace poolmark::rpc
