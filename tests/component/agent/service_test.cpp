// The agent's API over TLS and gRPC, on real processes under a real guard.
#include <cstdlib>

#include "common/base/digest.h"
#include "common/base/files.h"
#include "tests/component/agent/agent_fixture.h"

using namespace poolmark;
using namespace poolmark::test;
using namespace std::chrono_literals;

namespace {

// A small HTTP server in Python on the port of the environment, for readiness and probes.
constexpr char kHttpServer[] =
    "import http.server, os\n"
    "class H(http.server.BaseHTTPRequestHandler):\n"
    "  def do_GET(self):\n"
    "    body = b'kv_used_tokens{engine=\"0\"} 0\\n' if self.path == '/metrics' else b'fine'\n"
    "    self.send_response(404 if self.path == '/none' else 200)\n"
    "    self.send_header('Content-Length', str(len(body)))\n"
    "    self.end_headers()\n"
    "    self.wfile.write(body)\n"
    "  do_POST = do_GET\n"
    "  def log_message(self, *a): pass\n"
    "http.server.HTTPServer(('127.0.0.1', int(os.environ['PORT'])), H).serve_forever()\n";

v1::ProcessSpec HttpEngine(AgentFixture& fixture, int port) {
  fixture.Allow("version: 1\nexecutables:\n  sh: /bin/sh\n  python3: /usr/bin/python3\n");
  v1::ProcessSpec spec;
  spec.set_id("engine-n1");
  spec.set_role("engine");
  spec.set_executable("python3");
  spec.add_argv("etc/server.py");
  auto* file = spec.add_files();
  file->set_path("etc/server.py");
  file->set_content(kHttpServer);
  file->set_sha256(Sha256Hex(kHttpServer));
  (*spec.mutable_env())["PORT"] = std::to_string(port);
  spec.add_ports(static_cast<uint32_t>(port));
  spec.mutable_ready()->set_http_url("http://127.0.0.1:" + std::to_string(port) + "/health");
  spec.mutable_ready()->set_within_ns(std::chrono::nanoseconds(20s).count());
  return spec;
}

std::string CodeOf(const Status& status) {
  Errors errors = rpc::ErrorsOf(status);
  return errors.empty() ? "" : errors[0].code;
}

}  // namespace

TEST_CASE("a process is started, gets ready, answers probes and is torn down with proof",
          "[C25][C26][L1][live]") {
  AgentFixture fixture;
  fixture.StartAgent();
  REQUIRE(fixture.Acquire().ok());
  int port = FreePort();
  v1::ProcessSpec spec = HttpEngine(fixture, port);
  spec.add_directories()->set_path("tier");
  auto started = fixture.Start(spec);
  INFO(started.status());
  REQUIRE(started.ok());
  CHECK(started->tool().sha256().size() == 64);
  v1::ProcessStatus ready = fixture.WaitState("engine-n1", v1::PROCESS_STATE_READY);
  CHECK(ready.ready_after_ns() > 0);

  std::string base = "http://127.0.0.1:" + std::to_string(port);
  CHECK(fixture.Probe("GET", base + "/x").body() == "fine");
  CHECK(fixture.Probe("GET", base + "/none").status() == 404);
  // Other ports and other machines are none of the job's business.
  CHECK(fixture.Probe("GET", "http://127.0.0.1:" + std::to_string(fixture.controller->port()) + "/")
            .failure()
            .find("is no port of job") != std::string::npos);
  // A name that only begins like a loopback address is looked up nowhere.
  CHECK(fixture.Probe("GET", "http://127.evil.example:" + std::to_string(port) + "/")
            .failure()
            .find("no address of this machine") != std::string::npos);
  CHECK(fixture.Probe("GET", "http://192.0.2.1:" + std::to_string(port) + "/")
            .failure()
            .find("no address of this machine") != std::string::npos);

  v1::ResetCachesRequest reset;
  *reset.mutable_lease() = fixture.Lease();
  auto* step = reset.add_resets();
  step->set_process("engine-n1");
  step->set_method("POST");
  step->set_url(base + "/reset");
  auto* empty = reset.add_empties();
  empty->set_process("engine-n1");
  empty->set_method("SERIES");
  empty->set_url(base + "/metrics");
  empty->set_body("kv_used_tokens");
  empty->set_expect("0");
  auto results = rpc::Call(*fixture.stub, &v1::AgentService::Stub::ResetCaches, reset, 30s);
  REQUIRE(results.ok());
  REQUIRE(results->results_size() == 2);
  for (const v1::CheckResult& result : results->results()) {
    INFO(result.ShortDebugString());
    CHECK(result.outcome() == v1::OUTCOME_PASS);
  }
  REQUIRE(AtomicWriteFile(fixture.dir / "work/job-1/tier/block", "x").ok());

  auto proof = fixture.TearDown();
  CHECK(AgentFixture::Clean(proof));
  std::set<std::string> kinds;
  for (const auto& message : proof) kinds.insert(message.item().kind());
  for (const char* kind : {"process", "port", "directory", "file", "shared_memory"})
    CHECK(kinds.count(kind) == 1);
  CHECK_FALSE(FileExists(fixture.dir / "work/job-1"));
  // Asked again, it gives the same verdict from the ledger.
  CHECK(AgentFixture::Clean(fixture.TearDown()));
}

