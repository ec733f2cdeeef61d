// No secret shows in a process list: every command line of the machine, whoever runs it. What is found is
// named by process, argument and kind; the value is never repeated.
#include "absl/strings/str_cat.h"
#include "agent/checks/each.h"
#include "agent/checks/secret_scan.h"
#include "agent/facts/sockets.h"
#include "agent/facts/text.h"
#include "common/base/files.h"

namespace poolmark::agent {

Finding CheckSecretsInPs(const v1::CheckPlan&, const CheckContext& context) {
  Finding finding;
  finding.expected = "no secret in the command line of any process";
  const auto known = context.all_secret_values ? context.all_secret_values() : std::vector<std::string>{};
  std::vector<std::string> found;
  int looked_at = 0;
  for (const int pid : ReadPids(context.facts.root)) {
    const std::string proc = absl::StrCat("/proc/", pid);
    const auto cmdline = ReadPseudoFile(Below(context.facts.root, proc + "/cmdline"), 4u << 20);
    if (!cmdline.ok() || cmdline->empty()) continue;  // gone, or a kernel thread
    ++looked_at;
    for (const SecretFinding& secret : ScanCommandLine(SplitCommandLine(*cmdline), known)) {
      const std::string name = ReadTrimmed(context.facts.root, proc + "/comm").value_or("?");
      found.push_back(absl::StrCat("pid ", pid, " (", name, ") argument ", secret.argument, ": ", secret.kind,
                                   ", ", secret.length, " characters"));
      AddLine(&finding.evidence, found.back());
    }
  }
  finding.observed = absl::StrCat("none in ", looked_at, " processes");
  if (looked_at == 0) {
    finding.outcome = v1::OUTCOME_NOT_MEASURED;
    finding.observed = "no process could be looked at";
    finding.hint = "is /proc mounted with hidepid? let the agent's user see it";
  } else if (!found.empty()) {
    finding.outcome = v1::OUTCOME_FAIL;
    finding.observed = Shorten(found);
    finding.hint =
        "pass secrets by file or environment (the stack's 'secrets'), stop that process and replace the "
        "secret";
  }
  return finding;
}

}  // namespace poolmark::agent
