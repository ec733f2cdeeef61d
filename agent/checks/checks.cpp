#include "agent/checks/checks.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "agent/checks/each.h"
#include "common/base/json.h"

namespace poolmark::agent {
namespace {

constexpr size_t kMaxText = 8u << 10;

struct Entry {
  const char* id;
  Finding (*run)(const v1::CheckPlan&, const CheckContext&);
  const char* source;  // what it reads: the evidence where nothing there said more
};
constexpr Entry kChecks[] = {
    {"clock", CheckClock, "chronyc -c tracking, adjtimex"},
    {"tools", CheckTools, "PATH"},
    {"executables", CheckExecutables, "the agent's allow-list"},
    {"secrets", CheckSecrets, "the agent's secrets directory and credentials"},
    {"gpu_family", CheckGpuFamily, "nvidia-smi, amd-smi, rocm-smi, /sys/bus/pci/devices"},
    {"nvlink", CheckNvlink, "nvidia-smi -q -x, nvidia-imex-ctl -N, /etc/nvidia-imex/nodes_config.cfg"},
    {"rdma_ports", CheckRdmaPorts, "/sys/class/infiniband"},
    {"mtu", CheckMtu, "/sys/class/net, the interfaces' addresses, ping -M do"},
    {"memlock", CheckMemlock, "/proc/self/limits, /proc/meminfo, memory.max"},
    {"disk_space", CheckDiskSpace, "statvfs"},
    {"ports_free", CheckPortsFree, "/proc/net/tcp, /proc/net/tcp6, bind"},
    {"public_ports", CheckPublicPorts, "/proc/net/tcp, /proc/net/tcp6, /proc/<pid>/fd"},
    {"secrets_in_ps", CheckSecretsInPs, "/proc/<pid>/cmdline"},
    {"leftovers", CheckLeftovers, "ledgers, /proc, docker ps, podman ps, /dev/shm, /tmp"},
};

v1::CheckResult ToResult(const std::string& id, const CheckContext& context, const Finding& finding,
                         Nanoseconds duration) {
  v1::CheckResult result;
  result.set_id(id);
  result.set_machine(context.machine);
  result.set_outcome(finding.outcome);
  // texts come from files and foreign tools: valid UTF-8 is what a protobuf string must hold
  result.set_expected(ValidUtf8(finding.expected));
  result.set_observed(ValidUtf8(finding.observed.substr(0, kMaxText)));
  result.set_evidence(ValidUtf8(finding.evidence.substr(0, kMaxText)));
  result.set_hint(ValidUtf8(finding.hint));
  result.set_duration_ns(duration.count());
  return result;
}

}  // namespace

const std::vector<std::string>& CheckIds() {
  static const std::vector<std::string> ids = [] {
    std::vector<std::string> all;
    for (const Entry& entry : kChecks) all.emplace_back(entry.id);
    return all;
  }();
  return ids;
}

void RunChecks(const v1::CheckPlan& plan, const std::vector<std::string>& only, const CheckContext& context,
               const std::function<void(v1::CheckResult)>& emit, std::stop_token stop) {
  for (const std::string& id : only) {
    if (std::find(CheckIds().begin(), CheckIds().end(), id) != CheckIds().end()) continue;
    Finding unknown{v1::OUTCOME_FAIL, absl::StrCat("one of ", absl::StrJoin(CheckIds(), ", ")),
                    absl::StrCat("this agent knows no check '", id, "'"), "",
                    "use the same version everywhere"};
    emit(ToResult(id, context, unknown, Nanoseconds(0)));
  }
  for (const Entry& entry : kChecks) {
    if (stop.stop_requested()) return;
    if (!only.empty() && std::find(only.begin(), only.end(), entry.id) == only.end()) continue;
    const Nanoseconds start = context.clock->Steady();
    Finding finding = entry.run(plan, context);
    if (finding.evidence.empty() && finding.outcome != v1::OUTCOME_SKIPPED)
      finding.evidence = absl::StrCat("read: ", entry.source);
    emit(ToResult(entry.id, context, finding, context.clock->Steady() - start));
  }
}

Finding Skipped(std::string why) {
  Finding finding;
  finding.outcome = v1::OUTCOME_SKIPPED;
  finding.observed = std::move(why);
  return finding;
}

void AddLine(std::string* text, const std::string& line) {
  if (text->size() > kMaxText) return;
  if (!text->empty()) *text += "\n";
  *text += line;
}

std::string Shorten(const std::vector<std::string>& items, size_t most) {
  std::string text;
  for (size_t i = 0; i < items.size() && i < most; ++i) absl::StrAppend(&text, i == 0 ? "" : ", ", items[i]);
  if (items.size() > most) absl::StrAppend(&text, " and ", items.size() - most, " more");
  return text;
}

}  // namespace poolmark::agent