TEST_CASE("what the allow-list does not name is refused with the line to add", "[live]") {
  AgentFixture fixture;
  fixture.StartAgent();
  REQUIRE(fixture.Acquire().ok());
  v1::ProcessSpec spec = fixture.Shell("engine-n1", "true");
  spec.set_executable("env");
  auto refused = fixture.Start(spec);
  REQUIRE_FALSE(refused.ok());
  CHECK(CodeOf(refused.status()) == "not_allowed");
  CHECK(std::string(refused.status().message()).find("\"  env: /usr/bin/env\"") != std::string::npos);
  // With these, and files that a job may bring, an allowed program would run what the job likes.
  for (const char* name :
       {"LD_PRELOAD", "LD_LIBRARY_PATH", "PYTHONPATH", "PYTHONSTARTUP", "PYTHONHOME", "PATH", "HOME",
        "BASH_ENV", "ENV", "GCONV_PATH", "NODE_OPTIONS", "PERL5LIB", "POOLMARK_RUN"}) {
    CAPTURE(name);
    spec = fixture.Shell("engine-n1", "true");
    (*spec.mutable_env())[name] = "/tmp/x";
    CHECK(CodeOf(fixture.Start(spec).status()) == "not_allowed");
  }
  spec = fixture.Shell("engine-n1", "true");
  spec.add_directories()->set_path("/somewhere/else");
  CHECK(CodeOf(fixture.Start(spec).status()) == "not_allowed");
  spec = fixture.Shell("engine-n1", "true");
  spec.add_files()->set_path("../../escape");
  CHECK_FALSE(fixture.Start(spec).ok());
  spec = fixture.Shell("../x", "true");
  CHECK_FALSE(fixture.Start(spec).ok());
}

TEST_CASE("late, repeated and foreign calls change nothing", "[live]") {
  AgentFixture fixture;
  fixture.StartAgent();
  REQUIRE(fixture.Acquire(5).ok());
  REQUIRE(fixture.Acquire(5).ok());
  CHECK(CodeOf(fixture.Acquire(4)) == "stale_epoch");
  CHECK(CodeOf(fixture.Acquire(5, "job-2")) == "stale_epoch");
  CHECK(CodeOf(fixture.Acquire(6, "job-2")) == "leased");
  auto first = fixture.Start(fixture.Shell("engine-n1", "exec sleep 1000"), 5, "start-1");
  REQUIRE(first.ok());
  CHECK(fixture.Start(fixture.Shell("engine-n1", "exec sleep 1000"), 5, "start-1")->status().pid() ==
        first->status().pid());
  CHECK(CodeOf(fixture.Start(fixture.Shell("engine-n2", "exec sleep 1000"), 4).status()) == "stale_epoch");
  CHECK(CodeOf(fixture.Start(fixture.Shell("engine-n2", "exec sleep 1000"), 7).status()) == "no_lease");
  // The same job with a higher epoch: a controller that came back. The old one is fenced off.
  REQUIRE(fixture.Acquire(6).ok());
  CHECK(CodeOf(fixture.Start(fixture.Shell("engine-n2", "exec sleep 1000"), 5).status()) == "stale_epoch");
  CHECK(ProcessExists(first->status().pid()));
  CHECK(AgentFixture::Clean(fixture.TearDown(false, 6)));
  CHECK(CodeOf(fixture.Acquire(6)) == "lease_ended");
  CHECK(CodeOf(fixture.Start(fixture.Shell("engine-n1", "exec sleep 1000"), 6, "start-1").status()) ==
        "no_lease");
  // The epoch outlives the agent.
  fixture.StopAgent();
  fixture.StartAgent();
  CHECK(CodeOf(fixture.Acquire(5, "job-3")) == "stale_epoch");
  CHECK(fixture.Acquire(8, "job-3").ok());
}

