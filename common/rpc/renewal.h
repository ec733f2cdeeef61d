// Certificates are renewed, with a new key, at two thirds of their life. Daemons keep a Renewer; the CLI asks
// RenewIfDue at each start. A failed renewal is tried again a minute later: a third of the life is left for
// that.
#pragma once
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "common/base/clock.h"
#include "common/base/result.h"
#include "common/rpc/tls.h"

namespace grpc {
class Channel;
}

namespace poolmark::rpc {

struct SignedCertificate {
  std::string certificate_pem;
  std::string ca_pem;
};
// Gets a request signed: over the wire (RenewOver) or by the CA at hand.
using Signer = std::function<Result<SignedCertificate>(const std::string& request_pem)>;
// By ControllerService/RenewCertificate.
Signer RenewOver(std::shared_ptr<grpc::Channel> channel);

// When two thirds of the life have passed.
Nanoseconds RenewalTime(const CertificateInfo& certificate);
// True when it was due and is done. An expired certificate cannot renew itself: the error says so.
Result<bool> RenewIfDue(const std::string& identity_dir, const Clock& clock, const Signer& signer);

// Looks once a minute on a thread of its own, until destroyed. Thread-safe.
class Renewer {
 public:
  Renewer(std::string identity_dir, const Clock& clock, Signer signer,
          std::chrono::milliseconds interval = std::chrono::minutes(1));

 private:
  std::jthread thread_;
};

}  // namespace poolmark::rpc
