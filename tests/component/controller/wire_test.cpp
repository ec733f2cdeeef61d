// The controller as a daemon, asked over TLS: what fits a message, and what a request may not hold.
#include "common/rpc/channel.h"
#include "common/rpc/tls.h"
#include "controller/api/server.h"
#include "controller/ca/ca.h"
#include "controller/ca/settings.h"
#include "poolmark/v1/controller.grpc.pb.h"
#include "tests/component/controller/fixture.h"

namespace poolmark::test {
namespace {

constexpr size_t kMessageBytes = 4u << 20;  // what a channel takes

// A controller that serves on a port of its own, its machines' agents being fakes, and a caller.
struct Daemon {
  TempDir dir;
  FakePool pool{{"n0"}};
  std::unique_ptr<controller::Controller> controller;
  std::unique_ptr<v1::ControllerService::Stub> stub;

  Daemon() {
    rpc::PrepareGrpc();
    const std::string state = dir / "state";
    controller::InitOptions init;
    init.state = state;
    init.cluster = "lab";
    init.settings.listen = init.settings.enroll_listen = "127.0.0.1:0";
    REQUIRE(controller::Init(init, RealClock()).ok());
    controller::ServeOptions options;
    options.state = state;
    options.catalogue_dir = Source("deploy");
    options.web = "";
    options.make_link = pool.Factory();
    auto started = controller::Controller::Start(options, &RealClock());
    INFO(started.status());
    REQUIRE(started.ok());
    controller = std::move(*started);
    auto authority = controller::Authority::Open(controller::AuthorityDir(state), RealClock());
    REQUIRE(authority.ok());
    auto admin = (*authority)->Issue(rpc::Role::kAdmin, "ada", std::chrono::hours(1));
    REQUIRE(admin.ok());
    grpc::SslCredentialsOptions ssl;
    ssl.pem_root_certs = admin->ca_pem;
    ssl.pem_private_key = admin->key_pem;
    ssl.pem_cert_chain = admin->certificate_pem;
    stub = v1::ControllerService::NewStub(rpc::MakeChannel(
        controller->address(), rpc::ServerName(rpc::Role::kController, ""), grpc::SslCredentials(ssl)));
  }

  void Register(const std::string& name, const v1::Facts& facts) {
    v1::RegisterRequest request;
    request.set_machine(name);
    request.set_address("127.0.0.1:1");
    request.set_boot_id("boot-1");
    request.add_api_versions("v1");
    *request.mutable_facts() = facts;
    REQUIRE(controller->registry().Register(request).ok());
  }

