// Multi-node NVLink on GB200 and GB300: every GPU has joined one fabric, and the IMEX domain that exports
// memory across machines is up and knows every machine of the pool.
#include <algorithm>
#include <set>

#include "absl/strings/str_cat.h"
#include "agent/checks/each.h"
#include "agent/checks/fabric.h"
#include "agent/facts/text.h"
#include "common/base/files.h"

namespace poolmark::agent {
namespace {

// Problems of the IMEX domain, a line each.
std::vector<std::string> ImexProblems(const v1::CheckPlan& plan, const CheckContext& context,
                                      std::string* evidence) {
  std::vector<std::string> problems;
  const Command command{{"nvidia-imex-ctl", "-N"}, {}};
  const auto output = RunCommand(*context.facts.spawner, command, std::chrono::seconds(20));
  if (!output.ok()) {
    problems.push_back(absl::StrCat("nvidia-imex-ctl: ", ErrorOf(output.status()).message));
  } else if (!output->ok()) {
    problems.push_back(Describe(command, *output));
  } else {
    const ImexDomain domain = ParseImex(output->out);
    AddLine(evidence, output->out.substr(0, 2000));
    if (!domain.up) problems.push_back("the IMEX domain is not UP");
    if (!domain.others.empty())
      problems.push_back(absl::StrCat("IMEX nodes not ready: ", Shorten(domain.others)));
  }
  const std::string config =
      ReadTrimmed(context.facts.root, "/etc/nvidia-imex/nodes_config.cfg").value_or("");
  std::set<std::string> listed;
  for (std::string_view line : Lines(config)) listed.insert(std::string(Trim(line)));
  std::vector<std::string> wanted(plan.peers().begin(), plan.peers().end());
  wanted.insert(wanted.end(), plan.net_addresses().begin(), plan.net_addresses().end());
  std::vector<std::string> absent;
  for (const std::string& address : wanted) {
    if (listed.count(address) == 0) absent.push_back(address);
  }
  if (!absent.empty()) {
    problems.push_back(absl::StrCat("not in /etc/nvidia-imex/nodes_config.cfg: ", Shorten(absent)));
  }
  if (Entries(context.facts.root, "/dev/nvidia-caps-imex-channels").empty()) {
    problems.push_back("no IMEX channel device in /dev/nvidia-caps-imex-channels");
  }
  return problems;
}

}  // namespace

Finding CheckNvlink(const v1::CheckPlan& plan, const CheckContext& context) {
  if (!plan.multi_node_nvlink()) return Skipped("only for GB200 and GB300 machines");
  Finding finding;
  finding.expected = "every GPU has joined one NVLink fabric, and the IMEX domain of the pool is up";
  finding.hint = "start nvidia-fabricmanager and nvidia-imex with every machine of the pool in its node list";
  if (context.facts.spawner == nullptr) {
    finding.outcome = v1::OUTCOME_NOT_MEASURED;
    finding.observed = "no vendor tools on this machine";
    return finding;
  }
  const Command command{{"nvidia-smi", "-q", "-x"}, {}, 16u << 20};
  const auto output = RunCommand(*context.facts.spawner, command, std::chrono::seconds(30));
  if (!output.ok() || !output->ok()) {
    finding.outcome = v1::OUTCOME_FAIL;
    finding.observed = output.ok() ? Describe(command, *output) : ErrorOf(output.status()).message;
    return finding;
  }
  std::vector<std::string> problems;
  std::set<std::string> fabrics;
  const auto gpus = ParseFabric(output->out);
  for (const FabricGpu& gpu : gpus) {
    AddLine(&finding.evidence, absl::StrCat(gpu.gpu, ": fabric ", gpu.state, ", ", gpu.status, ", cluster ",
                                            gpu.cluster, ", clique ", gpu.clique));
    if (!gpu.joined()) {
      problems.push_back(absl::StrCat("GPU ", gpu.gpu, " has not joined a fabric (state '", gpu.state,
                                      "', status '", gpu.status, "')"));
    }
    fabrics.insert(absl::StrCat(gpu.cluster, "/", gpu.clique));
  }
  if (gpus.empty()) problems.push_back("nvidia-smi lists no GPU");
  if (fabrics.size() > 1)
    problems.push_back("the GPUs of this machine belong to different fabrics or cliques");
  for (std::string& problem : ImexProblems(plan, context, &finding.evidence))
    problems.push_back(std::move(problem));
  if (!problems.empty()) {
    finding.outcome = v1::OUTCOME_FAIL;
    finding.observed = Shorten(problems);
    return finding;
  }
  // the controller compares this text across the machines
  finding.observed =
      absl::StrCat(gpus.size(), " GPUs in cluster/clique ", *fabrics.begin(), ", IMEX domain up");
  finding.hint.clear();
  return finding;
}

}  // namespace poolmark::agent
