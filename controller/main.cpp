// poolmark-controller: makes a cluster, hands out enrolment tokens, and serves. Only the command line is
// here.
#include <grp.h>
#include <malloc.h>
#include <sys/stat.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <nlohmann/json.hpp>
#include <set>

#include "common/base/digest.h"
#include "common/base/json.h"
#include "common/base/log.h"
#include "common/base/time_format.h"
#include "common/base/units.h"
#include "common/base/version.h"
#include "common/rpc/audit.h"
#include "common/rpc/contexts.h"
#include "controller/api/server.h"
#include "controller/ca/ca.h"
#include "controller/ca/settings.h"

namespace {

using poolmark::Status;

constexpr int kExitRefused = 1;
constexpr int kExitUsage = 2;
constexpr int kExitOurFault = 70;

int Report(const Status& status) {
  if (status.ok()) return 0;
  std::cerr << "poolmark-controller: " << status.message() << "\n";
  if (status.code() == absl::StatusCode::kInvalidArgument) return kExitUsage;
  return status.code() == absl::StatusCode::kInternal ? kExitOurFault : kExitRefused;
}

// Root acts as the owner of the state directory: files that root made there (a token, a certificate, the
// store) could not be read by the daemon, which is that owner.
Status ActAsOwner(const std::string& state) {
  struct stat info {};
  if (geteuid() != 0 || stat(state.c_str(), &info) != 0 || info.st_uid == 0) return absl::OkStatus();
  if (setgroups(0, nullptr) != 0 || setgid(info.st_gid) != 0 || setuid(info.st_uid) != 0)
    return poolmark::FromErrno(state, "becoming its owner", errno);
  return absl::OkStatus();
}

std::string UserName() {
  const char* user = std::getenv("SUDO_USER");
  if (user == nullptr || *user == 0) user = std::getenv("USER");
  return user == nullptr || *user == 0 ? "admin" : user;
}

void AddInit(CLI::App& app, std::string& state, int& exit_code) {
  auto options = std::make_shared<poolmark::controller::InitOptions>();
  auto no_admin = std::make_shared<bool>(false);
  CLI::App* init =
      app.add_subcommand("init", "Make a new cluster: CA, the controller's certificate, the first admin");
  options->admin = UserName();
  options->config_dir = poolmark::rpc::ContextStore::DefaultDir();
  init->add_option("--cluster", options->cluster, "Name of the cluster (default: a random one)");
  init->add_option("--listen", options->settings.listen, "Address of the API")->capture_default_str();
  init->add_option("--enroll-listen", options->settings.enroll_listen, "Address for enrolment")
      ->capture_default_str();
  init->add_option("--advertise", options->settings.advertise,
                   "Address of the API as others reach it (default: the one listened on)");
  init->add_option("--enroll-advertise", options->settings.enroll_advertise,
                   "Address for enrolment as others reach it");
  init->add_flag("--allow-any-address", options->settings.allow_any_address, "Permit 0.0.0.0 and [::]");
  init->add_option("--admin", options->admin, "Name of the first admin")->capture_default_str();
  init->add_option("--context", options->context,
                   "Name of the admin's CLI context (default: the cluster's name)");
  init->add_option("--config-dir", options->config_dir, "Configuration directory of the admin's CLI")
      ->capture_default_str();
  init->add_flag("--no-admin", *no_admin,
                 "Make no admin: 'token create --user NAME --role admin' can do it later");
  init->callback([options, no_admin, &state, &exit_code] {
    options->state = state;
    if (options->cluster.empty()) options->cluster = "pool-" + poolmark::RandomHex(3);
    if (options->context.empty()) options->context = options->cluster;
    if (*no_admin) options->admin.clear();
    Status status = poolmark::controller::Init(*options, poolmark::RealClock());
    exit_code = Report(status);
    if (!status.ok()) return;
    std::cout << "cluster " << options->cluster << " is made in " << state << "\n";
    if (!options->admin.empty())
      std::cout << "admin '" << options->admin << "' is logged in: poolmark machines --context "
                << options->context << "\n";
    std::cout << "next:  poolmark-controller serve --state " << state << "\n"
              << "then, for each machine:  poolmark-controller token create --machine NAME --state " << state
              << "\n";
  });
}

void AddToken(CLI::App& app, std::string& state, int& exit_code) {
  struct Options {
    std::string machine, user, role = "operator", ttl = "1h";
  };
  auto options = std::make_shared<Options>();
  CLI::App* token = app.add_subcommand("token", "One-time enrolment tokens");
  token->require_subcommand(1);
  CLI::App* create =
      token->add_subcommand("create", "Make a token for one machine or one user and print it, once");
  auto* machine = create->add_option("--machine", options->machine,
                                     "For the machine of this name: poolmark-agent join TOKEN");
  auto* user = create->add_option("--user", options->user, "For the user of this name: poolmark login TOKEN")
                   ->excludes(machine);
  create->add_option("--role", options->role, "Of a user: viewer, automation, operator or admin")
      ->needs(user)
      ->check(CLI::IsMember({"viewer", "automation", "operator", "admin"}))
      ->capture_default_str();
  create->add_option("--ttl", options->ttl, "How long it can be used")->capture_default_str();
  create->callback([options, &state, &exit_code] {
    if (options->machine.empty() == options->user.empty()) {
      exit_code =
          Report(poolmark::InvalidInput("token create", "for whom?", "give --machine NAME or --user NAME"));
      return;
    }
    auto life = poolmark::ParseDuration(options->ttl);
    if (!life.ok()) {
      exit_code = Report(poolmark::InvalidInput("--ttl", std::string(life.status().message())));
      return;
    }
    const bool is_machine = !options->machine.empty();
    auto role = is_machine ? poolmark::rpc::Role::kAgent : *poolmark::rpc::ParseRole(options->role);
    auto text = poolmark::controller::CreateToken(state, is_machine ? options->machine : options->user, role,
                                                  *life, poolmark::RealClock());
    exit_code = Report(text.status());
    if (text.ok()) std::cout << *text << "\n";
  });
}

// Whoever revokes a stolen certificate must not believe it done when the name was mistyped.
poolmark::Status NothingRevoked(const poolmark::controller::Authority& authority, bool machine,
                                const std::string& name) {
  POOLMARK_ASSIGN_OR_RETURN(auto issued, authority.Issued());
  std::set<std::string> names;
  for (const auto& certificate : issued) {
    if (certificate.role == poolmark::rpc::Role::kController ||
        (certificate.role == poolmark::rpc::Role::kAgent) != machine)
      continue;
    if (certificate.name == name) return absl::OkStatus();  // all were revoked or have expired
    names.insert(certificate.name);
  }
  std::string known;
  for (const std::string& one : names) known += (known.empty() ? "" : ", ") + one;
  return poolmark::NotFound(machine ? "--machine" : "--user", "this CA has signed nothing for '" + name + "'",
                            known.empty() ? "'cert list' shows all" : "there are: " + known.substr(0, 2000));
}

void AddCertificates(CLI::App& app, std::string& state, int& exit_code) {
  CLI::App* certificates = app.add_subcommand("cert", "Certificates that this CA has signed");
  certificates->require_subcommand(1);
  auto output = std::make_shared<std::string>("text");
  CLI::App* list = certificates->add_subcommand("list", "Newest first: role, name, serial, end, revoked");
  list->add_option("-o,--output", *output, "text or json")
      ->check(CLI::IsMember({"text", "json"}))
      ->capture_default_str();
  list->callback([output, &state, &exit_code] {
    auto authority = poolmark::controller::Authority::Open(poolmark::controller::AuthorityDir(state),
                                                           poolmark::RealClock());
    if (!authority.ok()) return void(exit_code = Report(authority.status()));
    auto issued = (*authority)->Issued();
    if (!issued.ok()) return void(exit_code = Report(issued.status()));
    if (*output == "json") {
      auto json = poolmark::Json::array();
      for (const auto& entry : *issued) {
        json.push_back({{"role", poolmark::rpc::RoleName(entry.role)},
                        {"name", entry.name},
                        {"serial", entry.serial},
                        {"not_after", poolmark::IsoUtc(entry.not_after)},
                        {"revoked", entry.revoked}});
      }
      auto text = poolmark::DumpJson(json, 2);
      exit_code = Report(text.status());
      if (text.ok()) std::cout << *text << "\n";
      return;
    }
    for (const auto& entry : *issued) {
      std::cout << poolmark::rpc::RoleName(entry.role) << "\t" << entry.name << "\t" << entry.serial << "\t"
                << poolmark::IsoUtc(entry.not_after) << (entry.revoked ? "\trevoked" : "") << "\n";
    }
  });
  struct Options {
    std::string machine, user;
  };
  auto options = std::make_shared<Options>();
  CLI::App* revoke =
      certificates->add_subcommand("revoke", "Refuse every certificate of a machine or a user from now on");
  auto* machine = revoke->add_option("--machine", options->machine, "Name of the machine");
  revoke->add_option("--user", options->user, "Name of the user")->excludes(machine);
  revoke->callback([options, &state, &exit_code] {
    if (options->machine.empty() == options->user.empty()) {
      exit_code =
          Report(poolmark::InvalidInput("cert revoke", "whose?", "give --machine NAME or --user NAME"));
      return;
    }
    auto authority = poolmark::controller::Authority::Open(poolmark::controller::AuthorityDir(state),
                                                           poolmark::RealClock());
    if (!authority.ok()) return void(exit_code = Report(authority.status()));
    const bool is_machine = !options->machine.empty();
    auto count = (*authority)->Revoke(is_machine, is_machine ? options->machine : options->user);
    exit_code = Report(count.status());
    if (!count.ok()) return;
    std::cout << *count << " certificates revoked\n";
    if (*count == 0)
      exit_code =
          Report(NothingRevoked(**authority, is_machine, is_machine ? options->machine : options->user));
  });
}

void AddAudit(CLI::App& app, std::string& state, int& exit_code) {
  auto file = std::make_shared<std::string>();
  CLI::App* audit = app.add_subcommand("audit", "The log of who changed what");
  audit->require_subcommand(1);
  CLI::App* verify = audit->add_subcommand(
      "verify", "Check that no line of it was altered or taken out; prints the hash of the last line");
  verify->add_option("--file", *file,
                     "Another one: an agent's, one moved away (default: the state directory's)");
  verify->callback([file, &state, &exit_code] {
    auto chain = poolmark::rpc::CheckAuditLog(file->empty() ? state + "/audit.jsonl" : *file);
    exit_code = chain.ok() ? 0 : kExitRefused;
    if (!chain.ok()) {
      std::cerr << "poolmark-controller: " << chain.status().message() << "\n";
      return;
    }
    std::cout << chain->lines << " lines, each follows from the one before; SHA-256 of the last: "
              << (chain->lines == 0 ? "none" : chain->last_sha256) << "\n";
  });
}

void AddServe(CLI::App& app, std::string& state, int& exit_code) {
  struct Options {
    poolmark::controller::ServeOptions serve;
    std::string lease = "30s", expire_after, web = "127.0.0.1:0";
    std::string keep_bytes;
  };
  auto options = std::make_shared<Options>();
  CLI::App* serve = app.add_subcommand("serve", "Serve the API, run jobs; ends in order at SIGTERM");
  options->serve.catalogue_dir = "/usr/share/poolmark";
  if (const char* wish = std::getenv("POOLMARK_CATALOGUE_DIR")) options->serve.catalogue_dir = wish;
  serve
      ->add_option("--catalogue-dir", options->serve.catalogue_dir,
                   "Directory with stacks/, slo/ and catalogue/ (or POOLMARK_CATALOGUE_DIR)")
      ->capture_default_str();
  serve->add_option("--listen", options->serve.listen, "Address of the API in place of the settings' one");
  serve
      ->add_option("--web", options->web,
                   "Loopback address of status page, /metrics, /healthz and /readyz; off: none")
      ->capture_default_str();
  serve
      ->add_option("--lease", options->lease,
                   "How long engines may run without this controller; a machine silent for longer is lost")
      ->capture_default_str();
  serve->add_option("--expire-after", options->expire_after,
                    "Delete finished jobs and their results after this time (default: never)");
  serve->add_option("--keep-bytes", options->keep_bytes,
                    "Delete the oldest finished jobs when all results take more (default: no limit)");
  serve->callback([options, &state, &exit_code] {
    auto& serving = options->serve;
    serving.state = state;
    serving.web = options->web == "off" ? "" : options->web;
    auto lease = poolmark::ParseDuration(options->lease);
    if (!lease.ok()) return void(exit_code = Report(lease.status()));
    if (*lease < std::chrono::seconds(3) || *lease > std::chrono::hours(1)) {
      return void(exit_code = Report(poolmark::InvalidInput(
                      "--lease", "'" + options->lease + "' is not between 3s and 1h")));
    }
    // Everything that waits for a lease keeps its proportion to it.
    serving.timing.lease = *lease;
    serving.timing.heartbeat = std::min<poolmark::Nanoseconds>(serving.timing.heartbeat, *lease / 6);
    serving.timing.suspect = 3 * serving.timing.heartbeat;
    serving.timing.silent = std::min<poolmark::Nanoseconds>(serving.timing.silent, *lease);
    serving.timing.guard_done = *lease + std::chrono::seconds(55);
    if (!options->expire_after.empty()) {
      auto age = poolmark::ParseDuration(options->expire_after);
      if (!age.ok()) return void(exit_code = Report(age.status()));
      serving.retention.max_age = *age;
    }
    if (!options->keep_bytes.empty()) {
      auto bytes = poolmark::ParseBytes(options->keep_bytes);
      if (!bytes.ok()) return void(exit_code = Report(bytes.status()));
      serving.retention.max_bytes = *bytes;
    }
    exit_code = poolmark::controller::Serve(serving);
  });
}

int Main(int argc, char** argv) {
  CLI::App app("Head of a Poolmark pool: queue, steps, results, API");
  app.require_subcommand(1);
  std::string state = "/var/lib/poolmark";
  if (const char* wish = std::getenv("POOLMARK_STATE_DIR")) state = wish;
  app.add_option("--state", state, "State directory (or POOLMARK_STATE_DIR)")->capture_default_str();
  app.fallthrough();
  std::string level = "info";
  app.add_option("--log-level", level, "debug, info, warning or error")
      ->check(CLI::IsMember({"debug", "info", "warning", "error"}))
      ->capture_default_str();
  int exit_code = 0;
  app.parse_complete_callback([&] {
    poolmark::SetLogLevel(level);
    for (const char* writer : {"serve", "token", "cert"}) {
      if (!app.got_subcommand(writer)) continue;
      if (Status status = ActAsOwner(state); !status.ok()) throw CLI::RuntimeError(Report(status));
    }
  });
  AddInit(app, state, exit_code);
  AddServe(app, state, exit_code);
  AddToken(app, state, exit_code);
  AddCertificates(app, state, exit_code);
  AddAudit(app, state, exit_code);
  app.add_subcommand("version", "Print the version")->callback([] {
    std::cout << poolmark::Version() << "\n";
  });
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    int code = app.exit(error);
    return code == 0 ? 0 : kExitUsage;
  }
  return exit_code;
}

}  // namespace

int main(int argc, char** argv) {
  // Many threads that allocate little: an arena for each would keep what a job's report once took.
  mallopt(M_ARENA_MAX, 2);
  // Large buffers go back at once; left alone, the limit would rise with them and their holes would stay.
  mallopt(M_MMAP_THRESHOLD, 128 * 1024);
  std::signal(SIGPIPE, SIG_IGN);
  umask(0027);
  try {
    return Main(argc, argv);
  } catch (const std::exception& error) {
    std::cerr << "poolmark-controller: " << error.what() << "\n";
    return kExitOurFault;
  }
}
