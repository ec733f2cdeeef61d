// A real server and real clients over TLS on the loopback interface: who gets in, and that streams always
// end.
#include "common/rpc/server.h"

#include <grpcpp/impl/client_unary_call.h>
#include <grpcpp/support/byte_buffer.h>

#include <catch2/catch.hpp>
#include <thread>

#include "common/base/files.h"
#include "common/rpc/audit.h"
#include "common/rpc/channel.h"
#include "common/rpc/openssl.h"
#include "common/rpc/streams.h"
#include "controller/ca/sign.h"
#include "poolmark/v1/controller.grpc.pb.h"
#include "tests/support/cluster.h"
#include "tests/support/waiting.h"

namespace poolmark::rpc {
namespace {

using namespace std::chrono_literals;
using v1::ControllerService;

using Base = ControllerService::WithCallbackMethod_WatchJob<
    ControllerService::WithCallbackMethod_UploadInput<ControllerService::Service>>;

// Answers GetVersion with who called; WatchJob's job id says how the stream behaves.
class Service final : public Base {
 public:
  explicit Service(Streams* streams) : streams_(streams) {}

  grpc::Status GetVersion(grpc::ServerContext* context, const v1::GetVersionRequest*,
                          v1::GetVersionResponse* response) override {
    auto caller = CallerOf(*context);
    if (!caller.ok()) return ToGrpc(caller.status());
    response->set_caller_name(caller->name);
    response->set_caller_role(RoleName(caller->role));
    response->set_cluster_id(caller->cluster);
    return grpc::Status::OK;
  }
  grpc::Status SubmitJob(grpc::ServerContext*, const v1::SubmitJobRequest*, v1::SubmitJobResponse*) override {
    Errors errors;
    for (int i = 0; i < 3000; ++i) {
      errors.push_back({absl::StatusCode::kInvalidArgument, "bad", "job.yaml:" + std::to_string(i),
                        "value out of bounds", "lower it"});
    }
    return ToGrpc(errors);
  }

  grpc::ServerWriteReactor<v1::WatchJobResponse>* WatchJob(grpc::CallbackServerContext* context,
                                                           const v1::WatchJobRequest* request) override {
    const std::string kind = request->job_id();
    if (kind == "dropped") return streams_->Open<v1::WatchJobResponse>(context)->reactor();
    if (kind == "silent") {
      auto out = streams_->Open<v1::WatchJobResponse>(context);
      std::lock_guard lock(held_mutex_);  // gRPC runs handlers side by side
      held_.push_back(out);
      return out->reactor();
    }
    return streams_->Produce<v1::WatchJobResponse>(
        context, [kind, this](Outbox<v1::WatchJobResponse>& out) -> Status {
          if (kind == "fail") return NotFound("job", "no such job", "list them");
          v1::WatchJobResponse message;
          for (uint64_t i = 1; kind == "endless" || i <= 500; ++i) {
            message.mutable_event()->set_sequence(i);
            if (kind == "endless") message.mutable_event()->set_message(std::string(10000, 'x'));
            if (!out.Write(message)) {
              ++stopped;
              return absl::OkStatus();
            }
          }
          return absl::OkStatus();
        });
  }

  grpc::ServerReadReactor<v1::UploadInputRequest>* UploadInput(grpc::CallbackServerContext* context,
                                                               v1::UploadInputResponse* response) override {
    return streams_->Consume<v1::UploadInputRequest, v1::UploadInputResponse>(
        context, response,
        [this](Inbox<v1::UploadInputRequest>& in, v1::UploadInputResponse* reply) -> Status {
          v1::UploadInputRequest message;
          uint64_t bytes = 0;
          while (in.Read(&message)) {
            bytes += message.data().size();
            if (message.sha256() == "early") return InvalidInput("sha256", "not a digest");
          }
          ++uploads_ended;
          reply->set_size(bytes);
          return absl::OkStatus();
        });
  }

  std::atomic<int> stopped{0};
  std::atomic<int> uploads_ended{0};

