#include "common/rpc/enroll_client.h"

#include <fcntl.h>
#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "absl/strings/str_cat.h"
#include "common/rpc/address.h"
#include "common/rpc/channel.h"
#include "common/rpc/openssl.h"
#include "poolmark/v1/controller.grpc.pb.h"

namespace poolmark::rpc {
namespace {

constexpr int kConnectMilliseconds = 10'000;

struct Socket {
  int fd = -1;
  ~Socket() {
    if (fd >= 0) close(fd);
  }
};

// Connects within the limit; reads and writes then have it too.
Status Connect(const HostPort& target, Socket* out) {
  const std::string where = FormatHostPort(target.host, target.port);
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  int rc = getaddrinfo(target.host.c_str(), std::to_string(target.port).c_str(), &hints, &found);
  if (rc != 0) return Unavailable(where, absl::StrCat("the host does not resolve: ", gai_strerror(rc)));
  std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> owner(found, freeaddrinfo);
  int error = 0;
  for (const addrinfo* at = found; at != nullptr; at = at->ai_next) {
    Socket socket_fd{socket(at->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)};
    if (socket_fd.fd < 0) return FromErrno(where, "making a socket", errno);
    error = 0;
    if (connect(socket_fd.fd, at->ai_addr, at->ai_addrlen) != 0) {
      error = errno;
      if (error == EINPROGRESS) {
        pollfd waiting{socket_fd.fd, POLLOUT, 0};
        socklen_t size = sizeof error;
        if (poll(&waiting, 1, kConnectMilliseconds) != 1) {
          error = ETIMEDOUT;
        } else {
          getsockopt(socket_fd.fd, SOL_SOCKET, SO_ERROR, &error, &size);
        }
      }
    }
    if (error != 0) continue;
    fcntl(socket_fd.fd, F_SETFL, fcntl(socket_fd.fd, F_GETFL) & ~O_NONBLOCK);
    timeval limit{kConnectMilliseconds / 1000, 0};
    setsockopt(socket_fd.fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    setsockopt(socket_fd.fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
    std::swap(out->fd, socket_fd.fd);
    return absl::OkStatus();
  }
  return ToStatus(Error{absl::StatusCode::kUnavailable, "unavailable", where,
                        absl::StrCat("connecting: ", strerror(error)),
                        "is the controller running, and is its enrolment address reachable from here?"});
}

}  // namespace

Result<std::string> FetchPinnedCa(const std::string& address, const std::string& ca_sha256) {
  POOLMARK_ASSIGN_OR_RETURN(HostPort target, ParseHostPort(address));
  Socket connection;
  POOLMARK_RETURN_IF_ERROR(Connect(target, &connection));
  SslContextPtr context(SSL_CTX_new(TLS_client_method()));
  SSL_CTX_set_min_proto_version(context.get(), TLS1_3_VERSION);
  // Nothing is sent over this connection: it only shows certificates, of which one is taken by its digest.
  SSL_CTX_set_verify(context.get(), SSL_VERIFY_NONE, nullptr);
  SslPtr ssl(SSL_new(context.get()));
  static constexpr unsigned char kHttp2[] = {2, 'h', '2'};
  SSL_set_alpn_protos(ssl.get(), kHttp2, sizeof kHttp2);
  SSL_set_fd(ssl.get(), connection.fd);
  if (SSL_connect(ssl.get()) != 1) {
    ERR_clear_error();
    return Unavailable(address, "no TLS 1.3 server answers there",
                       "is this the enrolment address of the controller?");
  }
  STACK_OF(X509)* chain = SSL_get_peer_cert_chain(ssl.get());
  for (int i = 0; chain != nullptr && i < sk_X509_num(chain); ++i) {
    std::string pem = CertPem(sk_X509_value(chain, i));
    auto info = ParseCertificate(pem);
    if (info.ok() && info->sha256 == ca_sha256) return pem;
  }
  return ToStatus(Error{absl::StatusCode::kPermissionDenied, "other_ca", address,
                        "the server there does not belong to the CA of the token; the secret was not sent",
                        "another program or an attacker listens there, or the controller was initialised "
                        "anew: make a new token"});
}

Result<Enrolled> Enroll(const std::string& token_text, const Clock& clock) {
  PrepareGrpc();
  POOLMARK_ASSIGN_OR_RETURN(EnrollToken token, ParseToken(token_text));
  POOLMARK_ASSIGN_OR_RETURN(std::string ca_pem, FetchPinnedCa(token.address, token.ca_sha256));
  Enrolled enrolled;
  POOLMARK_ASSIGN_OR_RETURN(enrolled.identity.key_pem, MakeKey());
  v1::EnrollRequest request;
  request.set_token(token_text);
  POOLMARK_ASSIGN_OR_RETURN(*request.mutable_csr_pem(), MakeRequest(enrolled.identity.key_pem, token.name));
  grpc::SslCredentialsOptions options;
  options.pem_root_certs = ca_pem;
  auto channel = MakeChannel(token.address, ServerName(Role::kController, ""), grpc::SslCredentials(options));
  auto stub = v1::EnrollService::NewStub(channel);
  POOLMARK_ASSIGN_OR_RETURN(auto response, Call(*stub, &v1::EnrollService::Stub::Enroll, request,
                                                Deadline("EnrollService/Enroll")));
  enrolled.identity.certificate_pem = response.certificate_pem();
  enrolled.identity.ca_pem = ca_pem;
  POOLMARK_RETURN_IF_ERROR(
      CheckKeyPair(enrolled.identity.certificate_pem, enrolled.identity.key_pem, ca_pem, clock.Wall()));
  enrolled.name = response.name();
  enrolled.role = ParseRole(response.role()).value_or(Role::kNone);
  enrolled.controller_address = response.controller_address();
  enrolled.cluster = response.cluster_id();
  if (enrolled.name != token.name || enrolled.role != token.role) {
    return Internal("enrolment", absl::StrCat("asked to be '", token.name, "', was made '", enrolled.name,
                                              "' (", RoleName(enrolled.role), ")"));
  }
  return enrolled;
}

}  // namespace poolmark::rpc
