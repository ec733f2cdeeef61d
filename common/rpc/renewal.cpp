#include "common/rpc/renewal.h"

#include "common/base/digest.h"
#include "common/base/log.h"
#include "common/base/time_format.h"
#include "common/rpc/channel.h"
#include "poolmark/v1/controller.grpc.pb.h"

namespace poolmark::rpc {

Signer RenewOver(std::shared_ptr<grpc::Channel> channel) {
  return [channel = std::move(channel)](const std::string& request_pem) -> Result<SignedCertificate> {
    auto stub = v1::ControllerService::NewStub(channel);
    v1::RenewCertificateRequest request;
    request.set_request_id(NewUuid());
    request.set_csr_pem(request_pem);
    POOLMARK_ASSIGN_OR_RETURN(auto response, Call(*stub, &v1::ControllerService::Stub::RenewCertificate,
                                                  request, Deadline("ControllerService/RenewCertificate")));
    return SignedCertificate{response.certificate_pem(), response.ca_pem()};
  };
}

Nanoseconds RenewalTime(const CertificateInfo& certificate) {
  return certificate.not_before + (certificate.not_after - certificate.not_before) * 2 / 3;
}

Result<bool> RenewIfDue(const std::string& identity_dir, const Clock& clock, const Signer& signer) {
  POOLMARK_ASSIGN_OR_RETURN(IdentityText current, LoadIdentity(identity_dir, clock));
  POOLMARK_ASSIGN_OR_RETURN(CertificateInfo info, ParseCertificate(current.certificate_pem));
  if (clock.Wall() < RenewalTime(info)) return false;
  IdentityText fresh;
  POOLMARK_ASSIGN_OR_RETURN(fresh.key_pem, MakeKey());
  POOLMARK_ASSIGN_OR_RETURN(std::string request, MakeRequest(fresh.key_pem, info.common_name));
  POOLMARK_ASSIGN_OR_RETURN(SignedCertificate signed_one, signer(request));
  fresh.certificate_pem = signed_one.certificate_pem;
  fresh.ca_pem = signed_one.ca_pem;
  POOLMARK_RETURN_IF_ERROR(InstallIdentity(identity_dir, fresh, clock));
  return true;
}

Renewer::Renewer(std::string identity_dir, const Clock& clock, Signer signer,
                 std::chrono::milliseconds interval)
    : thread_([dir = std::move(identity_dir), &clock, signer = std::move(signer),
               interval](const std::stop_token& stop) {
        std::mutex mutex;
        std::condition_variable_any wake;
        std::unique_lock lock(mutex);
        while (!stop.stop_requested()) {
          auto renewed = RenewIfDue(dir, clock, signer);
          if (!renewed.ok()) {
            Log(LogLevel::kWarning, "certificate.renewal_failed",
                {{"dir", dir}, {"why", std::string(renewed.status().message())}});
          } else if (*renewed) {
            Log(LogLevel::kInfo, "certificate.renewed", {{"dir", dir}});
          }
          wake.wait_for(lock, stop, interval, [] { return false; });
        }
      }) {}

}  // namespace poolmark::rpc
