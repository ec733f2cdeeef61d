#include "controller/ca/sign.h"

#include <openssl/ec.h>
#include <openssl/rand.h>

#include "absl/strings/str_cat.h"
#include "common/rpc/openssl.h"

namespace poolmark::controller {
namespace {

// 127 random bits: unique without a counter, positive, unguessable.
bool SetRandomSerial(X509* certificate) {
  unsigned char bytes[16];
  if (RAND_bytes(bytes, sizeof bytes) != 1) return false;
  bytes[0] = static_cast<unsigned char>((bytes[0] & 0x7f) | 0x40);
  BIGNUM* number = BN_bin2bn(bytes, sizeof bytes, nullptr);
  bool done = BN_to_ASN1_INTEGER(number, X509_get_serialNumber(certificate)) != nullptr;
  BN_free(number);
  return done;
}

bool SetTime(ASN1_TIME* time, Nanoseconds wall) {
  return ASN1_TIME_set(time, static_cast<time_t>(wall / std::chrono::seconds(1))) != nullptr;
}

bool AddExtension(X509* certificate, X509V3_CTX* context, int nid, const std::string& value) {
  ExtensionPtr extension(X509V3_EXT_conf_nid(nullptr, context, nid, value.c_str()));
  return extension && X509_add_ext(certificate, extension.get(), -1) == 1;
}

// OpenSSL's textual configuration splits at commas; our names have none (IsName), which is checked before.
std::string AlternativeNames(const CertificatePlan& plan) {
  std::string text;
  for (const std::string& uri : plan.uris) absl::StrAppend(&text, text.empty() ? "" : ",", "URI:", uri);
  for (const std::string& name : plan.dns_names)
    absl::StrAppend(&text, text.empty() ? "" : ",", "DNS:", name);
  return text;
}

Result<std::string> Make(EVP_PKEY* subject_key, const CertificatePlan& plan, X509* issuer,
                         EVP_PKEY* issuer_key) {
  CertPtr certificate(X509_new());
  X509* raw = certificate.get();
  X509* signer = issuer == nullptr ? raw : issuer;
  X509_NAME* name = X509_get_subject_name(raw);
  bool good = X509_set_version(raw, X509_VERSION_3) == 1 && SetRandomSerial(raw) &&
              SetTime(X509_getm_notBefore(raw), plan.not_before) &&
              SetTime(X509_getm_notAfter(raw), plan.not_after) &&
              X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_UTF8,
                                         reinterpret_cast<const unsigned char*>(plan.common_name.data()),
                                         static_cast<int>(plan.common_name.size()), -1, 0) == 1 &&
              X509_set_issuer_name(raw, X509_get_subject_name(signer)) == 1 &&
              X509_set_pubkey(raw, subject_key) == 1;
  if (!good) return OpensslError("filling a certificate");
  X509V3_CTX context;
  X509V3_set_ctx_nodb(&context);
  X509V3_set_ctx(&context, signer, raw, nullptr, nullptr, 0);
  good = AddExtension(raw, &context, NID_basic_constraints,
                      plan.is_ca ? "critical,CA:TRUE,pathlen:0" : "critical,CA:FALSE") &&
         AddExtension(raw, &context, NID_key_usage,
                      plan.is_ca ? "critical,keyCertSign,cRLSign" : "critical,digitalSignature") &&
         AddExtension(raw, &context, NID_subject_key_identifier, "hash");
  if (good && !plan.is_ca) {
    good =
        AddExtension(raw, &context, NID_authority_key_identifier, "keyid") &&
        AddExtension(raw, &context, NID_ext_key_usage, plan.serves ? "serverAuth,clientAuth" : "clientAuth");
  }
  const std::string names = AlternativeNames(plan);
  if (good && !names.empty()) good = AddExtension(raw, &context, NID_subject_alt_name, names);
  if (!good) return OpensslError("adding a certificate's extensions");
  if (X509_sign(raw, issuer_key, EVP_sha256()) <= 0) return OpensslError("signing a certificate");
  return rpc::CertPem(raw);
}

bool IsP256(EVP_PKEY* key) {
  char group[64] = "";
  size_t size = 0;
  return EVP_PKEY_get_base_id(key) == EVP_PKEY_EC &&
         EVP_PKEY_get_group_name(key, group, sizeof group, &size) == 1 && std::string(group) == "prime256v1";
}

}  // namespace

Result<std::string> SelfSign(const std::string& key_pem, const CertificatePlan& plan) {
  KeyPtr key = rpc::ReadKeyPem(key_pem);
  if (!key) return InvalidInput("CA key", "it cannot be read");
  return Make(key.get(), plan, nullptr, key.get());
}

Result<std::string> SignRequest(const std::string& request_pem, const CertificatePlan& plan,
                                const std::string& ca_pem, const std::string& ca_key_pem) {
  if (request_pem.size() > 16384) return InvalidInput("certificate request", "it is longer than 16384 bytes");
  RequestPtr request = rpc::ReadRequestPem(request_pem);
  if (!request)
    return InvalidInput("certificate request", "it cannot be read",
                        "PEM with one PKCS#10 request is expected");
  EVP_PKEY* key = X509_REQ_get0_pubkey(request.get());
  if (key == nullptr || !IsP256(key))
    return InvalidInput("certificate request", "its key is not P-256", "make a P-256 key");
  if (X509_REQ_verify(request.get(), key) != 1) {
    ERR_clear_error();
    return InvalidInput("certificate request", "its signature does not prove possession of the key");
  }
  char name[256] = "";
  X509_NAME_get_text_by_NID(X509_REQ_get_subject_name(request.get()), NID_commonName, name, sizeof name);
  if (plan.common_name != name) {
    return ToStatus(
        Error{absl::StatusCode::kPermissionDenied, "wrong_name", "certificate request",
              absl::StrCat("it asks for the name '", name, "', but only '", plan.common_name, "' is allowed"),
              "use the name for which the token was made"});
  }
  CertPtr ca = rpc::ReadCertPem(ca_pem);
  KeyPtr ca_key = rpc::ReadKeyPem(ca_key_pem);
  if (!ca || !ca_key) return Internal("CA", "its certificate or key cannot be read");
  return Make(key, plan, ca.get(), ca_key.get());
}

}  // namespace poolmark::controller
