// Secrets of the agent's machine: who gets them, and that nobody else does.
#include <cstdlib>

#include "common/base/files.h"
#include "tests/component/agent/agent_fixture.h"
#include "tests/support/shared_data.h"

using namespace poolmark;
using namespace poolmark::test;
using namespace std::chrono_literals;

TEST_CASE("a secret goes by environment and shows up nowhere", "[C12][live]") {
  AgentFixture fixture;
  fixture.Allow("version: 1\nexecutables: {sh: /bin/sh}\nsecrets: {hf: [sh]}\n");
  fixture.StartAgent();
  REQUIRE(MakeDirs(fixture.dir / "secrets", 0700).ok());
  REQUIRE(AtomicWriteFile(fixture.dir / "secrets/hf", "hf_CANARY_7\n", 0600).ok());
  REQUIRE(fixture.Acquire().ok());
  v1::ProcessSpec spec = fixture.Shell("engine-n1", "echo \"$HF_TOKEN\"; env; exec sleep 1000");
  (*spec.mutable_secrets())["HF_TOKEN"] = "hf";
  REQUIRE(fixture.Start(spec).ok());
  REQUIRE(WaitFor([&] { return fixture.Log("engine-n1").find("POOLMARK_RUN=") != std::string::npos; }));
  CHECK(fixture.Log("engine-n1").find("hf_CANARY") == std::string::npos);
  CHECK(fixture.Log("engine-n1").find("[redacted]\n") == 0);
  auto state = ListTree(fixture.dir / "state");
  REQUIRE(state.ok());
  for (const std::string& file : *state) {
    INFO(file);
    auto text = ReadFile(fixture.dir / ("state/" + file));
    if (text.ok()) CHECK(text->find("hf_CANARY") == std::string::npos);
  }
  (*spec.mutable_secrets())["HF_TOKEN"] = "../allow.yaml";
  spec.set_id("engine-n2");
  CHECK_FALSE(fixture.Start(spec).ok());
}

TEST_CASE("a secret that allow.yaml does not give to a program is refused by name, until it is given",
          "[C12][I12][live]") {
  AgentFixture fixture;
  fixture.Allow("version: 1\nexecutables: {sh: /bin/sh, cat: /bin/cat}\nsecrets: {hf: [cat]}\n");
  fixture.StartAgent();
  REQUIRE(MakeDirs(fixture.dir / "secrets", 0700).ok());
  for (const char* name : {"hf", "bmc"})
    REQUIRE(AtomicWriteFile(fixture.dir / (std::string("secrets/") + name), "CANARY_7_of_this\n", 0600).ok());
  REQUIRE(fixture.Acquire().ok());
  auto start = [&](const std::string& id, const std::string& secret) {
    v1::ProcessSpec spec = fixture.Shell(id, "echo \"got ${#TOKEN}\"; exec sleep 1000");
    (*spec.mutable_secrets())["TOKEN"] = secret;
    return fixture.Start(spec);
  };
  auto check = [&] {
    v1::RunChecksRequest request;
    *request.mutable_lease() = fixture.Lease();
    v1::SecretUse* use = request.mutable_plan()->add_secrets();
    use->set_secret("hf");
    use->add_programs("sh");
    request.add_only("secrets");
    v1::CheckResult result;
    REQUIRE(rpc::ReadStream<v1::RunChecksResponse>(
                [&](grpc::ClientContext* context) { return fixture.stub->RunChecks(context, request); }, 60s,
                {},
                [&](v1::RunChecksResponse& message) {
                  if (message.has_result()) result = message.result();
                  return true;
                })
                .ok());
    return result;
  };
  const std::string line = "add below 'secrets:' the line \"  bmc: [sh]\"";
  const Error refused = ErrorOf(start("engine-n1", "bmc").status());
  CHECK(refused.code == "not_allowed");
  CHECK(refused.message == "secret 'bmc' is not given to 'sh' on this machine");
  CHECK(refused.hint == line);
  CHECK(ErrorOf(start("engine-n1", "hf").status()).hint ==
        "write below 'secrets:' the line \"  hf: [cat, sh]\"");
  v1::CheckResult result = check();
  CHECK(result.outcome() == v1::OUTCOME_FAIL);
  CHECK(result.hint().find("hf: [cat, sh]") != std::string::npos);
  auto facts = rpc::Call(*fixture.stub, &v1::AgentService::Stub::GetFacts, v1::GetFactsRequest(), 30s);
  REQUIRE(facts.ok());
  REQUIRE(facts->facts().secrets_size() == 1);
  CHECK(facts->facts().secrets(0).ShortDebugString() ==
        "secret: \"hf\" programs: \"cat\" programs: \"/bin/cat\"");
  // An edit counts at once, for the facts too.
  fixture.Allow("version: 1\nexecutables: {sh: /bin/sh, cat: /bin/cat}\nsecrets: {hf: [cat, sh]}\n");
  facts = rpc::Call(*fixture.stub, &v1::AgentService::Stub::GetFacts, v1::GetFactsRequest(), 30s);
  REQUIRE(facts.ok());
  CHECK(facts->facts().secrets(0).programs_size() == 4);
  CHECK(check().outcome() == v1::OUTCOME_PASS);
  const auto started = start("engine-n1", "hf");
  INFO(started.status());
  REQUIRE(started.ok());
  CHECK(WaitFor([&] { return fixture.Log("engine-n1").find("got 16\n") != std::string::npos; }));
}

