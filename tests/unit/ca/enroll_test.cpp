// Enrolment and renewal between a real controller's listeners and real clients.
#include <catch2/catch.hpp>

#include "common/base/files.h"
#include "common/rpc/channel.h"
#include "common/rpc/contexts.h"
#include "common/rpc/enroll_client.h"
#include "common/rpc/renewal.h"
#include "common/rpc/server.h"
#include "controller/ca/enroll_service.h"
#include "tests/support/cluster.h"
#include "tests/support/fake_clock.h"

namespace poolmark::controller {
namespace {

using namespace std::chrono_literals;

class RenewService final : public v1::ControllerService::Service {
 public:
  explicit RenewService(Authority& authority) : authority_(authority) {}
  grpc::Status RenewCertificate(grpc::ServerContext* context, const v1::RenewCertificateRequest* request,
                                v1::RenewCertificateResponse* response) override {
    auto caller = rpc::CallerOf(*context);
    if (!caller.ok()) return rpc::ToGrpc(caller.status());
    return rpc::ToGrpc(controller::RenewCertificate(authority_, *caller, *request, response));
  }

 private:
  Authority& authority_;
};

struct Fixture {
  Fixture() : tokens(cluster.dir() / "ca", RealClock()), renew(cluster.ca()) {
    rpc::ServerOptions options;
    options.address = "127.0.0.1:0";
    options.identity_dir = cluster.Controller();
    options.cluster = "lab";
    options.is_revoked = [this](const rpc::Identity& who) { return cluster.ca().IsRevoked(who.serial); };
    auto started = rpc::Server::Start(options, {&renew});
    REQUIRE(started.ok());
    main = std::move(*started);
    service = std::make_unique<EnrollServiceImpl>(cluster.ca(), tokens, main->address(), RealClock());
    options.clients_have_certificates = false;
    started = rpc::Server::Start(options, {service.get(), &renew});
    REQUIRE(started.ok());
    enroll = std::move(*started);
  }
  std::string Token(const std::string& name, rpc::Role role, Nanoseconds life = 1h) {
    auto secret = tokens.Create(name, role, life);
    REQUIRE(secret.ok());
    return rpc::FormatToken({enroll->address(), cluster.ca().ca_sha256(), name, role, *secret});
  }

