#include "common/rpc/tls.h"

#include <grpc/support/log.h>
#include <grpcpp/security/tls_certificate_provider.h>
#include <grpcpp/security/tls_credentials_options.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <mutex>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "common/base/files.h"
#include "common/base/log.h"

namespace poolmark::rpc {
namespace {

constexpr unsigned kReloadSeconds = 1;
constexpr std::string_view kGeneration = "generation-";

std::string CurrentFile(const std::string& dir, std::string_view name) {
  return JoinPath(JoinPath(dir, "current"), name);
}

Result<uint64_t> NewestGeneration(const std::string& dir) {
  uint64_t newest = 0;
  POOLMARK_ASSIGN_OR_RETURN(auto names, ListDir(dir));
  for (const std::string& name : names) {
    uint64_t number = 0;
    if (name.rfind(kGeneration, 0) == 0 && absl::SimpleAtoi(name.substr(kGeneration.size()), &number))
      newest = std::max(newest, number);
  }
  return newest;
}

// gRPC writes a line to stderr for every peer that fails a handshake; a port scan must not fill our log.
void ForwardLog(gpr_log_func_args* line) {
  Log(LogLevel::kDebug, "grpc", {{"file", line->file}, {"line", line->line}, {"text", line->message}});
}

}  // namespace

Status InstallIdentity(const std::string& dir, const IdentityText& text, const Clock& clock) {
  POOLMARK_RETURN_IF_ERROR(CheckKeyPair(text.certificate_pem, text.key_pem, text.ca_pem, clock.Wall()));
  POOLMARK_RETURN_IF_ERROR(MakeDirs(dir, 0700));
  if (chmod(dir.c_str(), 0700) != 0) return FromErrno(dir, "closing it to others", errno);
  POOLMARK_ASSIGN_OR_RETURN(uint64_t newest, NewestGeneration(dir));
  std::string name = absl::StrCat("generation-", newest + 1);
  std::string generation = JoinPath(dir, name);
  if (mkdir(generation.c_str(), 0700) != 0) return FromErrno(generation, "making it", errno);
  POOLMARK_RETURN_IF_ERROR(AtomicWriteFile(JoinPath(generation, "key.pem"), text.key_pem, 0600));
  POOLMARK_RETURN_IF_ERROR(AtomicWriteFile(JoinPath(generation, "cert.pem"), text.certificate_pem, 0600));
  POOLMARK_RETURN_IF_ERROR(AtomicWriteFile(JoinPath(generation, "ca.pem"), text.ca_pem, 0600));
  std::string link = JoinPath(dir, "current");
  std::string fresh = JoinPath(dir, absl::StrCat("current.", getpid(), ".tmp"));
  unlink(fresh.c_str());
  if (symlink(name.c_str(), fresh.c_str()) != 0) return FromErrno(fresh, "linking it", errno);
  POOLMARK_RETURN_IF_ERROR(RenameDurably(fresh, link));
  // The generation before stays: a watcher may be reading it. Older ones go.
  for (uint64_t old = newest; old-- > 1;) {
    std::string path = JoinPath(dir, absl::StrCat("generation-", old));
    if (!FileExists(path)) break;
    (void)RemoveTree(path);
  }
  return absl::OkStatus();
}

Result<IdentityText> LoadIdentity(const std::string& dir, const Clock& clock) {
  if (!FileExists(CurrentFile(dir, "cert.pem"))) {
    return NotFound(dir, "no certificate there",
                    "enrol with a token (poolmark login TOKEN, poolmark-agent join TOKEN)");
  }
  IdentityText text;
  POOLMARK_ASSIGN_OR_RETURN(text.certificate_pem, ReadFile(CurrentFile(dir, "cert.pem"), 1u << 20));
  POOLMARK_ASSIGN_OR_RETURN(text.key_pem, ReadFile(CurrentFile(dir, "key.pem"), 1u << 20));
  POOLMARK_ASSIGN_OR_RETURN(text.ca_pem, ReadFile(CurrentFile(dir, "ca.pem"), 1u << 20));
  Status checked = CheckKeyPair(text.certificate_pem, text.key_pem, text.ca_pem, clock.Wall());
  if (!checked.ok()) {
    Error error = ErrorOf(checked);
    error.where = absl::StrCat(dir, ": ", error.where);
    return ToStatus(error);
  }
  return text;
}

void PrepareGrpc() {
  static std::once_flag once;
  std::call_once(once, [] {
    setenv("GRPC_SSL_CIPHER_SUITES", "ECDHE-RSA-AES256-GCM-SHA384", 1);
    gpr_set_log_function(ForwardLog);
  });
}

Result<std::shared_ptr<grpc::ServerCredentials>> MakeServerCredentials(const std::string& dir,
                                                                       bool clients_have_certificates,
                                                                       const Clock& clock) {
  PrepareGrpc();
  POOLMARK_RETURN_IF_ERROR(LoadIdentity(dir, clock).status());
  auto provider = std::make_shared<grpc::experimental::FileWatcherCertificateProvider>(
      CurrentFile(dir, "key.pem"), CurrentFile(dir, "cert.pem"), CurrentFile(dir, "ca.pem"), kReloadSeconds);
  grpc::experimental::TlsServerCredentialsOptions options(provider);
  options.watch_identity_key_cert_pairs();
  if (clients_have_certificates) options.watch_root_certs();
  options.set_cert_request_type(clients_have_certificates
                                    ? GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY
                                    : GRPC_SSL_DONT_REQUEST_CLIENT_CERTIFICATE);
  auto credentials = grpc::experimental::TlsServerCredentials(options);
  if (!credentials) return Internal(dir, "gRPC takes no server credentials from it");
  return credentials;
}

Result<std::shared_ptr<grpc::ChannelCredentials>> MakeChannelCredentials(const std::string& dir,
                                                                         const Clock& clock) {
  PrepareGrpc();
  POOLMARK_RETURN_IF_ERROR(LoadIdentity(dir, clock).status());
  auto provider = std::make_shared<grpc::experimental::FileWatcherCertificateProvider>(
      CurrentFile(dir, "key.pem"), CurrentFile(dir, "cert.pem"), CurrentFile(dir, "ca.pem"), kReloadSeconds);
  grpc::experimental::TlsChannelCredentialsOptions options;
  options.set_certificate_provider(provider);
  options.watch_identity_key_cert_pairs();
  options.watch_root_certs();
  auto credentials = grpc::experimental::TlsCredentials(options);
  if (!credentials) return Internal(dir, "gRPC takes no client credentials from it");
  return credentials;
}

}  // namespace poolmark::rpc
