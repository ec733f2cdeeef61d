// What of a request goes into the audit log, and what never does.
#include "common/rpc/audit_arguments.h"

#include <catch2/catch.hpp>
#include <map>

#include "poolmark/v1/agent.pb.h"
#include "poolmark/v1/controller.pb.h"

namespace poolmark::rpc {
namespace {

std::map<std::string, std::string> Arguments(const google::protobuf::Message& request) {
  std::map<std::string, std::string> map;
  for (auto& [name, value] : AuditArguments(request)) map[name] = value;
  return map;
}

}  // namespace

TEST_CASE("who drained which machine can be answered") {
  v1::SetMachineStateRequest request;
  request.set_machine("n2");
  request.set_action(v1::MACHINE_ACTION_DRAIN);
  request.set_reason("fan");
  auto arguments = Arguments(request);
  CHECK(arguments["machine"] == "n2");
  CHECK(arguments["action"] == "MACHINE_ACTION_DRAIN");
  CHECK(arguments["reason"] == "fan");
  CHECK(arguments["sha256"].size() == 64);
  const std::string before = arguments["sha256"];
  request.set_machine("n3");
  CHECK(Arguments(request)["sha256"] != before);
}

TEST_CASE("a start names job, epoch and process, never its words and variables") {
  v1::StartProcessRequest request;
  request.mutable_lease()->set_job_id("job-1");
  request.mutable_lease()->set_epoch(7);
  request.mutable_spec()->set_id("engine-n1");
  request.mutable_spec()->set_executable("vllm");
  request.mutable_spec()->add_argv("--key=hf_CANARY");
  auto arguments = Arguments(request);
  CHECK(arguments["job_id"] == "job-1");
  CHECK(arguments["epoch"] == "7");
  CHECK(arguments["id"] == "engine-n1");
  CHECK(arguments["executable"] == "vllm");
  for (const auto& [name, value] : arguments) CHECK(value.find("CANARY") == std::string::npos);
}

TEST_CASE("a token is in no audit line, and long words are cut") {
  v1::EnrollRequest request;
  request.set_token("the-secret");
  for (const auto& [name, value] : Arguments(request)) CHECK(value.find("the-secret") == std::string::npos);
  v1::CancelJobRequest cancel;
  cancel.set_job_id(std::string(100'000, 'x'));
  CHECK(Arguments(cancel)["job_id"].size() == 200);
}

}  // namespace poolmark::rpc
