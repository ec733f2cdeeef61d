#include "common/http/tls.h"

#include <arpa/inet.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include <climits>

namespace poolmark::http {
namespace {

std::string OpenSslError() {
  std::string text;
  while (const unsigned long code = ERR_get_error()) {
    char buffer[256];
    ERR_error_string_n(code, buffer, sizeof buffer);
    if (!text.empty()) text += "; ";
    text += buffer;
  }
  return text.empty() ? "unknown TLS error" : text;
}

bool IsAddress(const std::string& host) {
  unsigned char buffer[16];
  return inet_pton(AF_INET, host.c_str(), buffer) == 1 || inet_pton(AF_INET6, host.c_str(), buffer) == 1;
}

}  // namespace

struct TlsContext::State {
  SSL_CTX* context = nullptr;
  TlsOptions options;
  ~State() { SSL_CTX_free(context); }
};

TlsContext::TlsContext() : state_(std::make_unique<State>()) {}
TlsContext::~TlsContext() = default;

Result<std::shared_ptr<TlsContext>> TlsContext::Create(const TlsOptions& options) {
  std::shared_ptr<TlsContext> result(new TlsContext);
  ERR_clear_error();
  result->state_->options = options;
  SSL_CTX* context = result->state_->context = SSL_CTX_new(TLS_client_method());
  if (context == nullptr) return Internal("tls", OpenSslError());
  SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION);
  SSL_CTX_set_mode(context, SSL_MODE_RELEASE_BUFFERS | SSL_MODE_AUTO_RETRY);
  SSL_CTX_set_verify(context, options.verify ? SSL_VERIFY_PEER : SSL_VERIFY_NONE, nullptr);
  if (!options.ca_file.empty()) {
    if (SSL_CTX_load_verify_locations(context, options.ca_file.c_str(), nullptr) != 1) {
      return InvalidInput(options.ca_file, "no CA certificates could be read: " + OpenSslError(),
                          "give a PEM file");
    }
  } else if (options.verify) {
    SSL_CTX_set_default_verify_paths(context);
  }
  return result;
}

struct TlsSession::State {
  std::shared_ptr<TlsContext> context;
  SSL* ssl = nullptr;
  BIO* in = nullptr;   // owned by ssl
  BIO* out = nullptr;  // owned by ssl
  ~State() { SSL_free(ssl); }
};

TlsSession::TlsSession() : state_(std::make_unique<State>()) {}
TlsSession::~TlsSession() = default;

Result<std::unique_ptr<TlsSession>> TlsSession::Create(std::shared_ptr<TlsContext> context,
                                                       const std::string& host) {
  std::unique_ptr<TlsSession> session(new TlsSession);
  State& state = *session->state_;
  ERR_clear_error();
  const TlsOptions& options = context->state_->options;
  const std::string name = options.server_name.empty() ? host : options.server_name;
  state.ssl = SSL_new(context->state_->context);
  state.context = std::move(context);
  if (state.ssl == nullptr) return Internal("tls", OpenSslError());
  state.in = BIO_new(BIO_s_mem());
  state.out = BIO_new(BIO_s_mem());
  BIO_set_mem_eof_return(state.in, -1);
  SSL_set_bio(state.ssl, state.in, state.out);
  SSL_set_connect_state(state.ssl);
  if (IsAddress(name)) {
    if (options.verify) X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(state.ssl), name.c_str());
  } else {
    SSL_set_tlsext_host_name(state.ssl, name.c_str());
    if (options.verify) SSL_set1_host(state.ssl, name.c_str());
  }
  return session;
}

void TlsSession::Feed(std::string_view ciphertext) {
  if (!ciphertext.empty()) BIO_write(state_->in, ciphertext.data(), static_cast<int>(ciphertext.size()));
}

void TlsSession::TakeOutput(std::string* out) {
  const size_t pending = BIO_ctrl_pending(state_->out);
  if (pending == 0) return;
  const size_t before = out->size();
  out->resize(before + pending);
  const int n = BIO_read(state_->out, out->data() + before, static_cast<int>(pending));
  out->resize(before + static_cast<size_t>(n > 0 ? n : 0));
}

Result<bool> TlsSession::Handshake() {
  ERR_clear_error();
  const int rc = SSL_do_handshake(state_->ssl);
  if (rc == 1) return true;
  const int error = SSL_get_error(state_->ssl, rc);
  if (error == SSL_ERROR_WANT_READ || error == SSL_ERROR_WANT_WRITE) return false;
  const long verify = SSL_get_verify_result(state_->ssl);
  if (verify != X509_V_OK) {
    return Unavailable(
        "", std::string("the server's certificate is not accepted: ") + X509_verify_cert_error_string(verify),
        "give its CA with --ca-file, or the name it carries with --server-name");
  }
  return Unavailable("", "the TLS handshake failed: " + OpenSslError());
}

Result<size_t> TlsSession::Read(char* buffer, size_t size, bool* closed) {
  ERR_clear_error();
  const int n = SSL_read(state_->ssl, buffer, static_cast<int>(size > INT_MAX ? INT_MAX : size));
  if (n > 0) return static_cast<size_t>(n);
  const int error = SSL_get_error(state_->ssl, n);
  if (error == SSL_ERROR_ZERO_RETURN) {
    *closed = true;
    return size_t{0};
  }
  if (error == SSL_ERROR_WANT_READ || error == SSL_ERROR_WANT_WRITE) return size_t{0};
  return Unavailable("", "TLS failed while reading: " + OpenSslError());
}

Status TlsSession::Write(std::string_view plaintext) {
  ERR_clear_error();
  while (!plaintext.empty()) {
    const int n = SSL_write(state_->ssl, plaintext.data(),
                            static_cast<int>(std::min<size_t>(plaintext.size(), INT_MAX)));
    if (n <= 0) return Unavailable("", "TLS failed while writing: " + OpenSslError());
    plaintext.remove_prefix(static_cast<size_t>(n));
  }
  return absl::OkStatus();
}

void TlsSession::Close() {
  SSL_shutdown(state_->ssl);
}

}  // namespace poolmark::http
