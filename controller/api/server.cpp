#include "controller/api/server.h"

#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <cstring>
#include <thread>

#include "absl/strings/str_cat.h"
#include "common/base/files.h"
#include "common/base/log.h"
#include "common/base/time_format.h"
#include "common/base/version.h"
#include "common/rpc/audit.h"
#include "common/rpc/channel.h"
#include "common/rpc/renewal.h"
#include "common/rpc/server.h"
#include "common/rpc/streams.h"
#include "controller/api/controller_service.h"
#include "controller/api/registry_service.h"
#include "controller/ca/enroll_service.h"
#include "controller/ca/settings.h"
#include "controller/machines/grpc_agent_link.h"
#include "controller/web/web.h"

namespace poolmark::controller {
namespace {

constexpr std::chrono::milliseconds kGrace{5000};

// One line to systemd, where it asked for it (sd_notify(3)).
void Notify(const std::string& text) {
  const char* path = std::getenv("NOTIFY_SOCKET");
  if (path == nullptr || *path == 0) return;
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (std::strlen(path) >= sizeof address.sun_path) return;
  std::strncpy(address.sun_path, path, sizeof address.sun_path - 1);
  const socklen_t length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + std::strlen(path));
  if (address.sun_path[0] == '@') address.sun_path[0] = 0;
  const int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return;
  (void)sendto(fd, text.data(), text.size(), MSG_NOSIGNAL, reinterpret_cast<sockaddr*>(&address), length);
  close(fd);
}

// When the identity's certificate ends, in seconds since 1970; 0: it cannot be read.
std::optional<double> CertificateEnd(const std::string& identity_dir, const Clock& clock) {
  auto identity = rpc::LoadIdentity(identity_dir, clock);
  if (!identity.ok()) return std::nullopt;
  auto certificate = rpc::ParseCertificate(identity->certificate_pem);
  if (!certificate.ok()) return std::nullopt;
  return static_cast<double>(certificate->not_after.count()) / 1e9;
}

LinkFactory GrpcLinks(const std::string& identity_dir, const Clock* clock) {
  return [identity_dir, clock](const std::string& machine, const std::string& address) -> AgentLinkPtr {
    auto channel =
        rpc::MakeChannel({address, rpc::ServerName(rpc::Role::kAgent, machine), identity_dir}, *clock);
    if (!channel.ok()) {
      Log(LogLevel::kError, "agent.channel",
          {{"machine", machine}, {"error", std::string(channel.status().message())}});
      return nullptr;
    }
    return MakeGrpcAgentLink(*channel);
  };
}

}  // namespace

// Members in the order in which they depend on each other; torn down in reverse.
struct Controller::State {
  const Clock* clock = nullptr;
  ServeOptions options;
  std::string settings_state;
  std::unique_ptr<Authority> authority;
  std::unique_ptr<Store> store;
  std::unique_ptr<InputStore> inputs;
  EventHub hub;
  std::unique_ptr<Registry> registry;
  Environment environment;
  std::unique_ptr<JobManager> jobs;
  rpc::Streams streams;
  std::unique_ptr<TokenStore> tokens;
  std::unique_ptr<ControllerServiceImpl> service;
  std::unique_ptr<AgentRegistryServiceImpl> registry_service;
  std::unique_ptr<EnrollServiceImpl> enroll_service;
  std::unique_ptr<rpc::Server> server;
  std::unique_ptr<rpc::Server> enroll_server;
  std::unique_ptr<Web> web;
  std::unique_ptr<rpc::Renewer> renewer;
  std::shared_ptr<rpc::AuditLog> audit;
  std::jthread ticker;
};

Controller::Controller() : state_(std::make_unique<State>()) {}

