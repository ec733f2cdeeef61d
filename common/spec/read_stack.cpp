// A stack file: its own keys, and what must fit between its processes.
#include <algorithm>
#include <set>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "common/base/units.h"
#include "common/spec/read.h"
#include "common/spec/stack_parts.h"

namespace poolmark::spec {
namespace {

const std::vector<std::string> kStrategies = {"local", "offload", "shared", "split", "split-offload"};
// Types that engines keep KV in, as their options name them (vLLM, SGLang, TensorRT-LLM, llama.cpp).
const std::vector<std::string> kDtypes = {
    "auto",  "bf16",  "bfloat16", "fp16",     "float16", "f16",  "half", "fp32",  "float32",
    "f32",   "fp8",   "fp8_e4m3", "fp8_e5m2", "fp8_inc", "int8", "int4", "fp4",   "fp4_e2m1",
    "nvfp4", "mxfp4", "q8_0",     "q5_0",     "q5_1",    "q4_0", "q4_1", "iq4_nl"};
const std::vector<std::string> kSources = {"host", "storage", "remote"};

size_t IndexOf(const std::vector<std::string>& names, const std::string& name) {
  return static_cast<size_t>(std::find(names.begin(), names.end(), name) - names.begin());
}

void ReadKv(const Value& value, KvFormat* kv) {
  Map map(value);
  map.OneOf("path", {"tcp", "rdma"}, &kv->path);
  if (auto compression = map.Get("compression")) {
    kv->compression = compression->Text().value_or("none");
    // Any name of a method; what is meant to be none must not be one.
    const std::string& name = kv->compression;
    const bool off = name == "off" || name == "no" || name == "false" || name == "null";
    const std::string near = name == "none" ? ""
                             : off          ? "none"
                                            : Nearest(absl::AsciiStrToLower(name), {"none"});
    if (!near.empty())
      compression->Fail(absl::StrCat("is '", name, "'"), absl::StrCat("did you mean '", near, "'?"));
    else if (!IsName(name) || name.size() < 2)
      compression->Fail(absl::StrCat("'", name, "' is no name of a method"),
                        "write none, or what compresses, for example cachegen");
  }
  map.OneOf("dtype", kDtypes, &kv->dtype);
  map.Whole("block_tokens", 1, 65536, &kv->block_tokens);
  map.Whole("chunk_tokens", 1, 1 << 20, &kv->chunk_tokens);
  map.Whole("hash_seed", 0, INT32_MAX, &kv->hash_seed);
  map.Text("serializer", &kv->serializer);
  map.Finish();
}

// Which roles a strategy has.
void CheckStrategy(const Value& strategy, const StackSpec& stack) {
  unsigned engines = 0, prefills = 0, decodes = 0, stores = 0;
  for (const ProcessTemplate& process : stack.processes) {
    engines += process.role == Role::kEngine;
    prefills += process.role == Role::kPrefill;
    decodes += process.role == Role::kDecode;
    stores += process.role == Role::kStore;
  }
  const std::string name(StrategyName(stack.strategy));
  const bool split = stack.strategy == Strategy::kSplit || stack.strategy == Strategy::kSplitOffload;
  if (split && (prefills == 0 || decodes == 0))
    strategy.Fail(absl::StrCat(name, " needs a process of role prefill and one of role decode"));
  if (!split && engines == 0) strategy.Fail(absl::StrCat(name, " needs a process of role engine"));
  if (!split && prefills + decodes > 0) {
    strategy.Fail(absl::StrCat(
        "roles prefill and decode belong to the strategies split and split-offload, this is ", name));
  }
  const bool shared_directory = std::any_of(stack.tiers.begin(), stack.tiers.end(), [](const TierSpec& tier) {
    return tier.source == TierSource::kRemote;
  });
  if (stack.strategy == Strategy::kShared && stores == 0 && !shared_directory) {
    strategy.Fail("shared needs a process of role store, or a tier of source remote (a shared directory)");
  }
}

// What runs a process, or where it runs already.
void CheckPrograms(const StackSpec& stack, const std::vector<ProcessParts>& parts) {
  std::set<std::string> names;
  for (const ProcessParts& part : parts) {
    const ProcessTemplate& process = part.process;
    if (!part.value.is_map()) continue;
    if (!process.name.empty() && !names.insert(process.name).second)
      part.value.Fail(absl::StrCat("process '", process.name, "' stands twice"),
                      "give each a name of its own");
    const auto& dialect = process.metrics.dialect;
    if (stack.attach) {
      if (process.at.empty())
        part.value.Fail(absl::StrCat("process '", process.name,
                                     "' has no `at`, and this stack is attached, not launched"));
    } else if (process.exec.empty() == process.image.empty()) {
      part.value.Fail(absl::StrCat("process '", process.name, "' needs either `exec` or `image`"));
    } else if (!process.at.empty()) {
      part.value.Fail(absl::StrCat("process '", process.name, "' has `at`, which needs launch: attach"));
    } else if (!dialect.empty() && dialect != "redis" && process.metrics.port.empty()) {
      part.value.Fail(absl::StrCat("process '", process.name, "' has metrics of dialect ", dialect,
                                   " and no port to read them from"),
                      "add metrics.port");
    }
  }
}

void CheckEntry(const Value& value, const StackSpec& stack) {
  const std::vector<std::string> entry = absl::StrSplit(stack.entry, '.');
  const bool found =
      std::any_of(stack.processes.begin(), stack.processes.end(), [&](const ProcessTemplate& process) {
        return entry.size() == 2 && process.name == entry[0] &&
               (stack.attach ||
                std::find(process.ports.begin(), process.ports.end(), entry[1]) != process.ports.end());
      });
  if (!found)
    value.Fail(absl::StrCat("'", stack.entry, "' is no port of a process"),
               "write <process>.<port>, for example router.http");
}

struct TierParts {
  TierSpec tier;
  std::optional<Value> size, owner;
};

TierParts ReadTier(const Value& value) {
  TierParts parts;
  TierSpec& tier = parts.tier;
  Map map(value);
  if (auto source = map.Need("source")) {
    if (auto text = source->OneOf(kSources)) tier.source = static_cast<TierSource>(IndexOf(kSources, *text));
  }
  parts.size = map.Need("size", "a size such as 64GiB, or auto");
  if (parts.size) {
    tier.size = parts.size->Text().value_or("");
    if (!absl::StrContains(tier.size, "${") && tier.size != "auto" && !ParseBytes(tier.size).ok())
      parts.size->Fail(absl::StrCat("'", tier.size, "' is no size"),
                       "write 64GiB, auto or a parameter such as ${host}");
  }
  parts.owner = map.Need("owner");
  if (parts.owner) tier.owner = parts.owner->Text().value_or("");
  map.Finish();
  return parts;
}

// Each tier has a process that holds it, which fills the text of its size.
void CheckOwners(const std::vector<TierParts>& tiers, std::vector<ProcessParts>* processes) {
  for (const TierParts& tier : tiers) {
    if (!tier.owner) continue;
    std::vector<std::string> names;
    bool known = false;
    for (ProcessParts& process : *processes) {
      names.push_back(process.process.name);
      if (names.back() != tier.tier.owner) continue;
      known = true;
      if (tier.size) process.texts.push_back({*tier.size, tier.tier.size, ""});
    }
    if (!known)
      tier.owner->Fail(absl::StrCat("no process is called '", tier.tier.owner, "'"),
                       absl::StrCat("processes: ", absl::StrJoin(names, ", ")));
  }
}

}  // namespace

Result<StackSpec> ReadStack(std::string_view yaml, const std::string& where, Errors* errors,
                            const Names& names) {
  const size_t before = errors->size();
  StackSpec stack;
  auto root = Value::Parse(yaml, where, errors);
  if (!root) return ToStatus(*errors);
  Map map(*root);
  CheckVersion(&map);
  map.Text("description", &stack.description);
  bool roles_known = true;  // and the strategy
  auto strategy = map.Need("strategy", absl::StrCat("one of ", absl::StrJoin(kStrategies, ", ")));
  if (auto text = strategy ? strategy->OneOf(kStrategies) : std::nullopt) {
    stack.strategy = static_cast<Strategy>(IndexOf(kStrategies, *text));
  } else {
    roles_known = false;
  }
  if (auto vendor = map.Get("vendor")) {
    stack.vendor = vendor->Texts();
    for (const std::string& name : stack.vendor) {
      if (name != "nvidia" && name != "amd")
        vendor->Fail(absl::StrCat("'", name, "' is no GPU vendor"), "nvidia and amd are");
    }
  }
  map.OneOf("engine", {"vllm", "sglang", "trtllm", "llama.cpp", "sim"}, &stack.engine_kind);
  std::string launch = "launch", reset = "no";
  map.OneOf("launch", {"launch", "attach"}, &launch);
  stack.attach = launch == "attach";
  map.OneOf("reset", {"allow", "no"}, &reset);
  stack.reset_allowed = !stack.attach || reset == "allow";
  if (auto params = map.Get("params")) {
    for (const auto& [name, value] : params->Members()) {
      CheckParamName(value, name);
      if (value.node().IsNull()) stack.required.push_back(name);
      stack.params[name] = value.node().IsNull() ? "" : value.Text().value_or("");
      if (const std::string wrong = ParamError(stack.params[name]); !wrong.empty())
        value.Fail(wrong, "write the value, or name the other parameter where this one stands");
    }
  }
  if (auto kv = map.Get("kv")) ReadKv(*kv, &stack.kv);
  std::vector<TierParts> tiers;
  if (auto list = map.Get("tiers")) {
    for (const Value& value : list->List()) {
      tiers.push_back(ReadTier(value));
      stack.tiers.push_back(tiers.back().tier);
    }
  }
  std::vector<ProcessParts> parts;
  auto processes = map.Need("processes");
  if (processes) {
    for (const Value& value : processes->List()) {
      bool ok = false;
      parts.push_back(ReadProcess(value, names, &ok));
      stack.processes.push_back(parts.back().process);
      roles_known = roles_known && ok;
    }
  }
  auto entry = map.Need("entry", "the port that requests go to, for example router.http");
  if (entry) stack.entry = entry->Text().value_or("");
  map.OneOf("relay", {"none", "store"}, &stack.relay);
  map.Finish();

  if (roles_known && processes && processes->is_list()) CheckStrategy(*strategy, stack);
  CheckPrograms(stack, parts);
  if (processes) CheckOwners(tiers, &parts);
  if (entry && processes) CheckEntry(*entry, stack);
  if (!stack.attach) CheckReferences(stack, parts);
  if (errors->size() > before) return ToStatus(*errors);
  if (stack.engine_kind.empty()) {
    for (const ProcessTemplate& process : stack.processes) {
      const std::string& dialect = process.metrics.dialect;
      if (process.role == Role::kRouter || process.role == Role::kStore || process.role == Role::kCache)
        continue;
      stack.engine_kind = dialect == "llama-cpp" ? "llama.cpp" : dialect;
    }
  }
  // Whatever kind it calls itself; what only shows when it runs, Verify and the samples find.
  stack.simulated = stack.engine_kind == "sim" ||
                    std::any_of(stack.processes.begin(), stack.processes.end(), [](const auto& process) {
                      return process.exec.substr(process.exec.rfind('/') + 1) == "poolmark-sim";
                    });
  return stack;
}

}  // namespace poolmark::spec