// What a tear-down with this epoch is refused with; "" when it is not.
std::string TearDownCode(const AgentFixture& fixture, uint64_t epoch, const std::string& job = "job-1") {
  v1::TeardownRequest request;
  *request.mutable_lease() = fixture.Lease(epoch, job);
  return CodeOf(rpc::ReadStream<v1::TeardownResponse>(
      [&](grpc::ClientContext* context) { return fixture.stub->Teardown(context, request); }, 60s, {},
      [](v1::TeardownResponse&) { return false; }));
}

TEST_CASE("a tear-down of a lease that was never taken is clean, and the lease stays refused", "[live]") {
  AgentFixture fixture;
  fixture.StartAgent();
  // The agent was away when it was to be leased, and the call for it comes late.
  auto nothing = fixture.TearDown(false, 5);
  CHECK(AgentFixture::Clean(nothing));
  CHECK(CodeOf(fixture.Acquire(5)) == "lease_ended");
  REQUIRE(fixture.Acquire(6).ok());
  auto engine = fixture.Start(fixture.Shell("engine-n1", "exec sleep 1000"), 6);
  REQUIRE(engine.ok());
  // What is held is not ended by a lower epoch of the same job.
  CHECK(TearDownCode(fixture, 5) == "stale_epoch");
  CHECK(ProcessExists(engine->status().pid()));
  CHECK(AgentFixture::Clean(fixture.TearDown(false, 6)));
  CHECK_FALSE(ProcessExists(engine->status().pid()));
  // A later job's epoch fences the first one off, whatever it asks.
  REQUIRE(fixture.Acquire(9, "job-2").ok());
  CHECK(TearDownCode(fixture, 7, "job-3") == "stale_epoch");
}

TEST_CASE("a controller that started again ends its job with a higher epoch; the paused one is refused",
          "[live]") {
  AgentFixture fixture;
  fixture.StartAgent();
  REQUIRE(fixture.Acquire(5).ok());
  auto first = fixture.Start(fixture.Shell("engine-n1", "exec sleep 1000"), 5);
  REQUIRE(first.ok());
  // A cycle is torn down with the new epoch, without a lease taken for it first.
  CHECK(AgentFixture::Clean(fixture.TearDown(true, 9)));
  CHECK_FALSE(ProcessExists(first->status().pid()));
  CHECK(CodeOf(fixture.Start(fixture.Shell("engine-n1", "exec sleep 1000"), 5, "again").status()) ==
        "stale_epoch");
  CHECK(CodeOf(fixture.Acquire(5)) == "stale_epoch");
  auto second = fixture.Start(fixture.Shell("engine-n1", "exec sleep 1000"), 9);
  REQUIRE(second.ok());
  // The tear-down of the old one neither ends nor tells anything; also not after the agent started again.
  CHECK(TearDownCode(fixture, 5) == "stale_epoch");
  fixture.StopAgent();
  fixture.StartAgent();
  CHECK(TearDownCode(fixture, 5) == "stale_epoch");
  CHECK(CodeOf(fixture.Start(fixture.Shell("engine-n2", "exec sleep 1000"), 5).status()) == "stale_epoch");
  CHECK(ProcessExists(second->status().pid()));
  CHECK(AgentFixture::Clean(fixture.TearDown(false, 9)));
  // Over: the proof is told to a later grant of the job too, and fences the earlier ones.
  CHECK(AgentFixture::Clean(fixture.TearDown(false, 20)));
  CHECK(CodeOf(fixture.Acquire(19)) == "stale_epoch");
  CHECK(WaitFor([&] { return fixture.registry.last_beat().highest_epoch() == 20; }));
  CHECK(fixture.Acquire(21).ok());
}