Result<std::unique_ptr<Controller>> Controller::Start(const ServeOptions& options, const Clock* clock) {
  std::unique_ptr<Controller> controller(new Controller());
  State& s = *controller->state_;
  s.clock = clock;
  s.options = options;
  POOLMARK_ASSIGN_OR_RETURN(Settings settings, LoadSettings(options.state));
  for (const char* part : {"stacks", "slo", "catalogue"}) {
    // Else all would look well until the first job is submitted.
    if (!ListDir(JoinPath(options.catalogue_dir, part)).ok()) {
      return NotFound("--catalogue-dir",
                      absl::StrCat("'", options.catalogue_dir, "' has no directory ", part),
                      "name the one that has stacks, slo and catalogue: /usr/share/poolmark of the packages, "
                      "deploy of the source");
    }
  }
  // As `init` leaves it: an older one, or a service manager, may have closed it to the load.
  (void)chmod(options.state.c_str(), 0711);
  POOLMARK_ASSIGN_OR_RETURN(s.authority, Authority::Open(AuthorityDir(options.state), *clock));
  POOLMARK_ASSIGN_OR_RETURN(s.store, Store::Open(options.state, clock));
  s.store->AdoptCluster(s.authority->cluster());
  POOLMARK_ASSIGN_OR_RETURN(
      InputStore inputs,
      InputStore::Open(JoinPath(options.state, "inputs"), JoinPath(options.catalogue_dir, "stacks"),
                       JoinPath(options.catalogue_dir, "slo"), JoinPath(options.catalogue_dir, "catalogue")));
  s.inputs = std::make_unique<InputStore>(std::move(inputs));
  POOLMARK_RETURN_IF_ERROR(MakeDirs(JoinPath(options.state, "results"), 0750));
  s.store->SetListener(
      [&s](const std::string& job, const v1::JobEvent& event) { s.hub.Publish(job, event); });
  const std::string identity = IdentityDir(options.state);
  POOLMARK_RETURN_IF_ERROR(EnsureIdentity(options.state, *s.authority, *clock));
  POOLMARK_ASSIGN_OR_RETURN(s.audit, rpc::AuditLog::Open(JoinPath(options.state, "audit.jsonl"), *clock));
  s.registry = std::make_unique<Registry>(s.store.get(), clock, options.timing,
                                          options.make_link ? options.make_link : GrpcLinks(identity, clock));
  POOLMARK_RETURN_IF_ERROR(s.registry->Load());
  s.registry->SetRevoked(s.authority->RevokedSerials());
  s.environment.store = s.store.get();
  s.environment.registry = s.registry.get();
  s.environment.inputs = s.inputs.get();
  s.environment.hub = &s.hub;
  s.environment.clock = clock;
  s.environment.timing = options.step_timing;
  s.environment.state_dir = options.state;
  s.environment.results_dir = JoinPath(options.state, "results");
  s.environment.catalogue_dir = JoinPath(options.catalogue_dir, "catalogue");
  s.jobs = std::make_unique<JobManager>(s.environment, options.retention);

  s.service = std::make_unique<ControllerServiceImpl>(s.jobs.get(), s.authority.get(), &s.streams);
  s.registry_service = std::make_unique<AgentRegistryServiceImpl>(s.jobs.get());
  rpc::ServerOptions listen;
  listen.address = options.listen.empty() ? settings.listen : options.listen;
  listen.allow_any_address = settings.allow_any_address;
  listen.how_to_allow_any =
      absl::StrCat("set \"allow_any_address\": true in ", JoinPath(options.state, "controller.json"));
  listen.identity_dir = identity;
  listen.streams = &s.streams;
  listen.cluster = s.authority->cluster();
  // A thousand agents that come back at once wait for the store; without a thread a call would be refused.
  // They are made when they are needed.
  listen.max_sync_threads = 256;
  listen.audit = s.audit;
  listen.is_revoked = [&s](const rpc::Identity& caller) { return s.authority->IsRevoked(caller.serial); };
  POOLMARK_ASSIGN_OR_RETURN(
      s.server,
      rpc::Server::Start(listen,
                         {{s.service.get(), v1::ControllerService::service_full_name()},
                          {s.registry_service.get(), v1::AgentRegistryService::service_full_name()}},
                         *clock));

  s.tokens = std::make_unique<TokenStore>(AuthorityDir(options.state), *clock);
  s.enroll_service = std::make_unique<EnrollServiceImpl>(
      *s.authority, *s.tokens, ControllerAddress(settings, s.server->address()), *clock);
  rpc::ServerOptions enroll;
  enroll.address = settings.enroll_listen;
  enroll.allow_any_address = settings.allow_any_address;
  enroll.how_to_allow_any = listen.how_to_allow_any;
  enroll.identity_dir = identity;
  enroll.clients_have_certificates = false;
  enroll.audit = s.audit;
  enroll.max_connections = 256;
  enroll.max_sync_threads = 4;
  POOLMARK_ASSIGN_OR_RETURN(
      s.enroll_server,
      rpc::Server::Start(enroll, {{s.enroll_service.get(), v1::EnrollService::service_full_name()}}, *clock));
  if (!options.web.empty()) {
    POOLMARK_ASSIGN_OR_RETURN(s.web, Web::Start(options.web, s.jobs.get(), [&s](ControllerFigures* figures) {
                                const rpc::ServerCounts counts = s.server->counts();
                                figures->rpc_calls = counts.calls;
                                figures->rpc_denied = counts.denied;
                                figures->connections = counts.live;
                                figures->connections_refused = counts.refused_full;
                                figures->certificate_expires_seconds =
                                    CertificateEnd(IdentityDir(s.options.state), *s.clock);
                              }));
  }
  const std::string host = options.web.substr(0, options.web.rfind(':'));
  POOLMARK_RETURN_IF_ERROR(WriteRunning(options.state, s.server->address(), s.enroll_server->address(),
                                        s.web ? absl::StrCat(host, ":", s.web->port()) : ""));
  s.ticker = std::jthread([&s](std::stop_token stop) {
    const Nanoseconds every = std::min<Nanoseconds>(std::chrono::seconds(1), s.options.timing.heartbeat);
    while (WaitFor(stop, every)) {
      s.registry->Tick(
          [&s](const std::string& machine, const std::string& job) { s.jobs->MachineLost(machine, job); });
      s.registry->SetRevoked(s.authority->RevokedSerials());
      s.streams.CancelIf([&s](const rpc::Identity& who) {
        return s.authority->IsRevoked(who.serial) || rpc::HasExpired(who, s.clock->Wall());
      });
    }
  });
  s.renewer = std::make_unique<rpc::Renewer>(
      identity, *clock, [&s](const std::string& request) -> Result<rpc::SignedCertificate> {
        POOLMARK_ASSIGN_OR_RETURN(std::string certificate,
                                  s.authority->Sign(request, rpc::Role::kController, "controller",
                                                    LifetimeOf(rpc::Role::kController)));
        return rpc::SignedCertificate{certificate, s.authority->ca_pem()};
      });
  // Last: jobs of an earlier start need the agents, which need the API to come back.
  POOLMARK_RETURN_IF_ERROR(s.jobs->Start());
  Log(LogLevel::kInfo, "controller.ready",
      {{"version", Version()},
       {"api", s.server->address()},
       {"enrol", s.enroll_server->address()},
       {"web", std::to_string(controller->web_port())},
       {"epoch", std::to_string(s.store->controller_epoch())}});
  return controller;
}

