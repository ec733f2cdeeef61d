#include "controller/steps/plan_secrets.h"

#include <algorithm>
#include <map>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace poolmark::controller {
namespace {

bool Gives(const v1::Facts& facts, const std::string& secret, const std::string& program) {
  return std::any_of(facts.secrets().begin(), facts.secrets().end(), [&](const v1::SecretUse& use) {
    return use.secret() == secret &&
           std::find(use.programs().begin(), use.programs().end(), program) != use.programs().end();
  });
}

bool Gives(const v1::Facts& facts, const spec::Bmc& bmc) {
  return std::any_of(facts.bmc_logins().begin(), facts.bmc_logins().end(), [&](const v1::BmcLogin& login) {
    return login.kind() == bmc.kind && login.address() == bmc.address && login.login() == bmc.login;
  });
}

}  // namespace

void PlanSecrets(const PoolMachine& machine, const std::vector<StackPlan>& stacks, v1::CheckPlan* check,
                 Errors* refusals) {
  const v1::Facts& facts = machine.facts->facts;
  const auto refuse = [&](std::string message, const std::string& lines) {
    refusals->push_back({absl::StatusCode::kFailedPrecondition, "plan",
                         absl::StrCat("pool, machine ", machine.name), std::move(message),
                         absl::StrCat("write in the machine's allow.yaml: ", lines)});
  };
  std::map<std::string, std::set<std::string>> programs;
  for (const StackPlan& stack : stacks) {
    for (const PlannedProcess& process : stack.processes) {
      if (process.machine != machine.name || process.attached) continue;
      const std::string& program =
          process.spec.image().empty() ? process.spec.executable() : process.spec.image();
      for (const auto& [variable, secret] : process.spec.secrets()) programs[secret].insert(program);
    }
  }
  for (const auto& [secret, wanted] : programs) {
    v1::SecretUse* use = check->add_secrets();
    use->set_secret(secret);
    std::vector<std::string> missing;
    for (const std::string& program : wanted) {
      use->add_programs(program);
      if (!Gives(facts, secret, program)) missing.push_back(program);
    }
    if (missing.empty()) continue;
    refuse(absl::StrCat("secret '", secret, "' is not given to ", absl::StrJoin(missing, ", ")),
           absl::StrCat("secrets: {", secret, ": [", absl::StrJoin(missing, ", "), "]}"));
  }
  if (!machine.spec.bmc || machine.spec.bmc->address.empty()) return;  // the BMC in the machine: no login
  const spec::Bmc& bmc = *machine.spec.bmc;
  v1::BmcLogin* login = check->add_bmc_logins();
  login->set_kind(bmc.kind);
  login->set_address(bmc.address);
  login->set_login(bmc.login);
  if (Gives(facts, bmc)) return;
  const char* quote = bmc.address.front() == '[' ? "'" : "";
  refuse(absl::StrCat("BMC login '", bmc.login, "' may not be sent to ", bmc.address, " by ", bmc.kind),
         absl::StrCat("bmc: [{address: ", quote, bmc.address, quote, ", kind: ", bmc.kind,
                      ", login: ", bmc.login, "}]"));
}

}  // namespace poolmark::controller