  template <class Request, class Response>
  Result<Response> Call(grpc::Status (v1::ControllerService::Stub::*method)(grpc::ClientContext*,
                                                                            const Request&, Response*),
                        const Request& request) {
    return rpc::Call(*stub, method, request, std::chrono::seconds(60));
  }
};

v1::Facts LargeFacts() {
  v1::Facts facts = FakeAgent::Facts();
  for (int i = 0; i < 1000; ++i) facts.add_nics()->set_name(std::string(300, 'n'));
  return facts;
}

bool Names(const Errors& errors, const std::string& where, const std::string& message) {
  return std::any_of(errors.begin(), errors.end(), [&](const Error& error) {
    return error.where.find(where) != std::string::npos && error.message.find(message) != std::string::npos;
  });
}

}  // namespace

TEST_CASE("lists come in pages that fit a message, whatever their entries hold", "[live]") {
  Daemon daemon;
  const v1::Facts large = LargeFacts();
  constexpr int kMachines = 20;
  for (int i = 0; i < kMachines; ++i) daemon.Register("m" + std::to_string(100 + i), large);
  REQUIRE(kMachines * large.ByteSizeLong() > kMessageBytes);
  v1::ListMachinesRequest machines;
  machines.set_with_facts(true);
  std::vector<std::string> names;
  int pages = 0;
  do {
    auto page = daemon.Call(&v1::ControllerService::Stub::ListMachines, machines);
    INFO(page.status());
    REQUIRE(page.ok());
    CHECK(page->ByteSizeLong() < kMessageBytes);
    for (const v1::Machine& machine : page->machines()) names.push_back(machine.name());
    machines.set_page_token(page->next_page_token());
    ++pages;
  } while (!machines.page_token().empty());
  CHECK(pages > 1);
  CHECK(names.size() == kMachines);
  CHECK(std::is_sorted(names.begin(), names.end()));
  machines.set_with_facts(false);
  auto short_list = daemon.Call(&v1::ControllerService::Stub::ListMachines, machines);
  REQUIRE(short_list.ok());
  CHECK(short_list->machines_size() == kMachines);
  CHECK(short_list->next_page_token().empty());

  // Jobs that failed with long reasons.
  constexpr int kJobs = 12;
  for (int i = 0; i < kJobs; ++i) {
    auto job = daemon.controller->store().Insert({}, "ada", "", {}, 0);
    REQUIRE(job.ok());
    controller::Change change;
    for (int reason = 0; reason < 60; ++reason)
      change.reasons.push_back(controller::MakeReason("engine_died", std::string(20'000, 'r')));
    REQUIRE(daemon.controller->store().Update(job->id(), change).ok());
  }
  v1::ListJobsRequest jobs;
  jobs.set_page_size(1000);
  std::set<std::string> ids;
  pages = 0;
  do {
    auto page = daemon.Call(&v1::ControllerService::Stub::ListJobs, jobs);
    INFO(page.status());
    REQUIRE(page.ok());
    for (const v1::Job& job : page->jobs()) ids.insert(job.id());
    jobs.set_page_token(page->next_page_token());
    ++pages;
  } while (!jobs.page_token().empty());
  CHECK(pages > 2);
  CHECK(ids.size() == kJobs);
}

TEST_CASE("what a submission may not hold is told all at once, with what its specs say wrong", "[live]") {
  Daemon daemon;
  v1::SubmitJobRequest request;
  request.set_name(std::string(201, 'n'));
  request.set_job_path("job.yaml");
  for (int i = 0; i < 3; ++i) request.add_labels()->set_key("k" + std::to_string(i));
  request.mutable_labels(0)->set_value(std::string(3'000'000, 'v'));
  request.mutable_labels(1)->set_key(std::string(257, 'k'));
  (*request.mutable_set())["host"] = std::string(5000, '9');
  const std::vector<std::pair<std::string, std::string>> wrong = {
      {"trace.tmp", "ends in .tmp"},
      {"a/..", "no file name"},
      {"a/.", "no file name"},
      {"a/", "no file name"},
      {"two\nlines", "control characters"},
      {std::string(201, 'f'), "201 bytes"},
      {std::string(600, 'd') + "/" + std::string(600, 'd') + "/f", "1203 bytes"}};
  for (const auto& [path, why] : wrong) request.add_inputs()->set_path(path);
  for (int i = 0; i < 2; ++i) request.add_inputs()->set_path("pool.yaml");
  const auto refused = daemon.Call(&v1::ControllerService::Stub::SubmitJob, request);
  CHECK(refused.status().code() == absl::StatusCode::kInvalidArgument);
  const Errors errors = rpc::ErrorsOf(refused.status());
  for (const Error& error : errors) UNSCOPED_INFO(error.where << ": " << error.message);
  CHECK(Names(errors, "name", "201 bytes"));
  CHECK(Names(errors, "label 'k0'", "3000000 bytes"));
  CHECK(Names(errors, "label 'kkk", "257 bytes"));
  CHECK(Names(errors, "set 'host'", "5004 bytes"));
  for (const auto& [path, why] : wrong) CHECK(Names(errors, "input", why));
  CHECK(Names(errors, "'pool.yaml'", "named twice"));
  CHECK(Names(errors, "pool.yaml", "was not uploaded"));
  CHECK(Names(errors, "job_path", "none of the inputs"));
  // A dry run says the same.
  v1::ValidateJobRequest dry;
  *dry.mutable_job() = request;
  auto plan = daemon.Call(&v1::ControllerService::Stub::ValidateJob, dry);
  REQUIRE(plan.ok());
  CHECK(plan->refusals_size() == static_cast<int>(errors.size()));

  v1::SubmitJobRequest many;
  for (int i = 0; i < 65; ++i) many.add_labels()->set_key(std::to_string(i));
  CHECK(Names(rpc::ErrorsOf(daemon.Call(&v1::ControllerService::Stub::SubmitJob, many).status()), "labels",
              "at most 64"));
  many.Clear();
  many.set_request_id(std::string(201, 'r'));
  CHECK(Names(rpc::ErrorsOf(daemon.Call(&v1::ControllerService::Stub::SubmitJob, many).status()),
              "request_id", "at most 200"));
  CHECK(daemon.controller->store().List({}, 0, 10)->jobs.empty());
}

TEST_CASE("what is said about a machine has an end, and so have the ids of requests", "[live]") {
  Daemon daemon;
  daemon.Register("n0", FakeAgent::Facts());
  v1::SetMachineStateRequest request;
  request.set_machine("n0");
  request.set_action(v1::MACHINE_ACTION_DRAIN);
  request.set_reason(std::string(1001, 'w'));
  auto answer = daemon.Call(&v1::ControllerService::Stub::SetMachineState, request);
  CHECK(answer.status().code() == absl::StatusCode::kInvalidArgument);
  request.set_reason("a new fan");
  request.set_request_id(std::string(201, 'r'));
  answer = daemon.Call(&v1::ControllerService::Stub::SetMachineState, request);
  CHECK(answer.status().code() == absl::StatusCode::kInvalidArgument);
  CHECK(daemon.controller->registry().Get("n0")->state() == v1::MACHINE_STATE_READY);
  request.set_request_id("r1");
  answer = daemon.Call(&v1::ControllerService::Stub::SetMachineState, request);
  INFO(answer.status());
  REQUIRE(answer.ok());
  CHECK(answer->machine().state() == v1::MACHINE_STATE_DRAINED);
}

}  // namespace poolmark::test
