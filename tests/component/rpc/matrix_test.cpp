// Every RPC of every service, tried over the wire with every kind of caller: good certificates of each role,
// and bad ones. What the table allows reaches the service (which answers UNIMPLEMENTED here), all else is
// refused before it.
#include <google/protobuf/descriptor.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/impl/client_unary_call.h>
#include <grpcpp/support/byte_buffer.h>

#include <catch2/catch.hpp>
#include <map>

#include "common/base/files.h"
#include "common/rpc/channel.h"
#include "common/rpc/rules.h"
#include "common/rpc/server.h"
#include "common/rpc/tls.h"
#include "controller/ca/sign.h"
#include "poolmark/v1/agent.grpc.pb.h"
#include "poolmark/v1/controller.grpc.pb.h"
#include "tests/support/cluster.h"

namespace poolmark::rpc {
namespace {

using namespace std::chrono_literals;

std::vector<std::string> Paths() {
  std::vector<std::string> paths;
  for (const auto* file :
       {v1::GetJobRequest::descriptor()->file(), v1::GetFactsRequest::descriptor()->file()}) {
    for (int i = 0; i < file->service_count(); ++i) {
      for (int k = 0; k < file->service(i)->method_count(); ++k) {
        paths.push_back("/" + file->service(i)->full_name() + "/" + file->service(i)->method(k)->name());
      }
    }
  }
  paths.push_back("/poolmark.v1.ControllerService/NoSuchMethod");
  paths.push_back("/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo");
  return paths;
}

grpc::StatusCode Try(const std::shared_ptr<grpc::Channel>& channel, const std::string& path) {
  grpc::ClientContext context;
  SetDeadline(&context, 10s);
  grpc::ByteBuffer response;
  grpc::Slice nothing("");
  grpc::ByteBuffer request(&nothing, 1);
  grpc::internal::RpcMethod method(path.c_str(), grpc::internal::RpcMethod::NORMAL_RPC);
  return grpc::internal::BlockingUnaryCall(channel.get(), method, &context, request, &response).error_code();
}

struct Services {
  v1::ControllerService::Service controller;
  v1::AgentRegistryService::Service registry;
  v1::AgentService::Service agent;
  v1::EnrollService::Service enroll;
  std::vector<Served> all() { return {&controller, &registry, &agent, &enroll}; }
};

}  // namespace

TEST_CASE("every RPC, every caller, over the wire", "[L2][live]") {
  test::Cluster cluster, other("other");
  Services services;
  ServerOptions options;
  options.address = "127.0.0.1:0";
  options.identity_dir = cluster.Controller();
  options.cluster = "lab";
  options.is_revoked = [&](const Identity& who) { return cluster.ca().IsRevoked(who.serial); };
  auto server = Server::Start(options, services.all());
  REQUIRE(server.ok());
  const std::string address = (*server)->address();
  auto channel_of = [&](const std::string& certificate, const std::string& key) {
    grpc::SslCredentialsOptions ssl;
    ssl.pem_root_certs = cluster.ca().ca_pem();
    ssl.pem_cert_chain = certificate;
    ssl.pem_private_key = key;
    return MakeChannel(address, "controller.poolmark", grpc::SslCredentials(ssl));
  };
  PrepareGrpc();
  int allowed = 0, denied = 0;
  for (Role role :
       {Role::kViewer, Role::kAutomation, Role::kOperator, Role::kAdmin, Role::kAgent, Role::kController}) {
    auto text = cluster.ca().Issue(role, "someone", 1h);
    auto channel = channel_of(text->certificate_pem, text->key_pem);
    for (const std::string& path : Paths()) {
      INFO(path << " by " << RoleName(role));
      const bool may = IsAllowed(path, role);
      CHECK(Try(channel, path) ==
            (may ? grpc::StatusCode::UNIMPLEMENTED : grpc::StatusCode::PERMISSION_DENIED));
      ++(may ? allowed : denied);
    }
  }
  CHECK(allowed > 50);
  CHECK(denied > 100);

  std::map<std::string, std::pair<std::shared_ptr<grpc::Channel>, grpc::StatusCode>> bad;
  bad["no certificate"] = {channel_of("", ""), grpc::StatusCode::UNAVAILABLE};
  auto foreign = other.ca().Issue(Role::kAdmin, "mallory", 1h);
  bad["another CA"] = {channel_of(foreign->certificate_pem, foreign->key_pem), grpc::StatusCode::UNAVAILABLE};
  std::string key = *MakeKey();
  controller::CertificatePlan plan;
  plan.common_name = "late";
  plan.uris = {"spiffe://lab/admin/late"};
  plan.not_before = RealClock().Wall() - 2h;
  plan.not_after = RealClock().Wall() - 1h;
  auto late = controller::SignRequest(*MakeRequest(key, "late"), plan, cluster.ca().ca_pem(),
                                      *ReadFile(cluster.dir() / "ca/ca.key"));
  REQUIRE(late.ok());
  bad["expired"] = {channel_of(*late, key), grpc::StatusCode::UNAVAILABLE};
  auto revoked = cluster.ca().Issue(Role::kAdmin, "gone", 1h);
  REQUIRE(*cluster.ca().Revoke(false, "gone") == 1);
  bad["revoked"] = {channel_of(revoked->certificate_pem, revoked->key_pem),
                    grpc::StatusCode::PERMISSION_DENIED};
  bad["no TLS"] = {grpc::CreateChannel(address, grpc::InsecureChannelCredentials()),
                   grpc::StatusCode::UNAVAILABLE};
  for (const auto& [name, caller] : bad) {
    for (const std::string& path : Paths()) {
      INFO(path << " with " << name);
      CHECK(Try(caller.first, path) == caller.second);
    }
  }
}

}  // namespace poolmark::rpc
