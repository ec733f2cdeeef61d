// What the agent looks at for a job and measures on its machine, over its API: checks, samples, line rates.
#include <unistd.h>

#include <cstdlib>

#include "common/base/files.h"
#include "tests/component/agent/agent_fixture.h"
#include "tests/support/shared_data.h"

using namespace poolmark;
using namespace poolmark::test;
using namespace std::chrono_literals;

TEST_CASE("preflight checks of this machine come one by one, and leftovers of runs are named",
          "[C28][live]") {
  AgentFixture fixture;
  fixture.StartAgent();
  REQUIRE(fixture.Acquire().ok());
  v1::RunChecksRequest request;
  *request.mutable_lease() = fixture.Lease();
  request.mutable_plan()->add_executables("sh");
  request.mutable_plan()->add_executables("vllm");
  request.mutable_plan()->add_secrets()->set_secret("hf");
  request.mutable_plan()->set_loopback_only(true);
  for (const char* id : {"executables", "secrets", "leftovers", "ports_free"}) request.add_only(id);
  std::map<std::string, v1::CheckResult> results;
  bool last = false;
  Status status = rpc::ReadStream<v1::RunChecksResponse>(
      [&](grpc::ClientContext* context) { return fixture.stub->RunChecks(context, request); }, 60s, {},
      [&](v1::RunChecksResponse& message) {
        if (message.has_result()) results[message.result().id()] = message.result();
        last = message.last();
        return true;
      });
  INFO(status);
  REQUIRE(status.ok());
  CHECK(last);
  REQUIRE(results.size() == 4);
  CHECK(results["executables"].outcome() == v1::OUTCOME_FAIL);
  CHECK(results["executables"].ShortDebugString().find("vllm: ") != std::string::npos);
  CHECK(results["secrets"].outcome() == v1::OUTCOME_FAIL);
  CHECK(results["ports_free"].outcome() == v1::OUTCOME_SKIPPED);  // the plan names none
}

TEST_CASE("what containers need is looked at before anything is started", "[C25][recorded]") {
  AgentFixture fixture;
  // The client's side of an engine that has one image (words and exit codes of docker 28.2.2).
  const std::string client = fixture.dir / "docker";
  REQUIRE(AtomicWriteFile(
              client,
              "#!/bin/sh\n[ \"$1 $2\" = 'image inspect' ] || exit 64\n"
              "case \"$5\" in vllm@sha256:aa) echo sha256:bb;; *) echo \"Error response from daemon: No "
              "such image: $5\" >&2; exit 1;; esac\n",
              0755)
              .ok());
  REQUIRE(MakeDirs(fixture.dir / "models/llama").ok());
  REQUIRE(symlink("/", (fixture.dir / "models/x").c_str()) == 0);
  fixture.Allow("version: 1\nimages: [vllm@sha256:aa, vllm@sha256:cc]\ncontainers: {docker: " + client +
                "}\nmounts: [" + (fixture.dir / "models") + "]\ndevices: [/dev/kfd]\n");
  fixture.StartAgent();
  REQUIRE(fixture.Acquire().ok());
  const std::string work = fixture.Config().work_dir + "/" + fixture.Lease().job_id();
  auto check = [&](const std::string& wanted) {
    v1::RunChecksRequest request;
    *request.mutable_lease() = fixture.Lease();
    request.mutable_plan()->add_executables(wanted);
    request.add_only("executables");
    v1::CheckResult result;
    Status status = rpc::ReadStream<v1::RunChecksResponse>(
        [&](grpc::ClientContext* context) { return fixture.stub->RunChecks(context, request); }, 60s, {},
        [&](v1::RunChecksResponse& message) {
          if (message.has_result()) result = message.result();
          return true;
        });
    INFO(status);
    REQUIRE(status.ok());
    return result;
  };
  auto passes = [&](const std::string& wanted) {
    const v1::CheckResult result = check(wanted);
    UNSCOPED_INFO(result.ShortDebugString());
    return result.outcome() == v1::OUTCOME_PASS;
  };
  const std::string models = fixture.dir / "models";
  CHECK(passes("image docker vllm@sha256:aa"));
  CHECK(passes("mount " + models + "/llama:/models:ro"));
  CHECK(passes("mount " + work + ":/work"));
  CHECK(passes("device /dev/kfd"));
  CHECK_FALSE(passes("mount " + models + "/x:/host"));
  CHECK_FALSE(passes("mount " + work + "/x:/host"));
  CHECK_FALSE(passes("device /dev/sda"));
  CHECK_FALSE(passes("image podman vllm@sha256:aa"));
  CHECK_FALSE(passes("image docker vllm@sha256:dd"));
  // A tokenizer of the load.
  const std::string tokenizer = models + "/llama/tokenizer.json";
  CHECK(check("file " + tokenizer).evidence().find(tokenizer + ": there is no such file") !=
        std::string::npos);
  REQUIRE(AtomicWriteFile(tokenizer, "{}").ok());
  CHECK(passes("file " + tokenizer));
  REQUIRE(MakeDirs(models + "/directory.json").ok());
  CHECK_FALSE(passes("file " + models + "/directory.json"));
  CHECK_FALSE(passes("file /etc/passwd"));
  CHECK_FALSE(passes("file tokenizer.json"));
  const v1::CheckResult absent = check("image docker vllm@sha256:cc");
  CHECK(absent.outcome() == v1::OUTCOME_FAIL);
  CHECK(absent.hint().find("docker pull vllm@sha256:cc") != std::string::npos);
  CHECK(absent.evidence().find("No such image") != std::string::npos);
}

