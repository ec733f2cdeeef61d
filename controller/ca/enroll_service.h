// EnrollService, and the signing half of RenewCertificate. Serve it on a listener of its own, with
// rpc::ServerOptions::clients_have_certificates = false. Thread-safe.
#pragma once
#include <string>

#include "common/base/clock.h"
#include "controller/ca/attempts.h"
#include "controller/ca/ca.h"
#include "controller/ca/tokens.h"
#include "poolmark/v1/controller.grpc.pb.h"

namespace poolmark::controller {

inline constexpr size_t kFailuresPerMinute = 5;

class EnrollServiceImpl final : public v1::EnrollService::Service {
 public:
  // `controller_address`: of the main listener, told to whom enrols. All must outlive this.
  EnrollServiceImpl(Authority& authority, TokenStore& tokens, std::string controller_address,
                    const Clock& clock)
      : authority_(authority),
        tokens_(tokens),
        controller_address_(std::move(controller_address)),
        failures_(kFailuresPerMinute, std::chrono::minutes(1), clock) {}

  grpc::Status Enroll(grpc::ServerContext* context, const v1::EnrollRequest* request,
                      v1::EnrollResponse* response) override;

 private:
  Status Answer(const v1::EnrollRequest& request, v1::EnrollResponse* response);

  Authority& authority_;
  TokenStore& tokens_;
  const std::string controller_address_;
  FailedAttempts failures_;
};

// For ControllerService::RenewCertificate: a new certificate for the caller's own name and role.
Status RenewCertificate(Authority& authority, const rpc::Identity& caller,
                        const v1::RenewCertificateRequest& request, v1::RenewCertificateResponse* response);

}  // namespace poolmark::controller
