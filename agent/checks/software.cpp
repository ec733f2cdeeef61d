// Tools installed, executables permitted, secrets known: what the launch would otherwise trip over.
#include <map>

#include "absl/strings/str_cat.h"
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
    AddLine(&finding.evidence, absl::StrCat(tool.path(), " sha256 ", tool.sha256()));
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
  if (plan.secrets().empty()) return Skipped("the plan needs no secrets here");
  Finding finding;
  finding.expected = "every secret that the plan names is known on this machine";
  std::vector<std::string> good, bad;
  for (const std::string& name : plan.secrets()) {
    const auto value = context.secret ? context.secret(name) : NotFound(name, "this agent has no secrets");
    if (value.ok() && !value->empty()) {
      good.push_back(name);
      continue;
    }
    bad.push_back(name);
    AddLine(&finding.evidence,
            absl::StrCat(name, ": ", value.ok() ? "it is empty" : ErrorOf(value.status()).message));
    if (!value.ok() && finding.hint.empty()) finding.hint = ErrorOf(value.status()).hint;
  }
  finding.observed = absl::StrCat("known: ", Shorten(good, 20));
  if (!bad.empty()) {
    finding.outcome = v1::OUTCOME_FAIL;
    finding.observed = absl::StrCat("unknown: ", Shorten(bad, 20));
    if (finding.hint.empty())
      finding.hint = "put the value in the agent's secrets directory, readable by root only";
  }
  return finding;
}

}  // namespace poolmark::agent
