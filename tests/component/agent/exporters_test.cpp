// Exporters live for the pool only: whatever ends it, and whatever becomes of the agent that started them.
#include <signal.h>
#include <sys/stat.h>

#include <atomic>
#include <future>

#include "agent/guard/items.h"
#include "agent/guard/ledger.h"
#include "common/base/digest.h"
#include "common/base/files.h"
#include "tests/component/agent/agent_fixture.h"
#include "tests/support/shared_data.h"

using namespace poolmark;
using namespace poolmark::test;
using namespace std::chrono_literals;

namespace {

struct Samples {
  std::atomic<bool> seen{false};
  std::atomic<bool> ended{false};  // with its last batch
};

// An agent whose machine has one exporter pinned: a small program that serves a page on a Unix socket.
struct ExporterFixture : AgentFixture {
  ExporterFixture() {
    const std::string path = dir / "fake_exporter";
    REQUIRE(AtomicWriteFile(path,
                            "#!/usr/bin/env python3\n"
                            "import sys, socketserver, http.server\n"
                            "if '--version' in sys.argv:\n"
                            "  print('fake_exporter, version 1.2.3'); sys.exit(0)\n"
                            "class H(http.server.BaseHTTPRequestHandler):\n"
                            "  def do_GET(s):\n"
                            "    b = b'node_memory_MemTotal_bytes 5\\n'\n"
                            "    s.send_response(200); s.send_header('Content-Length', str(len(b)))\n"
                            "    s.end_headers(); s.wfile.write(b)\n"
                            "  def log_message(s, *a): pass\n"
                            "socketserver.UnixStreamServer(sys.argv[1], H).serve_forever()\n",
                            0755)
                .ok());
    exporters_file = dir / "exporters.yaml";
    REQUIRE(
        AtomicWriteFile(exporters_file,
                        "version: 1\nexporters:\n  - name: " + path + "\n    version: 1.2.3\n    sha256: [" +
                            *Sha256OfFile(path) +
                            "]\n    dialect: node_exporter\n    url: unix:${dir}/x.sock:/metrics\n"
                            "    argv: [\"${dir}/x.sock\"]\n    measures: memory\n    instead: our reader\n")
            .ok());
  }

  // Starts the sampling and its first exporter.
  int FirstExporter() {
    StartSampling();
    REQUIRE(Exporters().size() == 1);
    return Exporters()[0];
  }
  void StartSampling() {
    v1::StartSamplingRequest start;
    *start.mutable_lease() = Lease();
    start.set_request_id("s" + std::to_string(++request_number));
    start.set_host(true);
    auto started = rpc::Call(*stub, &v1::AgentService::Stub::StartSampling, start, 60s);
    INFO(started.status());
    REQUIRE(started.ok());
    bool used = false;
    for (const v1::Tool& tool : started->tools()) {
      UNSCOPED_INFO(tool.ShortDebugString());
      used |= tool.name() == dir / "fake_exporter" && tool.version() == "1.2.3";
    }
    REQUIRE(used);
  }

  // The pids of exporters in the newest run's ledger.
  std::vector<int> Exporters() {
    std::vector<int> pids;
    for (const auto& [number, item] :
         guard::Fold(guard::ReadLedger(RunDirectory() + "/ledger").records).items) {
      if (item.kind == "process" && item.name.find("poolmark-tool.fake_exporter") == 0)
        pids.push_back(static_cast<int>(item.made.Signed("pid").value_or(0)));
    }
    return pids;
  }

  // Reads samples until the stream ends.
  std::future<Status> Follow(Samples* samples) {
    return std::async(std::launch::async, [this, samples] {
      v1::StreamSamplesRequest request;
      *request.mutable_lease() = Lease();
      return rpc::ReadStream<v1::StreamSamplesResponse>(
          [&](grpc::ClientContext* context) { return stub->StreamSamples(context, request); }, 90s, {},
          [&](v1::StreamSamplesResponse& batch) {
            samples->seen = true;
            samples->ended = samples->ended || batch.end();
            return true;
          });
    });
  }

  // Directories of exporters' sockets that are there.
  size_t Sockets() {
    size_t count = 0;
    auto names = ListDir(Config().work_dir + "/" + Lease().job_id());
    for (const std::string& name : names.ok() ? *names : std::vector<std::string>())
      count += name.find("exporter-") == 0;
    return count;
  }
};

}  // namespace

TEST_CASE("an exporter stands in the run's ledger and ends with its tear-down, with proof",
          "[F16][C25][live]") {
  ExporterFixture fixture;
  fixture.StartAgent();
  REQUIRE(fixture.Acquire().ok());
  REQUIRE(fixture.Start(fixture.Shell("engine-n1", "exec sleep 1000")).ok());
  const int pid = fixture.FirstExporter();
  CHECK(ProcessExists(pid));
  CHECK(fixture.Sockets() == 1);
  // It is no process of the job.
  fixture.Watch([&](const v1::WatchProcessesResponse& message) {
    CHECK(message.status().id() == "engine-n1");
    return message.status().id() == "engine-n1";
  });
  auto proof = fixture.TearDown();
  CHECK(AgentFixture::Clean(proof));
  size_t listed = 0;
  for (const auto& message : proof)
    listed +=
        message.item().kind() == "process" && message.item().name().find("poolmark-tool.fake_exporter") == 0;
  CHECK(listed == 1);
  CHECK_FALSE(ProcessExists(pid));
  CHECK(fixture.Sockets() == 0);
}