TEST_CASE("a BMC's login goes to the address and in the way that allow.yaml gives it for, and nowhere else",
          "[C12][F12][live]") {
  AgentFixture fixture;
  // ipmitool, as far as the agent sees it: what it was called with goes into a file.
  const std::string told = fixture.dir / "told";
  REQUIRE(MakeDirs(fixture.dir / "bin").ok());
  REQUIRE(AtomicWriteFile(fixture.dir / "bin/ipmitool",
                          "#!/bin/sh\n[ \"$1\" = -V ] && { echo 'ipmitool version 1.8.19'; exit; }\n"
                          "echo \"$* password=$IPMI_PASSWORD\" >> " +
                              told +
                              "\ncat <<END\n    Instantaneous power reading:                   412 Watts\n"
                              "    Minimum during sampling period:                 96 Watts\n"
                              "    Maximum during sampling period:                640 Watts\n"
                              "    Average power reading over sample period:      388 Watts\n"
                              "    Power reading state is:                   activated\nEND\n",
                          0755)
              .ok());
  const std::string path = std::getenv("PATH");
  REQUIRE(setenv("PATH", (fixture.dir / "bin:" + path).c_str(), 1) == 0);
  struct Restore {
    std::string path;
    ~Restore() { setenv("PATH", path.c_str(), 1); }
  } restore{path};
  fixture.Allow(
      "version: 1\nexecutables: {sh: /bin/sh}\nsecrets: {hf: [sh]}\nbmc:\n"
      "  - {address: 10.9.0.1, kind: ipmitool, login: bmc}\n"
      "  - {address: 10.9.0.2, kind: ipmitool, login: bare}\n"
      "  - {address: 10.9.0.3, kind: redfish, login: bmc}\n");
  fixture.StartAgent([](agent::AgentConfig* config) { config->catalogue_dir = Source("deploy/catalogue"); });
  REQUIRE(MakeDirs(fixture.dir / "secrets", 0700).ok());
  for (const auto& [name, value] :
       {std::pair("bmc", "reader:CANARY_7"), {"bare", "CANARY_8_without"}, {"hf", "hf:CANARY_9"}})
    REQUIRE(AtomicWriteFile(fixture.dir / (std::string("secrets/") + name), value, 0600).ok());
  REQUIRE(fixture.Acquire().ok());
  auto sample = [&](const std::string& dialect, const std::string& url) {
    v1::StartSamplingRequest start;
    *start.mutable_lease() = fixture.Lease();
    v1::ScrapeTarget* target = start.add_targets();
    target->set_source("bmc");
    target->set_dialect(dialect);
    target->set_url(url);
    target->set_interval_ns(200'000'000);
    return rpc::Call(*fixture.stub, &v1::AgentService::Stub::StartSampling, start, 30s).status();
  };
  for (const auto& [dialect, url] :
       {std::pair("ipmi-dcmi", "ipmi://hf@10.9.0.1"),  // another secret to the BMC
        {"ipmi-dcmi", "ipmi://bmc@10.9.0.9"},          // the login to another address
        {"ipmi-dcmi", "ipmi://bmc@10.9.0.3"},          // in another way
        {"redfish", "https://bmc@10.9.0.1"},           // likewise
        {"redfish", "https://bmc@10.9.0.3:8443"},      // another port
        {"redfish", "https://hf@10.9.0.3"}}) {
    CAPTURE(url);
    const Error refused = ErrorOf(sample(dialect, url));
    CHECK(refused.code == "not_allowed");
    CHECK(refused.hint.find("add below 'bmc:' the line \"  - {address: ") == 0);
  }
  for (const char* url : {"http://bmc@10.9.0.3", "https://10.9.0.3", "https://bmc@10.9.0.3@127.0.0.1",
                          "https://bmc@10.9.0.3?verify=no", "https://127.0.0.1/bmc@10.9.0.3",
                          "https://bmc@10.9.0.3\\@127.0.0.1", ""}) {
    CAPTURE(url);
    CHECK(absl::IsInvalidArgument(sample("redfish", url)));
  }
  // Without a ':' the whole of it would stand on ipmitool's command line.
  CHECK(ErrorOf(sample("ipmi-dcmi", "ipmi://bare@10.9.0.2")).message.find("it has no ':'") !=
        std::string::npos);
  CHECK_FALSE(FileExists(told));
  REQUIRE(sample("ipmi-dcmi", "ipmi://bmc@10.9.0.1").ok());
  REQUIRE(WaitFor([&] { return FileExists(told) && ReadFile(told)->find('\n') != std::string::npos; }));
  CHECK(ReadFile(told)->find("-I lanplus -H 10.9.0.1 -U reader -E -N 1 -R 1 dcmi power reading "
                             "password=CANARY_7\n") == 0);
  v1::StopSamplingRequest stop;
  *stop.mutable_lease() = fixture.Lease();
  CHECK(rpc::Call(*fixture.stub, &v1::AgentService::Stub::StopSampling, stop, 30s).ok());
}