TEST_CASE("a machine is sampled while the load runs, and the stream ends with the sampling",
          "[C23][F19][live]") {
  AgentFixture fixture;
  fixture.StartAgent([](agent::AgentConfig* config) { config->catalogue_dir = Source("deploy/catalogue"); });
  REQUIRE(fixture.Acquire().ok());
  REQUIRE(fixture.Start(fixture.Shell("engine-n1", "while :; do :; done")).ok());
  v1::StartSamplingRequest start;
  *start.mutable_lease() = fixture.Lease();
  start.set_request_id("s1");
  start.set_host(true);
  auto started = rpc::Call(*fixture.stub, &v1::AgentService::Stub::StartSampling, start, 30s);
  INFO(started.status());
  REQUIRE(started.ok());
  CHECK(started->tools_size() > 0);
  v1::StreamSamplesRequest request;
  *request.mutable_lease() = fixture.Lease();
  int rounds = 0;
  std::set<std::string> names;
  bool stopped = false;
  Status status = rpc::ReadStream<v1::StreamSamplesResponse>(
      [&](grpc::ClientContext* context) { return fixture.stub->StreamSamples(context, request); }, 60s, {},
      [&](v1::StreamSamplesResponse& batch) {
        for (const auto& series : batch.series()) names.insert(series.name());
        rounds += batch.rounds_size();
        if (rounds >= 3 && !stopped) {
          stopped = true;
          v1::StopSamplingRequest stop;
          *stop.mutable_lease() = fixture.Lease();
          CHECK(rpc::Call(*fixture.stub, &v1::AgentService::Stub::StopSampling, stop, 30s).ok());
        }
        return true;
      });
  INFO(status);
  CHECK(status.ok());
  CHECK(stopped);
  CHECK(names.size() > 5);
  CHECK(AgentFixture::Clean(fixture.TearDown()));
}

TEST_CASE("line-rate tools run under the guard and leave nothing", "[C13][live]") {
  if (std::system("command -v iperf3 >/dev/null 2>&1") != 0) {
    WARN("skipped: no iperf3 here");
    return;
  }
  AgentFixture fixture;
  fixture.StartAgent();
  REQUIRE(fixture.Acquire().ok());
  v1::MeasureLineRequest request;
  *request.mutable_lease() = fixture.Lease();
  request.set_kind(v1::LINE_KIND_IPERF3);
  request.set_address("127.0.0.1");
  request.set_port(static_cast<uint32_t>(FreePort()));
  request.set_seconds(1);
  request.set_streams(1);
  request.set_server(true);
  auto server = rpc::Call(*fixture.stub, &v1::AgentService::Stub::MeasureLine, request, 30s);
  INFO(server.status());
  REQUIRE(server.ok());
  REQUIRE(server->failure() == "");
  request.set_server(false);
  auto client = rpc::Call(*fixture.stub, &v1::AgentService::Stub::MeasureLine, request, 30s);
  REQUIRE(client.ok());
  CHECK(client->failure() == "");
  CHECK(client->bits_per_second() > 1e6);
  // They are no processes of the job.
  REQUIRE(fixture.Start(fixture.Shell("engine-n1", "exec sleep 1000")).ok());
  fixture.Watch([&](const v1::WatchProcessesResponse& message) {
    CHECK(message.status().id() == "engine-n1");
    return message.status().id() == "engine-n1";
  });
  auto proof = fixture.TearDown();
  CHECK(AgentFixture::Clean(proof));
  int tools = 0;
  for (const auto& message : proof)
    tools += message.item().kind() == "process" && message.item().name().find("poolmark-tool.iperf3") == 0;
  CHECK(tools >= 2);  // both ends, and its version
}
