// What earlier runs or strangers left: what our ledgers still hold, processes that carry a job's mark,
// engine-like processes and containers of others, shared memory segments and directories that engines leave
// behind. Ours fail the check; all others are named and never touched: one by one in the evidence, by program
// in what was observed.
#include <algorithm>
#include <map>
#include <set>

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

bool IsEngineImage(const std::string& image) {
  for (const char* part : {"vllm", "sglang", "lmcache", "mooncake", "tensorrt", "tritonserver", "trtllm",
                           "llama.cpp", "text-generation", "redis", "valkey", "dynamo"}) {
    if (image.find(part) != std::string::npos) return true;
  }
  return false;
}

// What is not ours, told in a line however much of it there is.
class Strangers {
 public:
  void AddProcess(const std::string& name, int pid, bool of_a_job) {
    programs_[name].push_back(pid);
    of_jobs_ += of_a_job;
    Tell(absl::StrCat("pid ", pid, " (", name, ")",
                      of_a_job ? " with the mark of a job that no ledger here names" : ""));
  }
  void AddContainer(const std::string& name, const std::string& image, const std::string& status,
                    bool of_a_job) {
    if (!containers_.insert(name).second) return;  // podman that answers as docker, too
    of_jobs_ += of_a_job;
    Tell(absl::StrCat("container ", name, " (", image, ", ", status, ")",
                      of_a_job ? " with the label of a job that no ledger here names" : ""));
  }
  void AddPath(const std::string& path) {
    paths_.push_back(path);
    Tell(path);
  }
  // What cannot be looked at.
  void Unseen(const std::string& line) { AddLine(&evidence_, line); }
  bool empty() const { return programs_.empty() && paths_.empty() && containers_.empty(); }
  const std::string& evidence() const { return evidence_; }

  // "redis-server (3: pids 5, 6, …), vllm (pid 900), /dev/shm/x; 2 belong to jobs of another
  // agent".
  std::string Summary() const {
    std::vector<std::string> items;
    for (const auto& [name, pids] : programs_) {
      items.push_back(pids.size() == 1 ? absl::StrCat(name, " (pid ", pids[0], ")")
                                       : absl::StrCat(name, " (", pids.size(), ": pids ", pids[0], ", ",
                                                      pids[1], pids.size() > 2 ? ", …)" : ")"));
    }
    std::string text = Shorten(items, 4);
    if (!containers_.empty()) {
      const std::vector<std::string> names(containers_.begin(), containers_.end());
      absl::StrAppend(&text, text.empty() ? "" : ", ", names.size() == 1 ? "container " : "containers ",
                      Shorten(names, 3));
    }
    if (!paths_.empty()) absl::StrAppend(&text, text.empty() ? "" : ", ", Shorten(paths_, 3));
    if (of_jobs_ > 0)
      absl::StrAppend(&text, "; ", of_jobs_, of_jobs_ == 1 ? " belongs" : " belong",
                      " to jobs of another agent");
    return text;
  }

 private:
  void Tell(const std::string& line) { AddLine(&evidence_, "not ours: " + line); }

  std::map<std::string, std::vector<int>> programs_;
  std::set<std::string> containers_;
  std::vector<std::string> paths_;
  size_t of_jobs_ = 0;
  std::string evidence_;
};

// Those with a job's label, stopped ones too, and running ones of engines' images. Where there is no such
// tool there is nothing; one that does not answer is said in the evidence.
void LookAtContainers(Spawner& spawner, Strangers* strangers) {
  for (const char* tool : {"docker", "podman"}) {
    for (const bool of_jobs : {true, false}) {
      Command list{{tool, "ps", "--no-trunc", "--format", "{{.Names}}\t{{.Image}}\t{{.Status}}"}, {}};
      if (of_jobs) list.argv.insert(list.argv.end(), {"--all", "--filter", "label=poolmark.run"});
      const auto output = RunCommand(spawner, list, std::chrono::seconds(5));
      if (!output.ok()) break;  // not installed
      if (!output->ok()) {
        strangers->Unseen(absl::StrCat("containers not seen: ", Describe(list, *output)));
        break;
      }
      for (std::string_view line : Lines(output->out)) {
        const size_t first = line.find('\t'), second = line.find('\t', first + 1);
        if (first == line.npos || second == line.npos) continue;
        const std::string name(line.substr(0, first)), image(line.substr(first + 1, second - first - 1));
        if (of_jobs || IsEngineImage(image))
          strangers->AddContainer(name, image, std::string(line.substr(second + 1)), of_jobs);
      }
    }
  }
}

}  // namespace

Finding CheckLeftovers(const v1::CheckPlan&, const CheckContext& context) {
  Finding finding;
  finding.expected = "nothing left of earlier jobs; strangers' engines and segments named";
  const std::string& root = context.facts.root;
  std::vector<std::string> ours;
  Strangers strangers;
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
      strangers.AddProcess(name, pid, true);
    } else if (LooksLikeEngine(command) || LooksLikeEngine(name) || RunsEngineModule(cmdline)) {
      strangers.AddProcess(name, pid, false);
    }
  }
  for (const std::string& name : Entries(root, "/dev/shm")) {
    if (StartsWithAny(name, {"lmcache", "vllm", "psm_", "nccl-", "sem.mp-", "mooncake", "sglang"}))
      strangers.AddPath("/dev/shm/" + name);
  }
  for (const std::string& name : Entries(root, "/tmp")) {
    if (StartsWithAny(name, {"vllm_dist_", "lmcache_prometheus", "lmcache_", "torchelastic_"}))
      strangers.AddPath("/tmp/" + name);
  }
  if (context.facts.spawner != nullptr) LookAtContainers(*context.facts.spawner, &strangers);
  for (const std::string& line : ours) AddLine(&finding.evidence, line);
  if (!strangers.evidence().empty()) AddLine(&finding.evidence, strangers.evidence());
  finding.observed = "none";
  if (!strangers.empty()) {
    finding.outcome = v1::OUTCOME_NOTE;
    finding.observed = absl::StrCat("not ours: ", strangers.Summary());
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
