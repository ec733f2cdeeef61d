#include "controller/ca/enroll_service.h"

#include "common/base/log.h"
#include "common/rpc/status.h"
#include "common/rpc/token.h"

namespace poolmark::controller {
namespace {

// "ipv4:10.0.0.7:4711" -> "ipv4:10.0.0.7": the port says nothing about who tries.
std::string SourceOf(const std::string& peer) {
  return peer.substr(0, peer.rfind(':'));
}

}  // namespace

Status EnrollServiceImpl::Answer(const v1::EnrollRequest& request, v1::EnrollResponse* response) {
  POOLMARK_ASSIGN_OR_RETURN(rpc::EnrollToken token, rpc::ParseToken(request.token()));
  // Name and role are what the token was made for, whatever its text or the request says.
  POOLMARK_ASSIGN_OR_RETURN(auto enrolled,
                            authority_.Enroll(tokens_, token.secret, token.name, request.csr_pem()));
  const TokenGrant& grant = enrolled.grant;
  response->set_certificate_pem(enrolled.certificate_pem);
  response->set_ca_pem(authority_.ca_pem());
  response->set_name(grant.name);
  response->set_role(rpc::RoleName(grant.role));
  response->set_controller_address(controller_address_);
  response->set_cluster_id(authority_.cluster());
  Log(LogLevel::kInfo, "ca.enrolled", {{"name", grant.name}, {"role", rpc::RoleName(grant.role)}});
  return absl::OkStatus();
}

grpc::Status EnrollServiceImpl::Enroll(grpc::ServerContext* context, const v1::EnrollRequest* request,
                                       v1::EnrollResponse* response) {
  const std::string source = SourceOf(context->peer());
  if (failures_.IsShutOut(source)) {
    return rpc::ToGrpc(ToStatus(Error{absl::StatusCode::kResourceExhausted, "too_many_attempts", "",
                                      "too many failed enrolments from this address", "wait a minute"}));
  }
  Status status = Answer(*request, response);
  if (!status.ok()) {
    failures_.Failed(source);
    Log(LogLevel::kWarning, "ca.enrolment_refused",
        {{"source", source}, {"why", std::string(status.message())}});
  }
  return rpc::ToGrpc(status);
}

Status RenewCertificate(Authority& authority, const rpc::Identity& caller,
                        const v1::RenewCertificateRequest& request, v1::RenewCertificateResponse* response) {
  POOLMARK_ASSIGN_OR_RETURN(std::string certificate,
                            authority.Renew(request.csr_pem(), caller.role, caller.name, caller.serial));
  response->set_certificate_pem(certificate);
  response->set_ca_pem(authority.ca_pem());
  return absl::OkStatus();
}

}  // namespace poolmark::controller
