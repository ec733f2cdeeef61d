// Tools installed, executables permitted, secrets known: what the launch would otherwise trip over.
#include <map>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "agent/checks/each.h"
#include "agent/facts/tools.h"

namespace poolmark::agent {
namespace {

std::string PackageHint(const std::vector<std::string>& tools) {
  static const std::map<std::string, std::string> packages = {
      {"ib_write_bw", "perftest"},     {"ib_write_lat", "perftest"}, {"ibv_devinfo", "ibverbs-utils"},
      {"chronyc", "chrony"},           {"ping", "iputils-ping"},     {"perf", "linux-perf"},
      {"nvidia-smi", "nvidia-driver"}, {"redis-cli", "redis-tools"}};
  std::string names;
  for (const std::string& tool : tools) {
    const auto package = packages.find(tool);
    absl::StrAppend(&names, names.empty() ? "" : " ", package == packages.end() ? tool : package->second);
  }
  return absl::StrCat("install it on this machine (Debian and Ubuntu: apt install ", names, ")");
}

}  // namespace

Finding CheckTools(const v1::CheckPlan& plan, const CheckContext& context) {
  if (plan.tools().empty()) return Skipped("the plan needs no tools here");
  Finding finding;
  std::vector<std::string> wanted(plan.tools().begin(), plan.tools().end()), missing, found;
  finding.expected = absl::StrCat("installed: ", Shorten(wanted, 20));
  for (const std::string& name : wanted) {
    const v1::Tool tool = ReadTool(name, context.facts);
    if (tool.path().empty()) {
      missing.push_back(name);
      continue;
    }
    found.push_back(absl::StrCat(name, " ", tool.version().empty() ? "(version unknown)" : tool.version()));
    AddLine(&finding.evidence, absl::StrCat(tool.path(), " sha256 ", tool.sha256(),
                                            tool.note().empty() ? "" : "; ", tool.note()));
  }
  finding.observed = Shorten(found, 20);
  if (missing.empty()) return finding;
  finding.outcome = v1::OUTCOME_FAIL;
  finding.observed =
      absl::StrCat("missing: ", Shorten(missing, 20), found.empty() ? "" : "; found: ", Shorten(found, 20));
  finding.hint = PackageHint(missing);
  return finding;
}

Finding CheckExecutables(const v1::CheckPlan& plan, const CheckContext& context) {
  if (plan.executables().empty()) return Skipped("the plan starts no program here");
  Finding finding;
  finding.expected = "every program of the plan is installed and permitted on this machine";
  std::vector<std::string> good, bad;
  for (const std::string& name : plan.executables()) {
    if (context.executable_allowed) {
      const Status status = context.executable_allowed(name);
      if (status.ok()) {
        good.push_back(name);
        continue;
      }
      bad.push_back(name);
      const Error error = ErrorOf(status);
      AddLine(&finding.evidence, absl::StrCat(name, ": ", error.message));
      if (finding.hint.empty()) finding.hint = error.hint;
    } else if (FindExecutable(name, context.facts.root)) {
      good.push_back(name);
    } else {
      bad.push_back(name);
      AddLine(&finding.evidence, absl::StrCat(name, ": not found in PATH"));
      finding.hint = "install it on this machine";
    }
  }
  finding.observed = absl::StrCat("permitted: ", good.empty() ? "none" : Shorten(good, 20));
  if (!bad.empty()) {
    finding.outcome = v1::OUTCOME_FAIL;
    finding.observed = absl::StrCat("refused or missing: ", Shorten(bad, 20));
  }
  return finding;
}

Finding CheckSecrets(const v1::CheckPlan& plan, const CheckContext& context) {
  if (plan.secrets().empty() && plan.bmc_logins().empty()) return Skipped("the plan needs no secrets here");
  Finding finding;
  finding.expected = "every secret that the plan names is on this machine, and given to who is to have it";
  std::vector<std::string> good, bad;
  std::set<std::string> hints;
  // What is wrong with one secret goes together.
  const auto judge = [&](const std::string& name, const std::vector<Status>& looks) {
    bool all = true;
    for (const Status& look : looks) {
      if (look.ok()) continue;
      all = false;
      const Error error = ErrorOf(look);
      AddLine(&finding.evidence, absl::StrCat(name, ": ", error.message));
      hints.insert(error.hint.empty()
                       ? "put the value in the agent's secrets directory, readable by root only"
                       : absl::StrCat(error.where, ": ", error.hint));
    }
    (all ? good : bad).push_back(name);
  };
  const auto value_of = [&](const std::string& name) {
    return context.secret ? context.secret(name)
                          : Result<std::string>(NotFound("secret", "this agent has no secrets"));
  };
  for (const v1::SecretUse& use : plan.secrets()) {
    std::vector<Status> looks = {value_of(use.secret()).status()};
    for (const std::string& program : use.programs()) {
      if (context.secret_given) looks.push_back(context.secret_given(use.secret(), program));
    }
    judge(use.secret(), looks);
  }
  for (const v1::BmcLogin& bmc : plan.bmc_logins()) {
    std::vector<Status> looks;
    if (context.bmc_given) looks.push_back(context.bmc_given(bmc));
    const auto login = value_of(bmc.login());
    looks.push_back(login.status());
    if (login.ok() && (login->find(':') == std::string::npos || login->front() == ':'))
      looks.push_back(
          Precondition("secret", "it is no login of a BMC: it has no ':'", "write user:password"));
    judge(bmc.login(), looks);
  }
  finding.observed = absl::StrCat("here and given: ", good.empty() ? "none" : Shorten(good, 20));
  if (bad.empty()) return finding;
  finding.outcome = v1::OUTCOME_FAIL;
  finding.observed = absl::StrCat("missing or not given: ", Shorten(bad, 20));
  finding.hint = absl::StrJoin(hints, "; ");
  return finding;
}

}  // namespace poolmark::agent