TEST_CASE("the log of a process in one cycle holds nothing of the cycle before", "[live]") {
  AgentFixture fixture;
  fixture.StartAgent();
  REQUIRE(fixture.Acquire().ok());
  auto log_of = [&](bool since_start, uint64_t tail_bytes) {
    v1::StreamLogsRequest request;
    *request.mutable_lease() = fixture.Lease();
    request.set_id("engine-n1");
    request.set_since_start(since_start);
    request.set_tail_bytes(tail_bytes);
    std::string text;
    (void)rpc::ReadStream<v1::StreamLogsResponse>(
        [&](grpc::ClientContext* context) { return fixture.stub->StreamLogs(context, request); }, 20s, {},
        [&](v1::StreamLogsResponse& piece) {
          text += piece.data();
          return true;
        });
    return text;
  };
  const std::string script = "trap 'echo bye of @; exit' TERM; echo hello of @; while :; do sleep 0.05; done";
  for (const char* cycle : {"one", "two"}) {
    std::string words = script;
    for (size_t at; (at = words.find('@')) != std::string::npos;) words.replace(at, 1, cycle);
    REQUIRE(fixture.Start(fixture.Shell("engine-n1", words)).ok());
    REQUIRE(
        WaitFor([&] { return log_of(true, 0).find(std::string("hello of ") + cycle) != std::string::npos; }));
    CHECK(AgentFixture::Clean(fixture.TearDown(true)));
  }
  // Its last words too, after its tear-down.
  CHECK(log_of(true, 0) == "hello of two\nbye of two\n");
  CHECK(log_of(true, 7) == "of two\n");
  CHECK(log_of(false, 0) == "hello of one\nbye of one\nhello of two\nbye of two\n");
  CHECK(AgentFixture::Clean(fixture.TearDown()));
  CHECK(log_of(true, 0) == "hello of two\nbye of two\n");
}

TEST_CASE("an engine that dies early fails with its last words", "[live]") {
  AgentFixture fixture;
  fixture.StartAgent();
  REQUIRE(fixture.Acquire().ok());
  v1::ProcessSpec spec =
      fixture.Shell("engine-n1", "for i in 1 2 3; do echo line $i; done; echo out of memory >&2; exit 3");
  spec.mutable_ready()->set_tcp_address("127.0.0.1:" + std::to_string(FreePort()));
  REQUIRE(fixture.Start(spec).ok());
  v1::ProcessStatus end = fixture.WaitState("engine-n1", v1::PROCESS_STATE_EXITED);
  CHECK(end.exit_code() == 3);
  CHECK(end.message() == "line 1\nline 2\nline 3\nout of memory\n");
  CHECK(fixture.Log("engine-n1") == end.message());
}

TEST_CASE("readiness fails with the reason in time, but is patient while the log grows", "[live]") {
  AgentFixture fixture;
  fixture.StartAgent();
  REQUIRE(fixture.Acquire().ok());
  v1::ProcessSpec silent = fixture.Shell("silent", "echo loading; exec sleep 1000");
  silent.mutable_ready()->set_tcp_address("127.0.0.1:" + std::to_string(FreePort()));
  silent.mutable_ready()->set_within_ns(std::chrono::nanoseconds(500ms).count());
  REQUIRE(fixture.Start(silent).ok());
  v1::ProcessStatus failed = fixture.WaitState("silent", v1::PROCESS_STATE_FAILED);
  CHECK(failed.message().find("not ready after") == 0);
  CHECK(failed.message().find("loading") != std::string::npos);
}

TEST_CASE("a stranger on an engine's port is not taken for the engine", "[C11][live]") {
  AgentFixture fixture;
  fixture.StartAgent();
  REQUIRE(fixture.Acquire().ok());
  int port = FreePort();
  v1::ProcessSpec first = HttpEngine(fixture, port);
  REQUIRE(fixture.Start(first).ok());
  fixture.WaitState("engine-n1", v1::PROCESS_STATE_READY);
  // Another process of the job claims to be ready on the first one's port.
  v1::ProcessSpec second = fixture.Shell("engine-n2", "exec sleep 1000");
  second.mutable_ready()->set_tcp_address("127.0.0.1:" + std::to_string(port));
  second.add_ports(static_cast<uint32_t>(port));
  auto refused = fixture.Start(second);
  REQUIRE_FALSE(refused.ok());
  CHECK(CodeOf(refused.status()) == "port_busy");
}

