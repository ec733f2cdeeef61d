#include "agent/api/agent.h"

#include <pwd.h>
#include <unistd.h>

#include "absl/strings/str_cat.h"
#include "agent/api/registration.h"
#include "agent/api/runs.h"
#include "agent/api/service.h"
#include "common/base/files.h"
#include "common/base/log.h"
#include "common/rpc/address.h"
#include "common/rpc/audit.h"
#include "common/rpc/channel.h"
#include "common/rpc/renewal.h"
#include "common/rpc/server.h"
#include "common/rpc/streams.h"
#include "common/rpc/tls.h"

namespace poolmark::agent {
namespace {

struct User {
  std::optional<unsigned> uid;
  std::optional<unsigned> gid;
};

Result<User> FindUser(const AgentConfig& config) {
  // Before any thread is started.
  POOLMARK_ASSIGN_OR_RETURN(std::string name, EnginesUser(config, geteuid(), [](const std::string& user) {
                              return getpwnam(user.c_str()) != nullptr;
                            }));
  const passwd* entry = name.empty() ? nullptr : getpwnam(name.c_str());
  if (geteuid() == 0 && (entry == nullptr || entry->pw_uid == 0))
    Log(LogLevel::kWarning, "agent.engines_are_root", {{"means", "jobs can do anything on this machine"}});
  if (entry == nullptr || entry->pw_uid == geteuid()) return User{};
  return User{entry->pw_uid, entry->pw_gid};
}

Result<rpc::Identity> SelfOf(const std::string& certificate_pem) {
  POOLMARK_ASSIGN_OR_RETURN(rpc::CertificateInfo certificate, rpc::ParseCertificate(certificate_pem));
  if (certificate.uris.size() != 1)
    return Precondition("certificate", "it does not say whose it is", "join again");
  return rpc::ParseSpiffeUri(certificate.uris[0]);
}

std::string Credentials() {
  const char* directory = std::getenv("CREDENTIALS_DIRECTORY");
  return directory != nullptr ? directory : "";
}

}  // namespace

struct Agent::State {
  std::unique_ptr<Runs> runs;
  std::unique_ptr<AgentService> service;
  std::unique_ptr<rpc::Streams> streams = std::make_unique<rpc::Streams>();  // its workers use the service
  std::unique_ptr<Registration> registration;
  std::unique_ptr<rpc::Renewer> renewer;
  std::atomic<Registration*> revocations{nullptr};
  std::unique_ptr<rpc::Server> server;
};

Agent::Agent() : state_(std::make_unique<State>()) {}

Agent::~Agent() {
  if (state_->server) state_->server->Shutdown(std::chrono::seconds(3));
  state_->revocations = nullptr;
  state_->renewer.reset();
  state_->registration.reset();
  state_->server.reset();
  // A stream that is still being written has the service in its hands: its worker ends before that goes.
  state_->streams.reset();
}

Result<std::unique_ptr<Agent>> Agent::Start(AgentConfig config) {
  std::string tls_dir = config.tls_dir.empty() ? config.state_dir + "/tls" : config.tls_dir;
  POOLMARK_ASSIGN_OR_RETURN(rpc::IdentityText identity, rpc::LoadIdentity(tls_dir, RealClock()));
  POOLMARK_ASSIGN_OR_RETURN(rpc::Identity self, SelfOf(identity.certificate_pem));
  if (config.machine.empty()) config.machine = self.name;
  if (self.role != rpc::Role::kAgent || config.machine != self.name) {
    return Precondition(tls_dir,
                        absl::StrCat("the certificate is of ", rpc::RoleName(self.role), " '", self.name,
                                     "', this is machine '", config.machine, "'"),
                        "join with a token for this machine");
  }
  POOLMARK_RETURN_IF_ERROR(CompleteConfig(&config));
  if (config.controller.empty()) {
    auto told = ReadFile(JoinPath(config.state_dir, "controller"), 4096);
    if (told.ok()) config.controller = told->substr(0, told->find('\n'));
  }
  if (config.controller.empty())
    return Precondition("agent.yaml", "no controller is named", "set 'controller', or join with a token");
  for (const std::string& place : config.directories) {
    if (!FileExists(place))
      return NotFound("agent.yaml directories", absl::StrCat("'", place, "' does not exist"),
                      "make it, or remove the line");
  }
  POOLMARK_ASSIGN_OR_RETURN(User user, FindUser(config));

  std::unique_ptr<Agent> agent(new Agent());
  State& state = *agent->state_;
  state.runs = std::make_unique<Runs>(config, user.uid, user.gid);
  POOLMARK_RETURN_IF_ERROR(state.runs->Open());
  state.service = std::make_unique<AgentService>(state.runs.get(), state.streams.get(),
                                                 Secrets(config.secrets_dir, Credentials()));
  state.service->Resume();

  rpc::ServerOptions options;
  options.address = config.listen;
  options.allow_any_address = config.allow_any_address;
  options.how_to_allow_any = "set allow_any_address: true in agent.yaml";
  options.identity_dir = config.tls_dir;
  options.streams = state.streams.get();
  options.cluster = self.cluster;
  options.max_sync_threads = 16;
  options.max_connections = 512;
  POOLMARK_ASSIGN_OR_RETURN(options.audit,
                            rpc::AuditLog::Open(JoinPath(config.state_dir, "audit.jsonl"), RealClock()));
  options.is_revoked = [&state](const rpc::Identity& who) {
    Registration* registration = state.revocations.load();
    return registration != nullptr && registration->IsRevoked(who);
  };
  POOLMARK_ASSIGN_OR_RETURN(
      state.server,
      rpc::Server::Start(options, {{state.service.get(), v1::AgentService::service_full_name()}}));

  // Each time with the certificate that is there then: one that was revoked may have been replaced.
  const auto connect = [options = rpc::ChannelOptions{
                            config.controller, rpc::ServerName(rpc::Role::kController, ""), config.tls_dir}] {
    return rpc::MakeChannel(options);
  };
  POOLMARK_RETURN_IF_ERROR(connect().status());
  Registration::Options registration;
  registration.machine = config.machine;
  registration.advertise = config.advertise.empty() ? state.server->address() : config.advertise;
  registration.allow_file = config.allow_file;
  registration.facts = [&state] { return state.service->FactsNow(); };
  state.registration = std::make_unique<Registration>(registration, connect, state.runs.get());
  state.revocations = state.registration.get();
  state.renewer = std::make_unique<rpc::Renewer>(
      config.tls_dir, RealClock(), [connect](const std::string& request) -> Result<rpc::SignedCertificate> {
        POOLMARK_ASSIGN_OR_RETURN(auto channel, connect());
        return rpc::RenewOver(channel)(request);
      });
  Log(LogLevel::kInfo, "agent.serving",
      {{"machine", config.machine}, {"address", state.server->address()}, {"controller", config.controller}});
  return agent;
}

std::string Agent::address() const {
  return state_->server->address();
}
int Agent::port() const {
  return state_->server->port();
}
bool Agent::registered() const {
  return state_->registration->last_answer_wall().count() != 0;
}

}  // namespace poolmark::agent
