#include "tests/component/agent/agent_fixture.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/guard/proc.h"
#include "common/base/files.h"
#include "tests/support/shared_data.h"

extern char** environ;

namespace poolmark::test {

using namespace std::chrono_literals;

grpc::Status FakeRegistry::Register(grpc::ServerContext*, const v1::RegisterRequest* request,
                                    v1::RegisterResponse* response) {
  std::lock_guard lock(mutex);
  register_ = *request;
  response->set_cluster_id("lab");
  response->set_controller_epoch(1);
  response->set_heartbeat_interval_ns(100'000'000);
  if (!tear_down.empty()) response->add_tear_down(tear_down);
  register_again = false;
  ++registers;
  return grpc::Status::OK;
}

grpc::Status FakeRegistry::Heartbeat(grpc::ServerContext*, const v1::HeartbeatRequest* request,
                                     v1::HeartbeatResponse* response) {
  std::lock_guard lock(mutex);
  beat_ = *request;
  response->set_received_wall_ns(RealClock().Wall().count());
  response->set_replied_wall_ns(RealClock().Wall().count());
  response->set_heartbeat_interval_ns(100'000'000);
  response->set_register_again(register_again);
  if (request->has_lease()) response->set_lease_ttl_ns(lease_ttl_ns);
  ++beats;
  return grpc::Status::OK;
}

v1::RegisterRequest FakeRegistry::last_register() {
  std::lock_guard lock(mutex);
  return register_;
}

v1::HeartbeatRequest FakeRegistry::last_beat() {
  std::lock_guard lock(mutex);
  return beat_;
}

AgentFixture::AgentFixture() {
  rpc::ServerOptions options;
  options.address = "127.0.0.1:0";
  options.identity_dir = cluster.Controller();
  options.cluster = "lab";
  options.is_revoked = [this](const rpc::Identity& who) {
    return refuse_revoked && cluster.ca().IsRevoked(who.serial);
  };
  auto started = rpc::Server::Start(options, {&registry});
  INFO(started.status());
  REQUIRE(started.ok());
  controller = std::move(*started);
  Allow("version: 1\nexecutables:\n  sh: /bin/sh\n");
}

AgentFixture::~AgentFixture() {
  if (stub) {
    // Whatever a failed test left running ends here.
    v1::TeardownRequest request;
    auto held = registry.last_beat();
    if (held.has_lease()) *request.mutable_lease() = held.lease();
    request.set_cause("the test is over");
    if (held.has_lease()) {
      (void)rpc::ReadStream<v1::TeardownResponse>(
          [&](grpc::ClientContext* context) { return stub->Teardown(context, request); }, 20s, {},
          [](v1::TeardownResponse&) { return true; });
    }
  }
  if (program != 0) KillProgram(SIGTERM);
}

agent::AgentConfig AgentFixture::Config() {
  agent::AgentConfig config;
  config.machine = "n1";
  config.listen = "127.0.0.1:0";
  config.controller = controller->address();
  config.state_dir = dir / "state";
  config.work_dir = dir / "work";
  config.tls_dir = cluster.Identity(rpc::Role::kAgent, "n1");
  config.allow_file = dir / "allow.yaml";
  config.secrets_dir = dir / "secrets";
  config.guard = BuiltProgram("poolmark-guard");
  config.kill_wait = 10s;
  config.exporters_file = exporters_file;
  config.catalogue_dir = Source("deploy/catalogue");
  if (geteuid() == 0) config.run_as = "root";
  return config;
}

void AgentFixture::Allow(const std::string& yaml) {
  REQUIRE(AtomicWriteFile(dir / "allow.yaml", yaml, 0600).ok());
}

void AgentFixture::Dial(int port) {
  auto channel = rpc::MakeChannel(
      {"127.0.0.1:" + std::to_string(port), rpc::ServerName(rpc::Role::kAgent, "n1"), cluster.Controller()});
  INFO(channel.status());
  REQUIRE(channel.ok());
  stub = v1::AgentService::NewStub(*channel);
}

void AgentFixture::StartAgent(std::function<void(agent::AgentConfig*)> change) {
  agent::AgentConfig config = Config();
  if (change) change(&config);
  auto started = agent::Agent::Start(config);
  INFO(started.status());
  REQUIRE(started.ok());
  agent = std::move(*started);
  Dial(agent->port());
}

void AgentFixture::StartProgram() {
  agent::AgentConfig config = Config();
  std::string yaml = "machine: n1\nlisten: 127.0.0.1:0\ncontroller: " + config.controller +
                     "\nstate_dir: " + config.state_dir + "\nwork_dir: " + config.work_dir +
                     "\ntls_dir: " + config.tls_dir + "\nallow_file: " + config.allow_file + "\n";
  yaml += "catalogue_dir: " + config.catalogue_dir + "\n";
  if (!config.exporters_file.empty()) yaml += "exporters_file: " + config.exporters_file + "\n";
  if (!config.run_as.empty()) yaml += "run_as: " + config.run_as + "\n";
  REQUIRE(AtomicWriteFile(dir / "agent.yaml", yaml).ok());
  int out[2];
  REQUIRE(pipe2(out, O_CLOEXEC) == 0);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, out[1], 1);
  posix_spawn_file_actions_addopen(&actions, 2, (dir / "agent.log").c_str(), O_WRONLY | O_CREAT | O_APPEND,
                                   0600);
  std::string path = BuiltProgram("poolmark-agent");
  std::string file = dir / "agent.yaml";
  char* argv[] = {path.data(), const_cast<char*>("run"), const_cast<char*>("--config"), file.data(), nullptr};
  REQUIRE(posix_spawn(&program, path.c_str(), &actions, nullptr, argv, environ) == 0);
  posix_spawn_file_actions_destroy(&actions);
  close(out[1]);
  std::string line;
  char byte;
  while (read(out[0], &byte, 1) == 1 && byte != '\n') line += byte;
  close(out[0]);
  INFO(line << " " << ReadFile(dir / "agent.log").value());
  REQUIRE(line.find("listening on 127.0.0.1:") == 0);
  Dial(std::stoi(line.substr(line.rfind(':') + 1)));
}