 private:
  Streams* streams_;
  std::mutex held_mutex_;
  std::vector<std::shared_ptr<Outbox<v1::WatchJobResponse>>> held_;
};

struct Fixture {
  explicit Fixture(std::function<void(ServerOptions*)> change = {}) : service(&streams) {
    ServerOptions options;
    options.address = "127.0.0.1:0";
    options.identity_dir = cluster.Controller();
    options.streams = &streams;
    options.cluster = "lab";
    options.is_revoked = [this](const Identity& who) { return cluster.ca().IsRevoked(who.serial); };
    if (change) change(&options);
    auto started = Server::Start(options, {{&service, ControllerService::service_full_name()}});
    INFO(started.status());
    REQUIRE(started.ok());
    server = std::move(*started);
  }
  std::unique_ptr<ControllerService::Stub> Stub(const std::string& identity,
                                                const std::string& name = "controller.poolmark") {
    auto channel = MakeChannel({server->address(), name, identity});
    INFO(channel.status());
    REQUIRE(channel.ok());
    return ControllerService::NewStub(*channel);
  }
  Result<v1::GetVersionResponse> Ask(ControllerService::Stub& stub) {
    return Call(stub, &ControllerService::Stub::GetVersion, v1::GetVersionRequest(), 10s);
  }
  Status Watch(ControllerService::Stub& stub, const std::string& kind,
               const std::function<bool(v1::WatchJobResponse&)>& on_message, std::stop_token stop = {},
               std::chrono::nanoseconds deadline = 20s) {
    v1::WatchJobRequest request;
    request.set_job_id(kind);
    return ReadStream<v1::WatchJobResponse>(
        [&](grpc::ClientContext* context) { return stub.WatchJob(context, request); }, deadline, stop,
        on_message);
  }