Controller::~Controller() {
  State& s = *state_;
  if (s.server) s.server->SetServing(false);
  if (s.ticker.joinable()) {
    s.ticker.request_stop();
    s.ticker.join();
  }
  s.renewer.reset();
  s.web.reset();
  if (s.jobs) s.jobs->Stop();
  if (s.enroll_server) s.enroll_server->Shutdown(kGrace);
  if (s.server) s.server->Shutdown(kGrace);
  s.service.reset();  // ends the watches before the streams go
  if (s.store) s.store->SetListener(nullptr);
  if (s.server) RemoveRunning(s.options.state);
}

const std::string& Controller::address() const {
  return state_->server->address();
}
const std::string& Controller::enroll_address() const {
  return state_->enroll_server->address();
}
int Controller::web_port() const {
  return state_->web ? state_->web->port() : 0;
}
JobManager& Controller::jobs() {
  return *state_->jobs;
}
Registry& Controller::registry() {
  return *state_->registry;
}
Store& Controller::store() {
  return *state_->store;
}

int Serve(const ServeOptions& options) {
  sigset_t signals;
  sigemptyset(&signals);
  for (int signal : {SIGTERM, SIGINT, SIGHUP}) sigaddset(&signals, signal);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);  // before any thread exists: they inherit it
  // Every agent, client and stream is a descriptor.
  rlimit files{};
  if (getrlimit(RLIMIT_NOFILE, &files) == 0 && files.rlim_cur < files.rlim_max) {
    files.rlim_cur = files.rlim_max;
    (void)setrlimit(RLIMIT_NOFILE, &files);
  }
  auto controller = Controller::Start(options, &RealClock());
  if (!controller.ok()) {
    Log(LogLevel::kError, "controller.start_failed", {{"error", std::string(controller.status().message())}});
    std::fprintf(stderr, "poolmark-controller: %s\n", std::string(controller.status().message()).c_str());
    return controller.status().code() == absl::StatusCode::kInternal ? 70 : 1;
  }
  Notify("READY=1");
  int signal = 0;
  // Certificates reload by themselves; SIGHUP must only not end the daemon.
  do {
    sigwait(&signals, &signal);
  } while (signal == SIGHUP);
  Log(LogLevel::kInfo, "controller.ending", {{"signal", std::to_string(signal)}});
  Notify("STOPPING=1");
  controller->reset();
  return 0;
}

}  // namespace poolmark::controller