  test::Cluster cluster;
  TokenStore tokens;
  RenewService renew;
  std::unique_ptr<rpc::Server> main;
  std::unique_ptr<EnrollServiceImpl> service;
  std::unique_ptr<rpc::Server> enroll;
};

std::string CodeOf(const Status& status) {
  return ErrorOf(status).code;
}

}  // namespace

TEST_CASE("a token becomes a certificate, once", "[L1][live]") {
  Fixture fixture;
  std::string token = fixture.Token("n1", rpc::Role::kAgent);
  auto enrolled = rpc::Enroll(token);
  INFO(enrolled.status());
  REQUIRE(enrolled.ok());
  CHECK(enrolled->name == "n1");
  CHECK(enrolled->role == rpc::Role::kAgent);
  CHECK(enrolled->cluster == "lab");
  CHECK(enrolled->controller_address == fixture.main->address());
  CHECK(rpc::InstallIdentity(fixture.cluster.dir() / "joined", enrolled->identity, RealClock()).ok());
  CHECK(CodeOf(rpc::Enroll(token).status()) == "token_used");
}

TEST_CASE("tokens that do not enrol") {
  Fixture fixture;
  SECTION("expired") {
    std::string token = fixture.Token("n1", rpc::Role::kAgent, 1s);
    std::this_thread::sleep_for(1100ms);
    CHECK(CodeOf(rpc::Enroll(token).status()) == "token_expired");
  }
  SECTION("with another name or role written in") {
    auto parsed = rpc::ParseToken(fixture.Token("n1", rpc::Role::kAgent));
    REQUIRE(parsed.ok());
    parsed->name = "n2";
    CHECK(CodeOf(rpc::Enroll(rpc::FormatToken(*parsed)).status()) == "wrong_name");
    parsed->name = "n1";
    parsed->role = rpc::Role::kAdmin;  // the certificate is still an agent's, and the client notices
    auto enrolled = rpc::Enroll(rpc::FormatToken(*parsed));
    CHECK_FALSE(enrolled.ok());
    CHECK(fixture.cluster.ca().Issued()->front().role == rpc::Role::kAgent);
  }
  SECTION("for a controller with another CA: the secret is not sent") {
    test::Cluster other("other");
    auto parsed = rpc::ParseToken(fixture.Token("n1", rpc::Role::kAgent));
    parsed->ca_sha256 = other.ca().ca_sha256();
    CHECK(CodeOf(rpc::Enroll(rpc::FormatToken(*parsed)).status()) == "other_ca");
    CHECK(fixture.enroll->counts().calls == 0);
  }
  SECTION("not whole, or no token at all") {
    std::string token = fixture.Token("n1", rpc::Role::kAgent);
    for (const std::string& bad :
         {std::string(), token.substr(0, token.size() - 9), token.substr(1), std::string("pmk1-"),
          token + "AAAAAAAA", std::string(10000, 'A'), std::string("pmk1-\n")}) {
      auto status = rpc::Enroll(bad).status();
      CHECK(status.code() == absl::StatusCode::kInvalidArgument);
      if (!bad.empty()) CHECK(std::string(status.message()).find(bad) == std::string::npos);
    }
  }
  SECTION("nobody listens") {
    auto parsed = rpc::ParseToken(fixture.Token("n1", rpc::Role::kAgent));
    fixture.enroll->Shutdown(100ms);
    CHECK(rpc::Enroll(rpc::FormatToken(*parsed)).status().code() == absl::StatusCode::kUnavailable);
  }
}

TEST_CASE("guessing is stopped after five tries, and good tokens wait too", "[live]") {
  Fixture fixture;
  std::string good = fixture.Token("n1", rpc::Role::kAgent);
  for (int i = 0; i < 5; ++i) {
    auto parsed = rpc::ParseToken(good);
    parsed->secret = std::string(31, '0') + std::to_string(i);
    CHECK(CodeOf(rpc::Enroll(rpc::FormatToken(*parsed)).status()) == "token_unknown");
  }
  CHECK(CodeOf(rpc::Enroll(good).status()) == "too_many_attempts");
}

TEST_CASE("the enrolment listener serves nothing else") {
  Fixture fixture;
  grpc::SslCredentialsOptions options;
  options.pem_root_certs = fixture.cluster.ca().ca_pem();
  auto stub = v1::ControllerService::NewStub(
      rpc::MakeChannel(fixture.enroll->address(), "controller.poolmark", grpc::SslCredentials(options)));
  auto reply =
      rpc::Call(*stub, &v1::ControllerService::Stub::RenewCertificate, v1::RenewCertificateRequest(), 5s);
  CHECK(reply.status().code() == absl::StatusCode::kPermissionDenied);
}

TEST_CASE("renewal: at two thirds of the life, over the wire, with a new key", "[live]") {
  Fixture fixture;
  // 5 minutes of allowance before now: the life starts there.
  auto text = fixture.cluster.ca().Issue(rpc::Role::kAgent, "n1", 1h);
  std::string dir = fixture.cluster.dir() / "agent";
  REQUIRE(rpc::InstallIdentity(dir, *text, RealClock()).ok());
  auto info = rpc::ParseCertificate(text->certificate_pem);
  CHECK(rpc::RenewalTime(*info) == info->not_before + 2 * (info->not_after - info->not_before) / 3);
  auto channel = rpc::MakeChannel({fixture.main->address(), "controller.poolmark", dir});
  REQUIRE(channel.ok());
  auto signer = rpc::RenewOver(*channel);
  CHECK_FALSE(*rpc::RenewIfDue(dir, RealClock(), signer));
  struct Later final : Clock {
    Nanoseconds Steady() const override { return RealClock().Steady(); }
    Nanoseconds Boot() const override { return RealClock().Boot(); }
    Nanoseconds Wall() const override { return RealClock().Wall() + ahead; }
    Nanoseconds ahead = 50min;
  } later;
  auto renewed = rpc::RenewIfDue(dir, later, signer);
  INFO(renewed.status());
  REQUIRE(renewed.ok());
  CHECK(*renewed);
  auto fresh = rpc::LoadIdentity(dir, RealClock());
  REQUIRE(fresh.ok());
  CHECK(fresh->key_pem != text->key_pem);
  CHECK(rpc::ParseCertificate(fresh->certificate_pem)->uris == info->uris);
  CHECK(rpc::ParseCertificate(fresh->certificate_pem)->not_after > info->not_after);
  CHECK_FALSE(*rpc::RenewIfDue(dir, later, signer));
  // Expired: told what to do.
  later.ahead = 24h * 365;
  CHECK(rpc::RenewIfDue(dir, later, signer).status().code() == absl::StatusCode::kFailedPrecondition);
  // Revoked: the door is shut to renewal as well.
  REQUIRE(*fixture.cluster.ca().Revoke(true, "n1") == 2);
  v1::RenewCertificateRequest request;
  request.set_csr_pem(*rpc::MakeRequest(fresh->key_pem, "n1"));
  auto stub = v1::ControllerService::NewStub(*channel);
  CHECK(rpc::Call(*stub, &v1::ControllerService::Stub::RenewCertificate, request, 5s).status().code() ==
        absl::StatusCode::kPermissionDenied);
}

TEST_CASE("a renewer does it by itself") {
  test::Cluster cluster;
  std::string dir = cluster.dir() / "self";
  // Due at once, as the allowance is most of its life; long enough not to run out on a busy machine.
  auto text = cluster.ca().Issue(rpc::Role::kController, "controller", 60s);
  REQUIRE(rpc::InstallIdentity(dir, *text, RealClock()).ok());
  std::atomic<int> asked{0};
  rpc::Renewer renewer(
      dir, RealClock(),
      [&](const std::string& request) -> Result<rpc::SignedCertificate> {
        if (++asked == 1) return Unavailable("", "the first try fails");
        POOLMARK_ASSIGN_OR_RETURN(std::string pem,
                                  cluster.ca().Sign(request, rpc::Role::kController, "controller", 1h));
        return rpc::SignedCertificate{pem, cluster.ca().ca_pem()};
      },
      10ms);
  auto end = std::chrono::steady_clock::now() + 5s;
  auto renewed = [&] {
    auto now = rpc::LoadIdentity(dir, RealClock());
    return now.ok() && now->key_pem != text->key_pem;
  };
  while (!renewed() && std::chrono::steady_clock::now() < end) std::this_thread::sleep_for(5ms);
  CHECK(renewed());
  CHECK(asked == 2);
}

TEST_CASE("contexts of several clusters") {
  test::Cluster lab("lab"), far("far");
  test::TempDir home;
  auto store = rpc::ContextStore::Load(home / "config");
  REQUIRE(store.ok());
  CHECK(store->Find("").status().code() == absl::StatusCode::kNotFound);
  REQUIRE(store->Add("lab", "127.0.0.1:1", "lab", *lab.ca().Issue(rpc::Role::kAdmin, "ada", 1h), RealClock())
              .ok());
  REQUIRE(store->Add("far", "127.0.0.1:2", "far", *far.ca().Issue(rpc::Role::kViewer, "ada", 1h), RealClock())
              .ok());
  auto again = rpc::ContextStore::Load(home / "config");
  REQUIRE(again.ok());
  CHECK(again->current() == "far");
  CHECK(again->Find("")->controller == "127.0.0.1:2");
  CHECK(again->Find("lab")->cluster == "lab");
  CHECK(rpc::LoadIdentity(again->Find("lab")->identity_dir, RealClock()).ok());
  REQUIRE(again->Use("lab").ok());
  CHECK_FALSE(again->Use("none").ok());
  CHECK(std::string(again->Find("none").status().message()).find("far, lab") != std::string::npos);
  CHECK_FALSE(
      again->Add("../x", "a:1", "c", *lab.ca().Issue(rpc::Role::kAdmin, "ada", 1h), RealClock()).ok());
  REQUIRE(again->Remove("lab").ok());
  CHECK(again->current() == "far");
  CHECK_FALSE(FileExists(home / "config/contexts/lab"));
  for (const char* bad :
       {"", "[]", "{\"schema_version\":2}", "{\"contexts\":{\"a\":1}}",
        "{\"contexts\":{\"../a\":{\"controller\":\"x:1\"}}}", "{\"curent\":\"x\"}", "{\"current\":1}"}) {
    REQUIRE(AtomicWriteFile(home / "config/config.json", bad).ok());
    INFO(bad);
    CHECK_FALSE(rpc::ContextStore::Load(home / "config").ok());
  }
}

}  // namespace poolmark::controller