  test::Cluster cluster;
  Streams streams;
  Service service;
  std::unique_ptr<Server> server;
};

// A certificate that the CA would not give: other times, other URIs.
std::string OddIdentity(Fixture& fixture, const std::string& name, const std::string& uri, Nanoseconds from,
                        Nanoseconds to) {
  std::string dir = fixture.cluster.dir() / ("odd-" + name);
  std::string key = *MakeKey();
  controller::CertificatePlan plan;
  plan.common_name = name;
  if (!uri.empty()) plan.uris = {uri};
  plan.not_before = RealClock().Wall() + from;
  plan.not_after = RealClock().Wall() + to;
  std::string ca_key = *ReadFile(fixture.cluster.dir() / "ca/ca.key");
  auto leaf = controller::SignRequest(*MakeRequest(key, name), plan, fixture.cluster.ca().ca_pem(), ca_key);
  REQUIRE(leaf.ok());
  REQUIRE(MakeDirs(dir, 0700).ok());
  REQUIRE(AtomicWriteFile(dir + "/cert.pem", *leaf).ok());
  REQUIRE(AtomicWriteFile(dir + "/key.pem", key).ok());
  return dir;
}

// Calls with PEM texts, past the checks that our own client makes of its files.
Status AskWith(Fixture& fixture, const std::string& certificate, const std::string& key) {
  PrepareGrpc();
  grpc::SslCredentialsOptions options;
  options.pem_root_certs = fixture.cluster.ca().ca_pem();
  options.pem_cert_chain = certificate;
  options.pem_private_key = key;
  auto stub = ControllerService::NewStub(
      MakeChannel(fixture.server->address(), "controller.poolmark", grpc::SslCredentials(options)));
  return Call(*stub, &ControllerService::Stub::GetVersion, v1::GetVersionRequest(), 5s).status();
}

}  // namespace

TEST_CASE("the server knows its caller by the certificate", "[L2][live]") {
  Fixture fixture;
  auto stub = fixture.Stub(fixture.cluster.Identity(Role::kOperator, "olga"));
  auto reply = fixture.Ask(*stub);
  INFO(reply.status());
  REQUIRE(reply.ok());
  CHECK(reply->caller_name() == "olga");
  CHECK(reply->caller_role() == "operator");
  CHECK(reply->cluster_id() == "lab");
}

TEST_CASE("wrong certificates get nowhere", "[L2][live]") {
  Fixture fixture;
  SECTION("none") {
    CHECK(AskWith(fixture, "", "").code() == absl::StatusCode::kUnavailable);
  }
  SECTION("of another CA") {
    test::Cluster other;
    auto text = LoadIdentity(other.Identity(Role::kAdmin, "mallory"), RealClock());
    REQUIRE(text.ok());
    CHECK(AskWith(fixture, text->certificate_pem, text->key_pem).code() == absl::StatusCode::kUnavailable);
  }
  SECTION("expired, not yet valid, and in between") {
    for (auto [name, from, to] : {std::tuple{"expired", -2h, -1h}, std::tuple{"early", 1h, 2h}}) {
      std::string dir = OddIdentity(fixture, name, "spiffe://lab/admin/x", from, to);
      INFO(name);
      CHECK(AskWith(fixture, *ReadFile(dir + "/cert.pem"), *ReadFile(dir + "/key.pem")).code() ==
            absl::StatusCode::kUnavailable);
    }
    std::string dir = OddIdentity(fixture, "fine", "spiffe://lab/admin/x", -1h, 1h);
    CHECK(AskWith(fixture, *ReadFile(dir + "/cert.pem"), *ReadFile(dir + "/key.pem")).ok());
  }
  SECTION("without identity, with an unknown role, of another cluster") {
    for (auto [name, uri] : {std::pair{"nobody", ""}, std::pair{"root", "spiffe://lab/root/x"},
                             std::pair{"far", "spiffe://far/admin/x"}}) {
      std::string dir = OddIdentity(fixture, name, uri, -1h, 1h);
      INFO(name);
      CHECK(AskWith(fixture, *ReadFile(dir + "/cert.pem"), *ReadFile(dir + "/key.pem")).code() ==
            absl::StatusCode::kPermissionDenied);
    }
  }
  SECTION("revoked, on a connection that is open already") {
    auto stub = fixture.Stub(fixture.cluster.Identity(Role::kOperator, "olga"));
    REQUIRE(fixture.Ask(*stub).ok());
    REQUIRE(*fixture.cluster.ca().Revoke(false, "olga") == 1);
    CHECK(fixture.Ask(*stub).status().code() == absl::StatusCode::kPermissionDenied);
  }
  SECTION("a role that may not") {
    auto stub = fixture.Stub(fixture.cluster.Identity(Role::kViewer, "vera"));
    auto reply = Call(*stub, &ControllerService::Stub::SubmitJob, v1::SubmitJobRequest(), 10s);
    CHECK(reply.status().code() == absl::StatusCode::kPermissionDenied);
    auto agent = fixture.Stub(fixture.cluster.Identity(Role::kAgent, "n1"));
    CHECK(Call(*agent, &ControllerService::Stub::ListJobs, v1::ListJobsRequest(), 10s).status().code() ==
          absl::StatusCode::kPermissionDenied);
  }
  // Whatever was refused, a good caller is served afterwards.
  auto stub = fixture.Stub(fixture.cluster.Identity(Role::kAdmin, "ada"));
  CHECK(fixture.Ask(*stub).ok());
}

TEST_CASE("a client refuses a server that is someone else", "[live]") {
  Fixture fixture;
  std::string me = fixture.cluster.Identity(Role::kAdmin, "ada");
  CHECK(fixture.Ask(*fixture.Stub(me, "n1.agent.poolmark")).status().code() ==
        absl::StatusCode::kUnavailable);
  CHECK(fixture.Ask(*fixture.Stub(me)).ok());
}

TEST_CASE("TLS 1.2 is refused, 1.3 taken", "[live]") {
  Fixture fixture;
  for (int version : {TLS1_2_VERSION, TLS1_3_VERSION}) {
    SslContextPtr context(SSL_CTX_new(TLS_client_method()));
    SSL_CTX_set_min_proto_version(context.get(), version);
    SSL_CTX_set_max_proto_version(context.get(), version);
    BioPtr bio(BIO_new_ssl_connect(context.get()));
    BIO_set_conn_hostname(bio.get(), fixture.server->address().c_str());
    INFO(version);
    CHECK((BIO_do_handshake(bio.get()) == 1) == (version == TLS1_3_VERSION));
    ERR_clear_error();
  }
}

TEST_CASE("all errors of a submit arrive, however many", "[live]") {
  Fixture fixture;
  auto stub = fixture.Stub(fixture.cluster.Identity(Role::kAutomation, "ci"));
  auto reply = Call(*stub, &ControllerService::Stub::SubmitJob, v1::SubmitJobRequest(), 10s);
  REQUIRE(reply.status().code() == absl::StatusCode::kInvalidArgument);
  Errors errors = ErrorsOf(reply.status());
  CHECK(errors.size() > 500);
  CHECK(errors[499].where == "job.yaml:499");
}

TEST_CASE("streams arrive whole and in order, and carry their failure", "[live]") {
  Fixture fixture;
  auto stub = fixture.Stub(fixture.cluster.Identity(Role::kViewer, "vera"));
  uint64_t last = 0;
  Status end = fixture.Watch(*stub, "count", [&](v1::WatchJobResponse& message) {
    CHECK(message.event().sequence() == last + 1);
    last = message.event().sequence();
    return true;
  });
  CHECK(end.ok());
  CHECK(last == 500);
  end = fixture.Watch(*stub, "fail", [](auto&) { return true; });
  CHECK(end.code() == absl::StatusCode::kNotFound);
  CHECK(ErrorOf(end).hint == "list them");
  end = fixture.Watch(*stub, "dropped", [](auto&) { return true; });
  CHECK(end.code() == absl::StatusCode::kInternal);
  CHECK(test::WaitFor([&] { return fixture.streams.open() == 0; }));
}

TEST_CASE("a client that leaves ends its stream on the server", "[live]") {
  Fixture fixture;
  auto stub = fixture.Stub(fixture.cluster.Identity(Role::kViewer, "vera"));
  int got = 0;
  CHECK(fixture.Watch(*stub, "endless", [&](auto&) { return ++got < 5; }).ok());
  CHECK(test::WaitFor([&] { return fixture.service.stopped == 1 && fixture.streams.open() == 0; }));
  std::stop_source stop;
  std::jthread later([&] { stop.request_stop(); });
  CHECK(fixture
            .Watch(
                *stub, "silent", [](auto&) { return true; }, stop.get_token())
            .code() == absl::StatusCode::kCancelled);
  CHECK(test::WaitFor([&] { return fixture.streams.open() == 0; }));
}

TEST_CASE("uploads: whole, refused early, abandoned", "[live]") {
  Fixture fixture;
  auto stub = fixture.Stub(fixture.cluster.Identity(Role::kAutomation, "ci"));
  v1::UploadInputRequest chunk;
  chunk.set_data(std::string(100000, 'x'));
  {
    grpc::ClientContext context;
    v1::UploadInputResponse response;
    auto writer = stub->UploadInput(&context, &response);
    for (int i = 0; i < 200; ++i) REQUIRE(writer->Write(chunk));
    writer->WritesDone();
    CHECK(FromGrpc(writer->Finish()).ok());
    CHECK(response.size() == 200 * 100000);
  }
  {
    grpc::ClientContext context;
    v1::UploadInputResponse response;
    auto writer = stub->UploadInput(&context, &response);
    v1::UploadInputRequest bad;
    bad.set_sha256("early");
    writer->Write(bad);
    while (writer->Write(chunk)) {
    }
    CHECK(writer->Finish().error_code() == grpc::StatusCode::INVALID_ARGUMENT);
  }
  REQUIRE(test::WaitFor([&] { return fixture.streams.open() == 0; }));
  {
    grpc::ClientContext context;
    v1::UploadInputResponse response;
    auto writer = stub->UploadInput(&context, &response);
    REQUIRE(writer->Write(chunk));
    REQUIRE(test::WaitFor([&] { return fixture.streams.open() == 1; }));
    context.TryCancel();
    CHECK(writer->Finish().error_code() == grpc::StatusCode::CANCELLED);
  }
  CHECK(test::WaitFor([&] { return fixture.service.uploads_ended == 2 && fixture.streams.open() == 0; }));
}

TEST_CASE("shutdown ends in time with streams that nobody reads", "[live]") {
  Fixture fixture;
  std::string me = fixture.cluster.Identity(Role::kViewer, "vera");
  auto stub = fixture.Stub(me);
  std::vector<std::unique_ptr<grpc::ClientContext>> contexts;
  std::vector<std::unique_ptr<grpc::ClientReader<v1::WatchJobResponse>>> readers;
  for (int i = 0; i < 20; ++i) {
    v1::WatchJobRequest request;
    request.set_job_id(i % 2 == 0 ? "endless" : "silent");
    contexts.push_back(std::make_unique<grpc::ClientContext>());
    readers.push_back(stub->WatchJob(contexts.back().get(), request));  // never read
  }
  REQUIRE(test::WaitFor([&] { return fixture.streams.open() >= 10; }));
  auto start = std::chrono::steady_clock::now();
  fixture.server->Shutdown(1s);
  CHECK(std::chrono::steady_clock::now() - start < 8s);
  CHECK(fixture.streams.WaitNone(1s));
  for (auto& reader : readers) {
    v1::WatchJobResponse message;
    while (reader->Read(&message)) {
    }
    CHECK_FALSE(reader->Finish().ok());
  }
}

TEST_CASE("revocation ends the streams of the revoked", "[live]") {
  Fixture fixture;
  auto stub = fixture.Stub(fixture.cluster.Identity(Role::kViewer, "vera"));
  std::jthread revoker([&] {
    test::WaitFor([&] { return fixture.streams.open() == 1; });
    fixture.streams.CancelIf([](const Identity& who) { return who.name == "vera"; });
  });
  CHECK_FALSE(fixture.Watch(*stub, "silent", [](auto&) { return true; }).ok());
}

TEST_CASE("a subscription needs no thread and ends with its owner", "[live]") {
  Fixture fixture;
  auto stub = fixture.Stub(fixture.cluster.Identity(Role::kViewer, "vera"));
  using Watcher = Subscription<v1::WatchJobRequest, v1::WatchJobResponse>;
  auto start = [&](grpc::ClientContext* context, const v1::WatchJobRequest* request,
                   grpc::ClientReadReactor<v1::WatchJobResponse>* reactor) {
    stub->async()->WatchJob(context, request, reactor);
  };
  v1::WatchJobRequest request;
  request.set_job_id("count");
  std::atomic<int> got{0};
  std::atomic<int> ends{0};
  {
    Watcher watcher(
        start, request, 20s, [&](auto&) { ++got; }, [&](const Status&) { ++ends; });
    CHECK(watcher.Wait().ok());
  }
  CHECK(got == 500);
  CHECK(ends == 1);
  request.set_job_id("silent");
  {
    Watcher watcher(
        start, request, 0s, [&](auto&) {}, [&](const Status&) { ++ends; });
  }
  CHECK(ends == 2);
}

TEST_CASE("new certificates are used without a restart", "[live]") {
  Fixture fixture;
  std::string server_dir = fixture.cluster.Controller();
  std::string me = fixture.cluster.Identity(Role::kAdmin, "ada");
  std::string before = ParseCertificate(LoadIdentity(server_dir, RealClock())->certificate_pem)->serial;
  auto serial_seen = [&]() -> std::string {
    SslContextPtr context(SSL_CTX_new(TLS_client_method()));
    BioPtr bio(BIO_new_ssl_connect(context.get()));
    BIO_set_conn_hostname(bio.get(), fixture.server->address().c_str());
    if (BIO_do_handshake(bio.get()) != 1) return "";
    SSL* ssl = nullptr;
    BIO_get_ssl(bio.get(), &ssl);
    CertPtr certificate(SSL_get1_peer_certificate(ssl));
    return ParseCertificate(CertPem(certificate.get()))->serial;
  };
  CHECK(serial_seen() == before);
  auto fresh = fixture.cluster.ca().Issue(Role::kController, "controller", 1h);
  REQUIRE(fresh.ok());
  REQUIRE(InstallIdentity(server_dir, *fresh, RealClock()).ok());
  std::string after = ParseCertificate(fresh->certificate_pem)->serial;
  CHECK(test::WaitFor([&] { return serial_seen() == after; }));
  CHECK(fixture.Ask(*fixture.Stub(me)).ok());
  // A pair that does not fit never becomes the current one.
  IdentityText bad = *fresh;
  bad.key_pem = *MakeKey();
  CHECK_FALSE(InstallIdentity(server_dir, bad, RealClock()).ok());
  bad = *fresh;
  bad.certificate_pem.clear();
  CHECK_FALSE(InstallIdentity(server_dir, bad, RealClock()).ok());
  CHECK(fixture.Ask(*fixture.Stub(me)).ok());
}

TEST_CASE("a certificate that expired is refused on a connection that was made before", "[L2][live]") {
  struct Shifted final : public Clock {
    Nanoseconds Steady() const override { return RealClock().Steady(); }
    Nanoseconds Boot() const override { return RealClock().Boot(); }
    Nanoseconds Wall() const override { return RealClock().Wall() + Nanoseconds(shift.load()); }
    std::atomic<int64_t> shift{0};
  } clock;
  Fixture fixture;
  ServerOptions options;
  options.address = "127.0.0.1:0";
  options.identity_dir = fixture.cluster.Controller();
  auto server = Server::Start(options, {&fixture.service}, clock);
  REQUIRE(server.ok());
  auto channel = MakeChannel(
      {(*server)->address(), "controller.poolmark", fixture.cluster.Identity(Role::kOperator, "olga")});
  REQUIRE(channel.ok());
  auto stub = ControllerService::NewStub(*channel);
  REQUIRE(fixture.Ask(*stub).ok());
  clock.shift = Nanoseconds(59min).count();
  REQUIRE(fixture.Ask(*stub).ok());
  clock.shift = Nanoseconds(61min).count();
  const Status refused = fixture.Ask(*stub).status();
  CHECK(absl::IsPermissionDenied(refused));
  CHECK(ErrorOf(refused).message.find("the certificate of 'olga' has expired") != std::string::npos);
  CHECK((*server)->counts().accepted == 1);
}

TEST_CASE("connections are made anew after their time, and no call notices", "[live]") {
  Fixture fixture([](ServerOptions* options) { options->connection_age = 200ms; });
  auto stub = fixture.Stub(fixture.cluster.Identity(Role::kOperator, "olga"));
  int calls = 0, failed = 0;
  CHECK(test::WaitFor([&] {
    ++calls;
    failed += !fixture.Ask(*stub).ok();
    return fixture.server->counts().accepted >= 4;
  }));
  INFO(calls << " calls");
  CHECK(failed == 0);
}

TEST_CASE("health is told for the server and for each of its services", "[L2][live]") {
  Fixture fixture;
  auto channel = MakeChannel(
      {fixture.server->address(), "controller.poolmark", fixture.cluster.Identity(Role::kViewer, "vera")});
  REQUIRE(channel.ok());
  // grpc.health.v1.HealthCheckRequest{service} and HealthCheckResponse{status}, as they are on the wire.
  auto ask = [&](const std::string& service) -> std::string {
    grpc::ClientContext context;
    SetDeadline(&context, 10s);
    std::string body;
    if (!service.empty()) body = std::string("\x0a") + static_cast<char>(service.size()) + service;
    grpc::Slice slice(body);
    grpc::ByteBuffer request(&slice, 1), response;
    grpc::internal::RpcMethod method("/grpc.health.v1.Health/Check", grpc::internal::RpcMethod::NORMAL_RPC);
    const grpc::Status status =
        grpc::internal::BlockingUnaryCall(channel->get(), method, &context, request, &response);
    if (!status.ok()) return status.error_code() == grpc::StatusCode::NOT_FOUND ? "unknown" : "failed";
    grpc::Slice answer;
    REQUIRE(response.DumpToSingleSlice(&answer).ok());
    return std::string(answer.begin(), answer.end());
  };
  const std::string serving = "\x08\x01", not_serving = "\x08\x02";
  CHECK(ask("") == serving);
  CHECK(ask("poolmark.v1.ControllerService") == serving);
  CHECK(ask("poolmark.v1.AgentService") == "unknown");
  fixture.server->SetServing(false);
  CHECK(ask("") == not_serving);
  CHECK(ask("poolmark.v1.ControllerService") == not_serving);
}

TEST_CASE("the audit log has a line for each change and each denial, chained", "[live]") {
  test::TempDir dir;
  const std::string path = dir / "audit.jsonl";
  {
    auto log = AuditLog::Open(path, RealClock());
    REQUIRE(log.ok());
    std::shared_ptr<AuditLog> audit = std::move(*log);
    Fixture fixture([&](ServerOptions* options) { options->audit = audit; });
    auto viewer = fixture.Stub(fixture.cluster.Identity(Role::kViewer, "vera"));
    auto automation = fixture.Stub(fixture.cluster.Identity(Role::kAutomation, "ci"));
    REQUIRE(fixture.Ask(*viewer).ok());  // reading leaves no line
    CHECK_FALSE(Call(*viewer, &ControllerService::Stub::SubmitJob, v1::SubmitJobRequest(), 10s).ok());
    CHECK_FALSE(Call(*automation, &ControllerService::Stub::SubmitJob, v1::SubmitJobRequest(), 10s).ok());
  }
  std::string text = *ReadFile(path);
  CHECK(CheckAuditLog(path)->lines == 2);
  CHECK(text.find("\"who\":\"viewer vera\"") != std::string::npos);
  CHECK(text.find("PERMISSION_DENIED") != std::string::npos);
  CHECK(text.find("\"who\":\"automation ci\"") != std::string::npos);
  CHECK(text.find("3000 errors") != std::string::npos);
  CHECK(text.find("\"sha256\":\"") != std::string::npos);  // of the request that reached the handler
  // It goes on after a restart, also after half a line.
  (*AuditLog::Open(path, RealClock()))->Add({"a", "", "", "m", {}, "ok"});
  CHECK(CheckAuditLog(path)->lines == 3);
  // A line that is altered or taken out shows.
  std::string altered = *ReadFile(path);
  altered.replace(altered.find("vera"), 4, "carl");
  REQUIRE(AtomicWriteFile(path, altered).ok());
  CHECK_FALSE(CheckAuditLog(path).ok());
  REQUIRE(AtomicWriteFile(path, text.substr(text.find('\n') + 1)).ok());
  CHECK_FALSE(CheckAuditLog(path).ok());
}

TEST_CASE("listening everywhere must be asked for") {
  test::Cluster cluster;
  Streams streams;
  Service service(&streams);
  ServerOptions options;
  options.identity_dir = cluster.Controller();
  for (const char* address : {"0.0.0.0:0", "[::]:0", "[::ffff:0.0.0.0]:0"}) {
    options.address = address;
    options.allow_any_address = false;
    auto refused = Server::Start(options, {&service});
    CHECK(refused.status().code() == absl::StatusCode::kInvalidArgument);
    CHECK(std::string(refused.status().message()).find("name one address, or set allow_any_address") !=
          std::string::npos);
  }
  options.address = "0.0.0.0:0";
  options.allow_any_address = true;
  CHECK(Server::Start(options, {&service}).ok());
  options.address = "127.0.0.1:0";
  options.identity_dir = cluster.dir() / "none";
  CHECK(Server::Start(options, {&service}).status().code() == absl::StatusCode::kNotFound);
}

}  // namespace poolmark::rpc
