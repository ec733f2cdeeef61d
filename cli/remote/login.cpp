// login and contexts: which clusters this user belongs to.
#include <csignal>
#include <iostream>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "cli/output/exit_code.h"
#include "cli/remote/commands.h"
#include "common/base/time_format.h"
#include "common/rpc/enroll_client.h"

namespace poolmark::cli {

int RunLogin(const LoginOptions& options) {
  std::signal(SIGPIPE,
              SIG_IGN);  // the TLS connection that only looks at certificates writes to a plain socket
  std::string token = options.token;
  const Format format = FormatOf(options.output);
  if (token == "-") std::getline(std::cin, token);
  auto enrolled = rpc::Enroll(token);
  if (!enrolled.ok()) return Fail(enrolled.status(), format);
  if (enrolled->role == rpc::Role::kAgent) {
    return Fail(
        InvalidInput("login",
                     absl::StrCat("the token was for machine '", enrolled->name, "' and is used up now"),
                     "machines enrol with 'poolmark-agent join TOKEN'; make a new token"),
        format);
  }
  auto store = rpc::ContextStore::Load(rpc::ContextStore::DefaultDir());
  if (!store.ok()) return Fail(store.status(), format);
  const std::string name = options.context.empty() ? enrolled->cluster : options.context;
  Status added =
      store->Add(name, enrolled->controller_address, enrolled->cluster, enrolled->identity, RealClock());
  if (!added.ok()) return Fail(added, format);
  if (format == Format::kTable) {
    WriteOut(absl::StrCat("logged in to ", enrolled->cluster, " as ", enrolled->name, " (",
                          rpc::RoleName(enrolled->role), "), context ", name, "\n"));
  } else {
    WriteOut(JsonText({{"context", name},
                       {"cluster", enrolled->cluster},
                       {"controller", enrolled->controller_address},
                       {"name", enrolled->name},
                       {"role", rpc::RoleName(enrolled->role)}},
                      format));
  }
  return kExitOk;
}

int RunContexts(const std::string& output) {
  const Format format = FormatOf(output);
  auto store = rpc::ContextStore::Load(rpc::ContextStore::DefaultDir());
  if (!store.ok()) return Fail(store.status(), format);
  Table table({"", "CONTEXT", "CLUSTER", "CONTROLLER", "AS", "ROLE", "CERTIFICATE ENDS"});
  std::vector<Json> rows;
  for (const rpc::CliContext& context : store->All()) {
    std::string name, role, ends = "unreadable";
    auto identity = rpc::LoadIdentity(context.identity_dir, RealClock());
    auto info = identity.ok() ? rpc::ParseCertificate(identity->certificate_pem)
                              : Result<rpc::CertificateInfo>(identity.status());
    if (info.ok() && !info->uris.empty()) {
      auto who = rpc::ParseSpiffeUri(info->uris.front());
      if (who.ok()) {
        name = who->name;
        role = rpc::RoleName(who->role);
      }
      ends = IsoUtc(info->not_after);
    }
    const bool current = context.name == store->current();
    table.Add({{current ? "*" : ""},
               {context.name},
               {context.cluster},
               {context.controller},
               {name},
               {role},
               {ends}});
    rows.push_back({{"context", context.name},
                    {"current", current},
                    {"cluster", context.cluster},
                    {"controller", context.controller},
                    {"name", name},
                    {"role", role},
                    {"certificate_ends", info.ok() ? Json(ends) : Json()}});
  }
  WriteOut(format == Format::kTable ? table.Text() : JsonRows(rows, format));
  return kExitOk;
}

int RunUseContext(const std::string& name, const std::string& output) {
  const Format format = FormatOf(output);
  auto store = rpc::ContextStore::Load(rpc::ContextStore::DefaultDir());
  if (!store.ok()) return Fail(store.status(), format);
  Status used = store->Use(name);
  if (!used.ok()) return Fail(used, format);
  if (format != Format::kTable) WriteOut(JsonText({{"context", name}, {"current", true}}, format));
  return kExitOk;
}

int RunForgetContext(const std::string& name, const std::string& output) {
  const Format format = FormatOf(output);
  auto store = rpc::ContextStore::Load(rpc::ContextStore::DefaultDir());
  if (!store.ok()) return Fail(store.status(), format);
  Status removed = store->Remove(name);
  if (!removed.ok()) return Fail(removed, format);
  if (format != Format::kTable) WriteOut(JsonText({{"context", name}, {"forgotten", true}}, format));
  return kExitOk;
}

}  // namespace poolmark::cli
