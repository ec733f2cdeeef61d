// What earlier runs or strangers left: what our ledgers still hold, processes that carry a job's mark,
// engine-like processes of others, shared memory segments and directories that engines leave behind. Ours
// fail the check; all others are named and never touched.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "agent/checks/each.h"
#include "agent/facts/sockets.h"
#include "agent/facts/text.h"
#include "common/base/files.h"

namespace poolmark::agent {
namespace {

bool StartsWithAny(const std::string& text, std::initializer_list<const char*> prefixes) {
  return std::any_of(prefixes.begin(), prefixes.end(),
                     [&](const char* prefix) { return text.rfind(prefix, 0) == 0; });
}

// Programs that hold GPU memory, host memory or ports of a pool.
bool LooksLikeEngine(const std::string& command) {
  const std::string name = command.substr(command.find_last_of('/') + 1);
  return StartsWithAny(name,
                       {"vllm", "VLLM::", "sglang", "lmcache", "mooncake_master", "llama-server", "trtllm",
                        "poolmark-sim", "redis-server", "valkey-server", "iperf3", "ib_write_"});
}

// The word "vllm" of "python3 -m vllm.entrypoints..." counts too.
bool RunsEngineModule(const std::string& cmdline) {
  for (const char* module : {"vllm.entrypoints", "sglang.launch_server", "lmcache.", "tensorrt_llm"}) {
    if (cmdline.find(module) != std::string::npos) return true;
  }
  return false;
}

}  // namespace

Finding CheckLeftovers(const v1::CheckPlan&, const CheckContext& context) {
  Finding finding;
  finding.expected = "nothing left of earlier jobs; strangers' engines and segments named";
  const std::string& root = context.facts.root;
  std::vector<std::string> ours, strangers;
  if (context.ledger_leftovers) ours = context.ledger_leftovers();
  const std::set<int> job = context.job_pids ? context.job_pids() : std::set<int>{};
  for (const int pid : ReadPids(root)) {
    if (job.count(pid) != 0) continue;
    const std::string proc = absl::StrCat("/proc/", pid);
    const std::string cmdline = ReadTrimmed(root, proc + "/cmdline").value_or("");
    if (cmdline.empty()) continue;
    const std::string command = cmdline.substr(0, cmdline.find('\0'));
    const std::string name = ReadTrimmed(root, proc + "/comm").value_or("?");
    // NUL-separated words; only processes of our own user can be read, which ours are
    const auto environment = ReadPseudoFile(Below(root, proc + "/environ"), 4u << 20);
    const std::string words = environment.ok() ? std::string(1, '\0') + *environment : "";
    if (words.find(std::string("\0POOLMARK_RUN=", 14)) != std::string::npos) {
      // another agent's, on a machine that has several, or one whose ledger was lost
      strangers.push_back(
          absl::StrCat("pid ", pid, " (", name, ") with the mark of a job that no ledger here names"));
    } else if (LooksLikeEngine(command) || LooksLikeEngine(name) || RunsEngineModule(cmdline)) {
      strangers.push_back(absl::StrCat("pid ", pid, " (", name, ")"));
    }
  }
  for (const std::string& name : Entries(root, "/dev/shm")) {
    if (StartsWithAny(name, {"lmcache", "vllm", "psm_", "nccl-", "sem.mp-", "mooncake", "sglang"}))
      strangers.push_back("/dev/shm/" + name);
  }
  for (const std::string& name : Entries(root, "/tmp")) {
    if (StartsWithAny(name, {"vllm_dist_", "lmcache_prometheus", "lmcache_", "torchelastic_"}))
      strangers.push_back("/tmp/" + name);
  }
  for (const std::string& line : ours) AddLine(&finding.evidence, line);
  for (const std::string& line : strangers) AddLine(&finding.evidence, "not ours: " + line);
  finding.observed = "none";
  if (!strangers.empty()) {
    finding.outcome = v1::OUTCOME_NOTE;
    finding.observed = absl::StrCat("not ours: ", Shorten(strangers, 8));
    finding.hint = "they may use memory, GPUs and the network during the measurement";
  }
  if (!ours.empty()) {
    finding.outcome = v1::OUTCOME_FAIL;
    finding.observed = Shorten(ours, 8);
    finding.hint = absl::StrCat("finish the tear-down: poolmark machine clear ", context.machine);
  }
  return finding;
}

}  // namespace poolmark::agent