void AgentFixture::KillProgram(int signal) {
  kill(program, signal);
  waitpid(program, nullptr, 0);
  program = 0;
}

v1::LeaseId AgentFixture::Lease(uint64_t epoch, const std::string& job) const {
  v1::LeaseId lease;
  lease.set_job_id(job);
  lease.set_epoch(epoch);
  return lease;
}

Status AgentFixture::Acquire(uint64_t epoch, const std::string& job, Nanoseconds ttl) {
  v1::AcquireLeaseRequest request;
  *request.mutable_lease() = Lease(epoch, job);
  request.set_ttl_ns(ttl.count());
  return rpc::Call(*stub, &v1::AgentService::Stub::AcquireLease, request, 30s).status();
}

v1::ProcessSpec AgentFixture::Shell(const std::string& id, const std::string& script) const {
  v1::ProcessSpec spec;
  spec.set_id(id);
  spec.set_role("engine");
  spec.set_executable("sh");
  spec.add_argv("-c");
  spec.add_argv(script);
  return spec;
}

Result<v1::StartProcessResponse> AgentFixture::Start(const v1::ProcessSpec& spec, uint64_t epoch,
                                                     const std::string& id) {
  v1::StartProcessRequest request;
  *request.mutable_lease() = Lease(epoch);
  *request.mutable_spec() = spec;
  request.set_request_id(id.empty() ? "r" + std::to_string(++request_number) : id);
  return rpc::Call(*stub, &v1::AgentService::Stub::StartProcess, request, 30s);
}

void AgentFixture::Watch(const std::function<bool(const v1::WatchProcessesResponse&)>& done, uint64_t after) {
  v1::WatchProcessesRequest request;
  *request.mutable_lease() = Lease();
  request.set_after_sequence(after);
  bool seen = false;
  Status status = rpc::ReadStream<v1::WatchProcessesResponse>(
      [&](grpc::ClientContext* context) { return stub->WatchProcesses(context, request); }, 30s, {},
      [&](v1::WatchProcessesResponse& message) {
        seen = done(message);
        return !seen;
      });
  INFO(status);
  REQUIRE(seen);
}

v1::ProcessStatus AgentFixture::WaitState(const std::string& id, v1::ProcessState state) {
  v1::ProcessStatus found;
  Watch([&](const v1::WatchProcessesResponse& message) {
    if (message.status().id() != id || message.status().state() != state) return false;
    found = message.status();
    return true;
  });
  return found;
}

std::vector<v1::TeardownResponse> AgentFixture::TearDown(bool keep, uint64_t epoch, Nanoseconds grace) {
  v1::TeardownRequest request;
  *request.mutable_lease() = Lease(epoch);
  request.set_cause("the test ends it");
  request.set_keep_lease(keep);
  request.set_grace_ns(grace.count());
  std::vector<v1::TeardownResponse> messages;
  Status status = rpc::ReadStream<v1::TeardownResponse>(
      [&](grpc::ClientContext* context) { return stub->Teardown(context, request); }, 60s, {},
      [&](v1::TeardownResponse& message) {
        messages.push_back(message);
        return true;
      });
  INFO(status);
  REQUIRE(status.ok());
  REQUIRE_FALSE(messages.empty());
  REQUIRE(messages.back().last());
  return messages;
}

bool AgentFixture::Clean(const std::vector<v1::TeardownResponse>& messages) {
  for (const auto& message : messages) UNSCOPED_INFO(message.ShortDebugString());
  return messages.back().clean();
}

v1::ProbeResponse AgentFixture::Probe(const std::string& method, const std::string& url,
                                      const std::string& body) {
  v1::ProbeRequest request;
  *request.mutable_lease() = Lease();
  request.set_method(method);
  request.set_url(url);
  request.set_body(body);
  auto response = rpc::Call(*stub, &v1::AgentService::Stub::Probe, request, 30s);
  INFO(response.status());
  REQUIRE(response.ok());
  return *response;
}

std::string AgentFixture::Log(const std::string& id) {
  v1::StreamLogsRequest request;
  *request.mutable_lease() = Lease();
  request.set_id(id);
  std::string text;
  Status status = rpc::ReadStream<v1::StreamLogsResponse>(
      [&](grpc::ClientContext* context) { return stub->StreamLogs(context, request); }, 30s, {},
      [&](v1::StreamLogsResponse& message) {
        text += message.data();
        return true;
      });
  INFO(status);
  REQUIRE(status.ok());
  return text;
}

std::string AgentFixture::RunDirectory() const {
  auto names = ListDir(dir / "state/runs");
  REQUIRE(names.ok());
  REQUIRE_FALSE(names->empty());
  return dir / ("state/runs/" + names->back());
}

}  // namespace poolmark::test
