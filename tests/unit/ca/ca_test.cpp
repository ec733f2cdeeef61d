// The certificate authority and its files.
#include "controller/ca/ca.h"

#include <sys/stat.h>

#include <catch2/catch.hpp>
#include <thread>

#include "common/base/files.h"
#include "common/rpc/openssl.h"
#include "controller/ca/attempts.h"
#include "controller/ca/sign.h"
#include "controller/ca/tokens.h"
#include "tests/support/cluster.h"
#include "tests/support/fake_clock.h"
#include "tests/support/waiting.h"

namespace poolmark::controller {
namespace {

using namespace std::chrono_literals;

unsigned Mode(const std::string& path) {
  struct stat status {};
  REQUIRE(stat(path.c_str(), &status) == 0);
  return status.st_mode & 0777;
}

}  // namespace

TEST_CASE("a damaged CA is named by its file, and the hint is for a CA") {
  test::TempDir dir;
  REQUIRE(Authority::Create(dir / "ca", "lab", RealClock()).ok());
  const std::string certificate = *ReadFile(dir / "ca/ca.pem"), key = *ReadFile(dir / "ca/ca.key");
  test::TempDir other;
  REQUIRE(Authority::Create(other / "ca", "lab", RealClock()).ok());
  for (const auto& [file, whole, foreign] :
       {std::tuple{"ca.pem", certificate, *ReadFile(other / "ca/ca.pem")},
        std::tuple{"ca.key", key, *ReadFile(other / "ca/ca.key")}}) {
    const std::string path = dir / "ca/" + file;
    for (const std::string& text :
         {std::string(), whole.substr(0, whole.size() / 2), std::string("\0\xff", 2), foreign}) {
      REQUIRE(AtomicWriteFile(path, text, 0600).ok());
      const Status refused = Authority::Open(dir / "ca", RealClock()).status();
      INFO(file << ": " << refused);
      REQUIRE_FALSE(refused.ok());
      const Error error = ErrorOf(refused);
      // Of a pair that does not fit nobody can say which of the two is wrong.
      const bool named = text == foreign ? error.where.find(dir / "ca/ca.") == 0 : error.where == path;
      CHECK(named);
      CHECK(error.hint.find("restore ca.pem and ca.key together from a backup") == 0);
    }
    REQUIRE(AtomicWriteFile(path, whole, 0600).ok());
    CHECK(Authority::Open(dir / "ca", RealClock()).ok());
  }
}

TEST_CASE("a new CA keeps its key to itself, and is never replaced") {
  test::TempDir dir;
  auto made = Authority::Create(dir / "ca", "lab", RealClock());
  REQUIRE(made.ok());
  CHECK(Mode(dir / "ca") == 0700);
  CHECK(Mode(dir / "ca/ca.key") == 0600);
  CHECK(Mode(dir / "ca/tokens") == 0700);
  CHECK((*made)->cluster() == "lab");
  CHECK((*made)->ca_sha256().size() == 64);
  CHECK(Authority::Create(dir / "ca", "lab", RealClock()).status().code() ==
        absl::StatusCode::kFailedPrecondition);
  auto again = Authority::Open(dir / "ca", RealClock());
  REQUIRE(again.ok());
  CHECK((*again)->ca_sha256() == (*made)->ca_sha256());
  CHECK(rpc::ParseCertificate((*again)->ca_pem())->is_ca);
  REQUIRE(chmod((dir / "ca/ca.key").c_str(), 0644) == 0);
  CHECK_FALSE(Authority::Open(dir / "ca", RealClock()).ok());
  CHECK(Authority::Open(dir / "nothing", RealClock()).status().code() == absl::StatusCode::kNotFound);
  for (const char* bad : {"", "Lab", "a/b", "a b", "../x"})
    CHECK_FALSE(Authority::Create(dir / "other", bad, RealClock()).ok());
}

TEST_CASE("a certificate says who its holder is and nothing more") {
  test::Cluster cluster;
  auto agent = cluster.ca().Issue(rpc::Role::kAgent, "n1", 1h);
  REQUIRE(agent.ok());
  auto info = rpc::ParseCertificate(agent->certificate_pem);
  REQUIRE(info.ok());
  CHECK(info->uris == std::vector<std::string>{"spiffe://lab/agent/n1"});
  CHECK(info->dns_names == std::vector<std::string>{"n1.agent.poolmark"});
  CHECK(info->common_name == "n1");
  CHECK_FALSE(info->is_ca);
  auto user = cluster.ca().Issue(rpc::Role::kAdmin, "ada", 1h);
  REQUIRE(user.ok());
  CHECK(rpc::ParseCertificate(user->certificate_pem)->dns_names.empty());
  CHECK(rpc::ParseBundle(user->certificate_pem)->size() == 2);
  CHECK(rpc::ParseCertificate(user->certificate_pem)->serial != info->serial);
  auto issued = cluster.ca().Issued();
  REQUIRE(issued.ok());
  REQUIRE(issued->size() == 2);
  CHECK(issued->front().name == "ada");
}

TEST_CASE("requests that the CA must not sign") {
  test::Cluster cluster;
  std::string key = *rpc::MakeKey();
  CHECK(cluster.ca().Sign(*rpc::MakeRequest(key, "n1"), rpc::Role::kAgent, "n1", 1h).ok());
  CHECK(rpc::ParseCertificate(*cluster.ca().Sign(*rpc::MakeRequest(key, "n1"), rpc::Role::kViewer, "n1", 1h))
            ->uris.front() == "spiffe://lab/viewer/n1");
  CHECK(cluster.ca().Sign(*rpc::MakeRequest(key, "n2"), rpc::Role::kAgent, "n1", 1h).status().code() ==
        absl::StatusCode::kPermissionDenied);
  CHECK_FALSE(cluster.ca().Sign("", rpc::Role::kAgent, "n1", 1h).ok());
  CHECK_FALSE(cluster.ca()
                  .Sign("-----BEGIN CERTIFICATE REQUEST-----\nAAAA\n-----END CERTIFICATE REQUEST-----\n",
                        rpc::Role::kAgent, "n1", 1h)
                  .ok());
  CHECK_FALSE(cluster.ca().Sign(std::string(20000, 'x'), rpc::Role::kAgent, "n1", 1h).ok());
  CHECK_FALSE(cluster.ca().Sign(*rpc::MakeRequest(key, "n1"), rpc::Role::kNone, "n1", 1h).ok());
  CHECK_FALSE(cluster.ca().Sign(*rpc::MakeRequest(key, "N1,URI:x"), rpc::Role::kAgent, "N1,URI:x", 1h).ok());
  // An RSA key.
  KeyPtr rsa(EVP_RSA_gen(2048));
  BioPtr bio(BIO_new(BIO_s_mem()));
  PEM_write_bio_PKCS8PrivateKey(bio.get(), rsa.get(), nullptr, nullptr, 0, nullptr, nullptr);
  auto request = rpc::MakeRequest(TextOf(bio.get()), "n1");
  REQUIRE(request.ok());
  CHECK_FALSE(cluster.ca().Sign(*request, rpc::Role::kAgent, "n1", 1h).ok());
  // A request whose key was swapped after signing.
  std::string tampered = *rpc::MakeRequest(key, "n1");
  tampered[tampered.size() / 2] = tampered[tampered.size() / 2] == 'A' ? 'B' : 'A';
  CHECK_FALSE(cluster.ca().Sign(tampered, rpc::Role::kAgent, "n1", 1h).ok());
}

TEST_CASE(
    "revocation covers every certificate of a name, outlives a restart and is seen by another process") {
  test::Cluster cluster;
  auto first = cluster.ca().Issue(rpc::Role::kAgent, "n1", 1h);
  auto second = cluster.ca().Issue(rpc::Role::kAgent, "n1", 1h);
  auto user = cluster.ca().Issue(rpc::Role::kOperator, "n1", 1h);  // a user of the same name
  REQUIRE((first.ok() && second.ok() && user.ok()));
  auto serial = [](const auto& text) { return rpc::ParseCertificate(text->certificate_pem)->serial; };
  auto other = Authority::Open(cluster.dir() / "ca", RealClock());
  REQUIRE(other.ok());
  CHECK_FALSE((*other)->IsRevoked(serial(first)));
  CHECK(*cluster.ca().Revoke(true, "n1") == 2);
  CHECK(*cluster.ca().Revoke(true, "n1") == 0);
  CHECK(*cluster.ca().Revoke(true, "nobody") == 0);
  CHECK(cluster.ca().IsRevoked(serial(first)));
  CHECK(cluster.ca().IsRevoked(serial(second)));
  CHECK_FALSE(cluster.ca().IsRevoked(serial(user)));
  CHECK(cluster.ca().RevokedSerials().size() == 2);
  auto restarted = Authority::Open(cluster.dir() / "ca", RealClock());
  REQUIRE(restarted.ok());
  CHECK((*restarted)->IsRevoked(serial(second)));
  auto end = std::chrono::steady_clock::now() + 10s;
  while (!(*other)->IsRevoked(serial(first)) && std::chrono::steady_clock::now() < end)
    std::this_thread::sleep_for(20ms);
  CHECK((*other)->IsRevoked(serial(first)));
  // A torn list lets nobody back in, and a restart with one refuses to start.
  REQUIRE(AtomicWriteFile(cluster.dir() / "ca/revoked.json", "{\"schema_version\":1,").ok());
  std::this_thread::sleep_for(1100ms);  // longer than the list is trusted without a look
  CHECK(cluster.ca().IsRevoked(serial(first)));
  CHECK_FALSE(Authority::Open(cluster.dir() / "ca", RealClock()).ok());
}

TEST_CASE("a certificate that another process revoked a moment ago cannot renew itself", "[L1]") {
  test::Cluster cluster;
  auto thief = cluster.ca().Issue(rpc::Role::kOperator, "thief", 1h);
  REQUIRE(thief.ok());
  const std::string serial = rpc::ParseCertificate(thief->certificate_pem)->serial;
  auto command = Authority::Open(cluster.dir() / "ca", RealClock());
  REQUIRE(command.ok());
  auto request = rpc::MakeRequest(thief->key_pem, "thief");
  REQUIRE(request.ok());
  CHECK_FALSE(cluster.ca().IsRevoked(serial));  // now the daemon trusts its list for a second
  REQUIRE(*(*command)->Revoke(false, "thief") == 1);
  auto renewed = cluster.ca().Renew(*request, rpc::Role::kOperator, "thief", serial);
  CHECK(ErrorOf(renewed.status()).code == "revoked");
}

TEST_CASE("whoever renews without a pause while the name is revoked is left with nothing", "[L1]") {
  test::Cluster cluster;
  auto command = Authority::Open(cluster.dir() / "ca", RealClock());
  REQUIRE(command.ok());
  for (int round = 0; round < 5; ++round) {
    const std::string name = "thief" + std::to_string(round);
    auto first = cluster.ca().Issue(rpc::Role::kOperator, name, 1h);
    REQUIRE(first.ok());
    auto request = rpc::MakeRequest(first->key_pem, name);
    REQUIRE(request.ok());
    std::vector<std::string> serials = {rpc::ParseCertificate(first->certificate_pem)->serial};
    std::atomic<int> renewals{0};
    std::jthread thief([&](const std::stop_token& stop) {
      while (!stop.stop_requested()) {
        auto next = cluster.ca().Renew(*request, rpc::Role::kOperator, name, serials.back());
        if (!next.ok()) return;
        serials.push_back(rpc::ParseCertificate(*next)->serial);
        ++renewals;
      }
    });
    REQUIRE(test::WaitFor([&] { return renewals >= 3; }));
    auto revoked = (*command)->Revoke(false, name);
    thief.join();  // ends by being refused
    REQUIRE(revoked.ok());
    CHECK(*revoked == serials.size());
    for (const std::string& serial : serials) CHECK((*command)->IsRevoked(serial));
  }
}

TEST_CASE("a revocation withdraws the tokens of the name, and those alone", "[L1]") {
  test::Cluster cluster;
  TokenStore tokens(cluster.dir() / "ca", RealClock());
  auto machine = tokens.Create("n1", rpc::Role::kAgent, 1h);
  auto user = tokens.Create("n1", rpc::Role::kViewer, 1h);
  auto other = tokens.Create("n2", rpc::Role::kAgent, 1h);
  REQUIRE((machine.ok() && user.ok() && other.ok()));
  REQUIRE(cluster.ca().Revoke(true, "n1").ok());
  auto request = rpc::MakeRequest(*rpc::MakeKey(), "n1");
  auto refused = cluster.ca().Enroll(tokens, *machine, "n1", *request);
  CHECK(ErrorOf(refused.status()).code == "token_withdrawn");
  CHECK(cluster.ca().Issued()->empty());
  CHECK(tokens.Take(*user, "n1").ok());
  CHECK(tokens.Take(*other, "n2").ok());
  // A token made afterwards is meant.
  auto again = tokens.Create("n1", rpc::Role::kAgent, 1h);
  CHECK(cluster.ca().Enroll(tokens, *again, "n1", *request).ok());
}

TEST_CASE("half a line that a power cut left in issued.jsonl swallows nothing") {
  test::Cluster cluster;
  REQUIRE(cluster.ca().Issue(rpc::Role::kAgent, "n1", 1h).ok());
  REQUIRE(AppendFile(cluster.dir() / "ca/issued.jsonl", "{\"serial\":\"ab", false).ok());
  REQUIRE(cluster.ca().Issue(rpc::Role::kAgent, "n2", 1h).ok());
  auto issued = cluster.ca().Issued();
  REQUIRE(issued.ok());
  CHECK(issued->size() == 2);
}

TEST_CASE("tokens: once, for one name, until they expire, and only their hash is stored") {
  test::TempDir dir;
  test::FakeClock clock;
  REQUIRE(MakeDirs(dir / "tokens", 0700).ok());
  TokenStore store(dir.path(), clock);
  auto secret = store.Create("n1", rpc::Role::kAgent, 1h);
  REQUIRE(secret.ok());
  CHECK(secret->size() == 32);
  auto files = ListTree(dir.path());
  REQUIRE(files.ok());
  for (const std::string& file : *files) {
    CHECK(file.find(*secret) == std::string::npos);
    CHECK(ReadFile(dir / file)->find(*secret) == std::string::npos);
    CHECK(Mode(dir / file) == 0600);
  }
  auto code = [&](const std::string& text, const std::string& name) {
    return ErrorOf(store.Take(text, name).status()).code;
  };
  CHECK(code("00000000000000000000000000000000", "n1") == "token_unknown");
  CHECK(code(*secret, "n2") == "wrong_name");
  auto grant = store.Take(*secret, "n1");
  REQUIRE(grant.ok());
  CHECK(grant->role == rpc::Role::kAgent);
  CHECK(code(*secret, "n1") == "token_used");
  store.PutBack(*grant);
  CHECK(store.Take(*secret, "n1").ok());
  auto late = store.Create("ada", rpc::Role::kAdmin, 10min);
  clock.Advance(10min);
  CHECK(code(*late, "ada") == "token_expired");
  clock.Advance(25h);
  REQUIRE(store.Create("x", rpc::Role::kViewer, 1h).ok());
  CHECK(ListTree(dir.path())->size() == 1);  // old ones are cleared away
  CHECK_FALSE(store.Create("N1", rpc::Role::kAgent, 1h).ok());
  CHECK_FALSE(store.Create("n1", rpc::Role::kController, 1h).ok());
  CHECK_FALSE(store.Create("n1", rpc::Role::kAgent, 0s).ok());
  CHECK_FALSE(store.Create("n1", rpc::Role::kAgent, 10000h).ok());
}

TEST_CASE("of many takers of one token one wins") {
  test::TempDir dir;
  REQUIRE(MakeDirs(dir / "tokens", 0700).ok());
  TokenStore store(dir.path(), RealClock());
  auto secret = store.Create("n1", rpc::Role::kAgent, 1h);
  REQUIRE(secret.ok());
  std::atomic<int> won{0};
  {
    std::vector<std::jthread> takers;
    for (int i = 0; i < 8; ++i) takers.emplace_back([&] { won += store.Take(*secret, "n1").ok() ? 1 : 0; });
  }
  CHECK(won == 1);
}

TEST_CASE("five failures shut a source out for a minute, others not") {
  test::FakeClock clock;
  FailedAttempts attempts(5, 1min, clock);
  for (int i = 0; i < 5; ++i) {
    CHECK_FALSE(attempts.IsShutOut("a"));
    attempts.Failed("a");
    clock.Advance(1s);
  }
  CHECK(attempts.IsShutOut("a"));
  CHECK_FALSE(attempts.IsShutOut("b"));
  clock.Advance(54s);
  CHECK(attempts.IsShutOut("a"));
  clock.Advance(1s);
  CHECK_FALSE(attempts.IsShutOut("a"));
  attempts.Failed("a");
  CHECK(attempts.IsShutOut("a"));
  for (int i = 0; i < 10000; ++i) attempts.Failed("s" + std::to_string(i));  // memory stays bounded
  CHECK(attempts.IsShutOut("never seen"));
  clock.Advance(1min);
  CHECK_FALSE(attempts.IsShutOut("never seen"));
}

}  // namespace poolmark::controller