TEST_CASE("the load's progress lines come with the events", "[L3][live]") {
  AgentFixture fixture;
  fixture.StartAgent();
  REQUIRE(fixture.Acquire().ok());
  v1::ProcessSpec spec =
      fixture.Shell("load", "echo '{\"sent\":1}'; echo noise >&2; sleep 0.3; echo '{\"sent\":2}'");
  spec.set_role("load");
  REQUIRE(fixture.Start(spec).ok());
  std::vector<std::string> progress;
  fixture.Watch([&](const v1::WatchProcessesResponse& message) {
    if (!message.progress_json().empty()) progress.push_back(message.progress_json());
    return message.status().state() == v1::PROCESS_STATE_EXITED;
  });
  CHECK(progress == std::vector<std::string>{"{\"sent\":1}", "{\"sent\":2}"});
  CHECK(fixture.Log("load") == "noise\n");
}

TEST_CASE("files of a job are listed and fetched, and nothing else is", "[L3][live]") {
  AgentFixture fixture;
  fixture.StartAgent();
  REQUIRE(fixture.Acquire().ok());
  REQUIRE(
      fixture
          .Start(fixture.Shell(
              "load",
              "mkdir out; head -c 700000 /dev/zero > out/records; ln -s /etc/passwd out/link; "
              "ln -s /etc out/etc; mkfifo out/fifo; ln /etc/hostname out/hard 2>/dev/null; exec sleep 1000"))
          .ok());
  REQUIRE(WaitFor([&] { return FileExists(fixture.dir / "work/job-1/out/fifo"); }));
  v1::ListFilesRequest list;
  *list.mutable_lease() = fixture.Lease();
  list.set_directory("out");
  auto files = rpc::Call(*fixture.stub, &v1::AgentService::Stub::ListFiles, list, 10s);
  REQUIRE(files.ok());
  std::set<std::string> names;
  for (const auto& file : files->files()) names.insert(file.path());
  CHECK(names.count("out/records") == 1);
  CHECK(names.count("out/link") + names.count("out/fifo") + names.count("out/etc/passwd") == 0);

  auto fetch = [&](const std::string& path, uint64_t offset, std::string* data, std::string* digest) {
    v1::FetchFileRequest request;
    *request.mutable_lease() = fixture.Lease();
    request.set_path(path);
    request.set_offset(offset);
    return rpc::ReadStream<v1::FetchFileResponse>(
        [&](grpc::ClientContext* context) { return fixture.stub->FetchFile(context, request); }, 10s, {},
        [&](v1::FetchFileResponse& message) {
          *data += message.data();
          if (message.last()) *digest = message.sha256();
          return true;
        });
  };
  std::string data;
  std::string digest;
  REQUIRE(fetch("out/records", 600000, &data, &digest).ok());
  CHECK(data.size() == 100000);
  CHECK(digest == Sha256Hex(std::string(700000, '\0')));
  for (const char* bad : {"out/link", "out/etc/passwd", "../../state/lease.json", "/etc/passwd", "out/fifo",
                          "out", "", "nothing"}) {
    INFO(bad);
    CHECK_FALSE(fetch(bad, 0, &data, &digest).ok());
  }
}

TEST_CASE("only a controller's certificate is served", "[live]") {
  AgentFixture fixture;
  fixture.StartAgent();
  for (rpc::Role role : {rpc::Role::kAdmin, rpc::Role::kOperator, rpc::Role::kAgent}) {
    auto channel = rpc::MakeChannel({fixture.agent->address(), rpc::ServerName(rpc::Role::kAgent, "n1"),
                                     fixture.cluster.Identity(role, "x")});
    REQUIRE(channel.ok());
    auto other = v1::AgentService::NewStub(*channel);
    v1::AcquireLeaseRequest request;
    *request.mutable_lease() = fixture.Lease();
    request.set_ttl_ns(60'000'000'000);
    auto refused = rpc::Call(*other, &v1::AgentService::Stub::AcquireLease, request, 10s);
    CHECK(absl::IsPermissionDenied(refused.status()));
  }
}
