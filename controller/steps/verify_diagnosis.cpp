#include "controller/steps/verify_diagnosis.h"

#include "absl/strings/str_cat.h"

namespace poolmark::controller {
namespace {

// "the store s.store-n0 does not answer on n0: …", for a store that is not well. It is asked from its own
// machine, which is the only one whose agent may; whether another machine reaches it, that machine's engines
// count.
std::string StoreState(const JobRun& run, const StackPlan& stack) {
  for (const PlannedProcess& process : stack.processes) {
    if (process.role != spec::Role::kStore || process.resets.empty()) continue;
    const v1::ResetStep& step = process.resets.front();
    auto link = run.registry->Link(process.machine);
    if (!link.ok()) return std::string(link.status().message());
    v1::ProbeRequest request;
    *request.mutable_lease() = run.Lease(process.machine);
    const bool redis = step.method() == "REDIS";
    request.set_method(redis ? "REDIS" : "GET");
    request.set_url(redis ? step.url() : process.base_url);
    if (redis) request.set_body("PING");
    request.set_timeout_ns(Nanoseconds(std::chrono::seconds(5)).count());
    auto answer = (*link)->Probe(request, run.stop);
    if (!answer.ok())
      return absl::StrCat("the store ", process.spec.id(), " could not be asked on ", process.machine, ": ",
                          std::string(answer.status().message()));
    if (answer->status() == 0)
      return absl::StrCat("the store ", process.spec.id(), " does not answer on ", process.machine, ": ",
                          answer->failure());
  }
  return "";
}

void Add(std::string* text, const std::string& more) {
  if (more.empty()) return;
  if (!text->empty()) *text += "; ";
  *text += more;
}

}  // namespace

std::string DiagnoseShared(const JobRun& run, const StackPlan& stack, const PlannedProcess& writer,
                           const PlannedProcess& reader, const stats::EngineAttribution& wrote,
                           const stats::EngineAttribution& read,
                           const std::map<std::string, double>& errors) {
  std::string text;
  Add(&text, StoreState(run, stack));
  for (const auto& [series, count] : errors)
    Add(&text,
        absl::StrCat(series, " rose by ", static_cast<int64_t>(count), ": see the logs of ", writer.spec.id(),
                     " and ", reader.spec.id(), " and the network between them and the store"));
  if (!stack.kv.hash_seed && stack.engine_kind == "vllm") {
    Add(&text,
        "kv.hash_seed is not set: engines with different PYTHONHASHSEED give the same prompt different block "
        "hashes");
  }
  if (stack.kv.chunk_tokens && *stack.kv.chunk_tokens % std::max(1, stack.kv.block_tokens) != 0) {
    Add(&text, absl::StrCat("kv.chunk_tokens ", *stack.kv.chunk_tokens, " is no multiple of kv.block_tokens ",
                            stack.kv.block_tokens, ": whole chunks can never match"));
  }
  if (!wrote.sources.has_value())
    Add(&text, absl::StrCat("the writer's counters cannot be read: ", wrote.sources.reason()));
  if (!read.sources.has_value()) {
    Add(&text, absl::StrCat("the reader's counters cannot be read: ", read.sources.reason()));
  } else if (read.sources.value().gpu > 0 && read.sources.value().remote <= 0) {
    Add(&text, "the reader had the prompt in its own cache already: requests to it may reach another engine");
  } else if (read.sources.value().prompt <= 0) {
    Add(&text, "the reader's prompt counter did not move: its metrics address may be another process's");
  } else if (read.sources.value().not_attributed > 0) {
    Add(&text,
        "the reader counted tokens from a cache without saying which: does the stack file name the tier it "
        "came from?");
  } else {
    Add(&text, absl::StrCat("the reader computed all ", static_cast<int64_t>(read.sources.value().computed),
                            " tokens again: model id, KV dtype, block size or hash seed of the two engines "
                            "may differ, or the writer did not store"));
  }
  return text;
}

std::string DiagnoseSplit(
    const JobRun&, const StackPlan& stack,
    const std::vector<std::pair<const PlannedProcess*, stats::EngineAttribution>>& decode) {
  std::string text;
  for (const auto& [process, attribution] : decode) {
    if (!attribution.sources.has_value() && attribution.transferred_tokens <= 0) {
      Add(&text, absl::StrCat(process->spec.id(), " received no tokens"));
    }
    if (attribution.recomputed_on_decode > 0) {
      Add(&text, absl::StrCat(process->spec.id(), " computed ",
                              static_cast<int64_t>(attribution.recomputed_on_decode),
                              " tokens itself: the hand-over failed and it fell back to prefill"));
    }
    for (const std::string& note : attribution.notes) Add(&text, note);
  }
  if (stack.kv.path == "rdma")
    Add(&text,
        "the stack hands KV over RDMA: see that the side channel and the RDMA devices of both ends are "
        "reachable");
  return text;
}

}  // namespace poolmark::controller
