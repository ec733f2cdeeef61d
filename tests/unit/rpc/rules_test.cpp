// Who may call what: every RPC of the compiled-in services against every role.
#include "common/rpc/rules.h"

#include <google/protobuf/descriptor.h>

#include <catch2/catch.hpp>
#include <set>

#include "poolmark/v1/agent.pb.h"
#include "poolmark/v1/controller.pb.h"

namespace poolmark::rpc {
namespace {

std::set<std::string> AllRpcs() {
  std::set<std::string> names;
  for (const google::protobuf::FileDescriptor* file :
       {v1::GetJobRequest::descriptor()->file(), v1::GetFactsRequest::descriptor()->file()}) {
    for (int i = 0; i < file->service_count(); ++i) {
      const auto* service = file->service(i);
      for (int k = 0; k < service->method_count(); ++k)
        names.insert(service->name() + "/" + service->method(k)->name());
    }
  }
  return names;
}

constexpr Role kAllRoles[] = {Role::kViewer, Role::kAutomation, Role::kOperator,
                              Role::kAdmin,  Role::kAgent,      Role::kController};

// The same table by hand, from the other side: what each role is for.
bool Expected(const std::string& rpc, Role role) {
  if (rpc == "EnrollService/Enroll") return true;
  if (rpc.rfind("AgentService/", 0) == 0) return role == Role::kController;
  if (rpc.rfind("AgentRegistryService/", 0) == 0) return role == Role::kAgent;
  if (role == Role::kController) return false;
  if (rpc == "ControllerService/GetVersion" || rpc == "ControllerService/RenewCertificate") return true;
  if (role == Role::kAgent) return false;
  static const std::set<std::string> changes = {"UploadInput", "SubmitJob", "ValidateJob", "CancelJob",
                                                "DeleteJob"};
  const std::string method = rpc.substr(rpc.find('/') + 1);
  if (method == "SetMachineState") return role == Role::kOperator || role == Role::kAdmin;
  if (changes.count(method) != 0) return role != Role::kViewer;
  return true;  // reading
}

}  // namespace

TEST_CASE("every RPC of the descriptors has a rule and every rule an RPC", "[L2]") {
  std::set<std::string> rpcs = AllRpcs();
  REQUIRE(rpcs.size() > 30);
  for (const std::string& rpc : rpcs) CHECK(FindRule(rpc) != nullptr);
  for (const Rule& rule : kRules) CHECK(rpcs.count(std::string(rule.method)) == 1);
  CHECK(rpcs.size() == kRules.size());
}

TEST_CASE("the matrix of RPCs and roles") {
  for (const std::string& rpc : AllRpcs()) {
    for (Role role : kAllRoles) {
      INFO(rpc << " by " << RoleName(role));
      CHECK(IsAllowed("/poolmark.v1." + rpc, role) == Expected(rpc, role));
      CHECK(CheckAllowed("/poolmark.v1." + rpc, role).ok() == Expected(rpc, role));
    }
    CHECK(IsAllowed("/poolmark.v1." + rpc, Role::kNone) == (rpc == "EnrollService/Enroll"));
  }
}

TEST_CASE("what has no rule is denied to every role") {
  for (Role role : kAllRoles) {
    for (const char* path :
         {"/poolmark.v1.ControllerService/Nothing", "/poolmark.v2.ControllerService/GetJob", "", "/",
          "GetJob", "/poolmark.v1.", "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
          "/grpc.health.v1.Health/", "/grpc.health.v1.Health/Other", "/grpc.channelz.v1.Channelz/GetServers",
          "/poolmark.v1.ControllerService/GetJob/", "/poolmark.v1.ControllerService/getjob"}) {
      INFO(path << " by " << RoleName(role));
      CHECK_FALSE(IsAllowed(path, role));
    }
    CHECK(IsAllowed("/grpc.health.v1.Health/Check", role));
    CHECK(IsAllowed("/grpc.health.v1.Health/Watch", role));
  }
  CHECK_FALSE(IsAllowed("/grpc.health.v1.Health/Check", Role::kNone));
}

TEST_CASE("deadlines: every RPC that does not follow has one") {
  static const std::set<std::string_view> follows = {
      "ControllerService/WatchJob", "ControllerService/StreamLogs", "AgentService/WatchProcesses",
      "AgentService/StreamLogs", "AgentService/StreamSamples"};
  for (const Rule& rule : kRules) {
    INFO(std::string(rule.method));
    CHECK((rule.deadline.count() == 0) == (follows.count(rule.method) == 1));
    CHECK(rule.deadline <= std::chrono::hours(1));
  }
  static_assert(Deadline("ControllerService/GetJob") == std::chrono::seconds(10));
}

TEST_CASE("a refusal names the role, the method and who may") {
  Status status = CheckAllowed("/poolmark.v1.ControllerService/SetMachineState", Role::kViewer);
  CHECK(status.code() == absl::StatusCode::kPermissionDenied);
  std::string text(status.message());
  CHECK(text.find("viewer") != std::string::npos);
  CHECK(text.find("SetMachineState") != std::string::npos);
  CHECK(text.find("operator, admin") != std::string::npos);
}

TEST_CASE("identities in URIs") {
  auto good = ParseSpiffeUri("spiffe://lab/agent/n1");
  REQUIRE(good.ok());
  CHECK(good->cluster == "lab");
  CHECK(good->role == Role::kAgent);
  CHECK(good->name == "n1");
  CHECK(SpiffeUri("lab", Role::kAgent, "n1") == "spiffe://lab/agent/n1");
  for (const char* bad : {"", "spiffe://", "spiffe://lab", "spiffe://lab/agent", "spiffe://lab/agent/",
                          "spiffe://lab/agent/n1/x", "spiffe://lab/root/n1", "spiffe:///agent/n1",
                          "https://lab/agent/n1", "spiffe://lab/agent/../x", "spiffe://lab/agent/N1",
                          "spiffe://lab/Agent/n1", "SPIFFE://lab/agent/n1", "spiffe://lab/agent/n 1"}) {
    INFO(bad);
    CHECK_FALSE(ParseSpiffeUri(bad).ok());
  }
  CHECK_FALSE(ParseSpiffeUri(std::string("spiffe://lab/agent/n1\0", 22)).ok());
}

TEST_CASE("rules beyond the role") {
  Identity automation{"lab", Role::kAutomation, "ci", ""};
  Identity oper{"lab", Role::kOperator, "olga", ""};
  Identity viewer{"lab", Role::kViewer, "ci", ""};
  CHECK(MayChangeJobOf(automation, "ci").ok());
  CHECK_FALSE(MayChangeJobOf(automation, "olga").ok());
  CHECK(MayChangeJobOf(oper, "ci").ok());
  CHECK_FALSE(MayChangeJobOf(viewer, "ci").ok());
  Identity agent{"lab", Role::kAgent, "n1", ""};
  CHECK(MayActAsMachine(agent, "n1").ok());
  CHECK_FALSE(MayActAsMachine(agent, "n2").ok());
  CHECK_FALSE(MayActAsMachine(Identity{"lab", Role::kAdmin, "n1", ""}, "n1").ok());
  CHECK_FALSE(MayRevoke(oper).ok());
  CHECK(MayRevoke(Identity{"lab", Role::kAdmin, "a", ""}).ok());
}

}  // namespace poolmark::rpc