TEST_CASE("an exporters file that others can write starts nothing, and the manifest says so", "[F15][live]") {
  ExporterFixture fixture;
  REQUIRE(chmod(fixture.exporters_file.c_str(), 0666) == 0);
  fixture.StartAgent();
  REQUIRE(fixture.Acquire().ok());
  v1::StartSamplingRequest start;
  *start.mutable_lease() = fixture.Lease();
  start.set_host(true);
  auto started = rpc::Call(*fixture.stub, &v1::AgentService::Stub::StartSampling, start, 60s);
  INFO(started.status());
  REQUIRE(started.ok());
  std::string notes;
  for (const v1::Tool& tool : started->tools()) notes += tool.name() + ": " + tool.note() + "\n";
  INFO(notes);
  CHECK(notes.find("public exporters: none is used, ") != std::string::npos);
  CHECK(fixture.Exporters().empty());
  CHECK(AgentFixture::Clean(fixture.TearDown()));
}

TEST_CASE("kill -9 of the agent: the next one ends its exporters, and starts its own where asked",
          "[F16][C25][live]") {
  ExporterFixture fixture;
  fixture.StartProgram();
  REQUIRE(fixture.Acquire().ok());
  auto engine = fixture.Start(fixture.Shell("engine-n1", "exec sleep 1000"));
  REQUIRE(engine.ok());
  const int first = fixture.FirstExporter();
  fixture.KillProgram(SIGKILL);
  CHECK(ProcessExists(first));  // as the engine does: the guard has it
  fixture.StartAgent();
  CHECK(WaitFor([&] { return !ProcessExists(first); }));
  CHECK(ProcessExists(engine->status().pid()));
  fixture.StartSampling();
  REQUIRE(fixture.Exporters().size() == 2);
  const int second = fixture.Exporters()[1];
  CHECK(second != first);
  CHECK(ProcessExists(second));
  CHECK(AgentFixture::Clean(fixture.TearDown()));
  CHECK_FALSE(ProcessExists(second));
  CHECK(fixture.Sockets() == 0);
}

TEST_CASE("a lease that runs out, or a guard that dies, ends exporters and the sampling",
          "[F16][C25][live]") {
  const bool guard_dies = GENERATE(false, true);
  CAPTURE(guard_dies);
  ExporterFixture fixture;
  fixture.StartAgent([](agent::AgentConfig* config) { config->grace = 300ms; });
  const std::chrono::nanoseconds lease = guard_dies ? 60s : 5s;
  fixture.registry.lease_ttl_ns = lease.count();
  REQUIRE(fixture.Acquire(1, "job-1", lease).ok());
  REQUIRE(fixture.Start(fixture.Shell("engine-n1", "exec sleep 1000")).ok());
  const int pid = fixture.FirstExporter();
  // The stream of samples ends by itself when the sampling does.
  Samples samples;
  auto reader = fixture.Follow(&samples);
  REQUIRE(WaitFor([&] { return samples.seen.load(); }));
  if (guard_dies) {
    int guard = 0;
    for (const guard::Record& record : guard::ReadLedger(fixture.RunDirectory() + "/ledger").records) {
      if (record.name == "run") guard = static_cast<int>(record.Signed("guard_pid").value_or(0));
    }
    REQUIRE(guard > 0);
    REQUIRE(kill(guard, SIGKILL) == 0);
  } else {
    fixture.registry.lease_ttl_ns = 0;  // renewed no more
  }
  CHECK(WaitFor([&] { return !ProcessExists(pid); }, 90s));
  const Status status = reader.get();
  INFO(status);
  CHECK(status.ok());
  CHECK(samples.ended);
  auto proof = fixture.TearDown();
  CHECK(AgentFixture::Clean(proof));
  CHECK(fixture.Sockets() == 0);
}

TEST_CASE("an agent that ends while its samples are read ends the sampling first, and its exporters",
          "[F16][C25][live]") {
  ExporterFixture fixture;
  fixture.StartAgent();
  REQUIRE(fixture.Acquire().ok());
  auto engine = fixture.Start(fixture.Shell("engine-n1", "exec sleep 1000"));
  REQUIRE(engine.ok());
  const int pid = fixture.FirstExporter();
  Samples samples;
  auto reader = fixture.Follow(&samples);
  REQUIRE(WaitFor([&] { return samples.seen.load(); }));
  fixture.StopAgent();
  CHECK_FALSE(ProcessExists(pid));
  CHECK(ProcessExists(engine->status().pid()));
  (void)reader.get();  // broken off or ended: either is right
  fixture.StartAgent();
  CHECK(AgentFixture::Clean(fixture.TearDown()));
}
