// TLS of every connection: version 1.3, certificates of the cluster's own CA, mutual but for enrolment.
// A party's certificate, key and CA bundle lie in an identity directory:
//   <dir>/current -> generation-<n>/{cert.pem,key.pem,ca.pem}      (directories 0700, key 0600)
// A new generation is written whole and the link swapped, so that a reader sees one of the two; gRPC's file
// watcher then uses it for new connections without a restart. Functions are thread-safe.
#pragma once
#include <grpcpp/security/credentials.h>
#include <grpcpp/security/server_credentials.h>

#include <memory>
#include <string>

#include "common/base/clock.h"
#include "common/base/result.h"
#include "common/rpc/pki.h"

namespace poolmark::rpc {

struct IdentityText {
  std::string certificate_pem;  // leaf first, then the CA
  std::string key_pem;
  std::string ca_pem;  // one or several (rotation)
};

// Checks the three texts against each other and the time, then makes them the current generation.
Status InstallIdentity(const std::string& dir, const IdentityText& text, const Clock& clock);
// The current generation, checked likewise. NOT_FOUND when the directory has none.
Result<IdentityText> LoadIdentity(const std::string& dir, const Clock& clock);

// Credentials that follow the identity directory. The directory is checked first: gRPC 1.51 aborts on empty
// files. With `clients_have_certificates` a peer without a certificate of the CA gets no connection at all.
Result<std::shared_ptr<grpc::ServerCredentials>> MakeServerCredentials(const std::string& dir,
                                                                       bool clients_have_certificates,
                                                                       const Clock& clock);
Result<std::shared_ptr<grpc::ChannelCredentials>> MakeChannelCredentials(const std::string& dir,
                                                                         const Clock& clock);

// What must be set before gRPC starts: its log goes into ours, and TLS is 1.3 only. gRPC 1.51's C++ interface
// cannot ask for that, so its list of TLS 1.2 cipher suites is set to one that needs an RSA certificate: ours
// are P-256 only, and a TLS 1.2 handshake finds no common suite. Every function above calls it; call it first
// where credentials are made without them.
void PrepareGrpc();

}  // namespace poolmark::rpc
