#include <algorithm>
#include <set>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "common/base/units.h"
#include "common/spec/read.h"
#include "common/spec/yaml.h"

namespace poolmark::spec {
namespace {

const std::vector<std::string> kStrategies = {"local", "offload", "shared", "split", "split-offload"};
const std::vector<std::string> kRoles = {"store", "cache", "engine", "prefill", "decode", "router"};
const std::vector<std::string> kSources = {"host", "storage", "remote"};

size_t IndexOf(const std::vector<std::string>& names, const std::string& name) {
  return static_cast<size_t>(std::find(names.begin(), names.end(), name) - names.begin());
}

void ReadKv(const Value& value, KvFormat* kv) {
  Map map(value);
  map.OneOf("path", {"tcp", "rdma"}, &kv->path);
  map.Text("compression", &kv->compression);
  map.Text("dtype", &kv->dtype);
  map.Whole("block_tokens", 1, 65536, &kv->block_tokens);
  map.Whole("chunk_tokens", 1, 1 << 20, &kv->chunk_tokens);
  map.Whole("hash_seed", 0, INT32_MAX, &kv->hash_seed);
  map.Text("serializer", &kv->serializer);
  map.Finish();
}

ReadySpec ReadReady(const Value& value) {
  ReadySpec ready;
  Map map(value);
  map.Text("http", &ready.http);
  map.Text("redis", &ready.redis);
  map.Text("tcp", &ready.tcp);
  map.Duration("within", std::chrono::milliseconds(100), std::chrono::hours(6), &ready.within);
  map.Finish();
  return ready;
}

ResetSpec ReadReset(const Value& value) {
  ResetSpec reset;
  if (value.is_text()) {
    if (value.OneOf({"restart"})) reset.restart = true;
    return reset;
  }
  Map map(value);
  map.Text("http", &reset.http);
  map.Text("redis", &reset.redis);
  map.Finish();
  if (!reset.http.empty() && !reset.redis.empty()) value.Fail("has both http and redis, one is needed");
  return reset;
}

EmptySpec ReadEmpty(const Value& value) {
  EmptySpec empty;
  if (value.is_text()) {
    if (value.OneOf({"canary"})) empty.canary = true;
    return empty;
  }
  Map map(value);
  map.Text("redis", &empty.redis);
  map.Text("series", &empty.series);
  map.Text("http", &empty.http);
  map.Text("expect", &empty.http_expect);
  map.Finish();
  return empty;
}

std::vector<ArgWord> ReadArgv(const Value& value) {
  std::vector<ArgWord> words;
  for (const Value& item : value.List()) {
    ArgWord word;
    if (item.is_text()) {
      word.text = *item.Text();
    } else {
      Map map(item);
      if (auto each = map.Need("each")) word.each = each->Text().value_or("");
      if (auto text = map.Need("value")) word.text = text->Text().value_or("");
      map.Finish();
    }
    words.push_back(std::move(word));
  }
  return words;
}

std::vector<AttachPoint> ReadAttach(const Value& value) {
  std::vector<AttachPoint> points;
  for (const Value& item : value.List()) {
    AttachPoint point;
    Map map(item);
    map.Text("machine", &point.machine);
    if (auto url = map.Need("url")) point.url = url->Text().value_or("");
    map.Text("metrics", &point.metrics);
    map.Finish();
    points.push_back(std::move(point));
  }
  return points;
}

ProcessTemplate ReadProcess(const Value& value) {
  ProcessTemplate process;
  Map map(value);
  if (auto name = map.Need("name")) {
    process.name = name->Text().value_or("");
    if (!IsName(process.name))
      name->Fail(absl::StrCat("'", process.name, "' is no name"), "use lower case letters, digits and '-'");
  }
  if (auto role = map.Need("role", absl::StrCat("one of ", absl::StrJoin(kRoles, ", ")))) {
    if (auto text = role->OneOf(kRoles)) process.role = static_cast<Role>(IndexOf(kRoles, *text));
  }
  map.OneOf("on", {"head", "each"}, &process.on);
  map.Whole("count", 1, 4096, &process.count);
  map.Text("exec", &process.exec);
  map.Text("image", &process.image);
  map.OneOf("backend", {"process", "docker", "podman"}, &process.backend);
  if (auto argv = map.Get("argv")) process.argv = ReadArgv(*argv);
  map.TextMap("env", &process.env);
  map.TextMap("secrets", &process.secrets);
  map.TextMap("files", &process.files);
  map.Texts("ports", &process.ports);
  if (auto gpus = map.Get("gpus")) {
    const std::string text = gpus->is_text() ? gpus->Text().value_or("") : "";
    if (absl::StartsWith(text, "${") && absl::EndsWith(text, "}"))
      process.gpus_param = text.substr(2, text.size() - 3);
    else if (auto count = gpus->Whole(0, 1024))
      process.gpus = static_cast<unsigned>(*count);
  }
  if (auto ready = map.Get("ready")) process.ready = ReadReady(*ready);
  if (auto metrics = map.Get("metrics")) {
    Map inner(*metrics);
    inner.Text("port", &process.metrics.port);
    if (auto dialect = inner.Need("dialect")) process.metrics.dialect = dialect->Text().value_or("");
    inner.Text("path", &process.metrics.path);
    inner.Finish();
  }
  if (auto reset = map.Get("reset")) process.reset = ReadReset(*reset);
  if (auto evict = map.Get("evict")) {
    Map inner(*evict);
    if (auto http = inner.Need("http", "a request such as POST /reset_prefix_cache"))
      process.evict = http->Text().value_or("");
    inner.Finish();
  }
  if (auto empty = map.Get("empty")) process.empty = ReadEmpty(*empty);
  if (auto disk = map.Get("disk")) {
    if (disk->is_text()) {
      process.disk = *disk->Text();
    } else {
      Map inner(*disk);
      if (auto name = inner.Need("name")) process.disk = name->Text().value_or("");
      inner.Text("path", &process.disk_path);
      inner.Finish();
    }
    if (!IsName(process.disk)) disk->Fail(absl::StrCat("'", process.disk, "' is no name for a directory"));
  }
  map.Text("compatible", &process.compatible);
  if (auto at = map.Get("at")) process.at = ReadAttach(*at);
  map.Duration("stop_grace", Nanoseconds(0), std::chrono::minutes(10), &process.stop_grace);
  map.Texts("devices", &process.devices);
  map.Texts("mounts", &process.mounts);
  map.TextMap("kv", &process.kv);
  map.Finish();

  if (!process.image.empty() && process.backend.empty()) process.backend = "docker";
  if (process.backend.empty()) process.backend = "process";
  if (!process.image.empty() && process.image.find("@sha256:") == std::string::npos) {
    value.Fail(absl::StrCat("image '", process.image, "' is not pinned"),
               "name it by digest: repository@sha256:…");
  }
  std::set<std::string> ports(process.ports.begin(), process.ports.end());
  if (ports.size() != process.ports.size()) value.Fail("names a port twice");
  for (const std::string* port : {&process.metrics.port, &process.ready.tcp}) {
    if (!port->empty() && ports.count(*port) == 0) {
      value.Fail(absl::StrCat("uses port '", *port, "', its ports are ", absl::StrJoin(process.ports, ", ")),
                 "add it to `ports`");
    }
  }
  return process;
}

void CheckStack(const Value& root, const StackSpec& stack) {
  std::set<std::string> names;
  unsigned engines = 0, prefills = 0, decodes = 0, stores = 0;
  for (const ProcessTemplate& process : stack.processes) {
    if (!names.insert(process.name).second)
      root.Fail(absl::StrCat("process '", process.name, "' stands twice"));
    engines += process.role == Role::kEngine;
    prefills += process.role == Role::kPrefill;
    decodes += process.role == Role::kDecode;
    stores += process.role == Role::kStore;
    if (stack.attach) {
      if (process.at.empty())
        root.Fail(absl::StrCat("process '", process.name,
                               "' has no `at`, and this stack is attached, not launched"));
    } else if (process.exec.empty() == process.image.empty()) {
      root.Fail(absl::StrCat("process '", process.name, "' needs either `exec` or `image`"));
    } else if (!process.at.empty()) {
      root.Fail(absl::StrCat("process '", process.name, "' has `at`, which needs launch: attach"));
    }
  }
  bool split = stack.strategy == Strategy::kSplit || stack.strategy == Strategy::kSplitOffload;
  if (split && (prefills == 0 || decodes == 0)) {
    root.Fail(absl::StrCat("strategy ", std::string(StrategyName(stack.strategy)),
                           " needs a process of role prefill and one of role decode"));
  }
  if (!split && engines == 0) root.Fail("needs a process of role engine");
  if (!split && prefills + decodes > 0) {
    root.Fail(
        absl::StrCat("roles prefill and decode belong to the strategies split and split-offload, this is ",
                     std::string(StrategyName(stack.strategy))));
  }
  bool shared_directory = std::any_of(stack.tiers.begin(), stack.tiers.end(), [](const TierSpec& tier) {
    return tier.source == TierSource::kRemote;
  });
  if (stack.strategy == Strategy::kShared && stores == 0 && !shared_directory) {
    root.Fail(
        "strategy shared needs a process of role store, or a tier of source remote (a shared directory)");
  }
  for (const TierSpec& tier : stack.tiers) {
    if (names.count(tier.owner) == 0) {
      root.Fail(absl::StrCat("tier ", std::string(TierSourceName(tier.source)), " is owned by '", tier.owner,
                             "', no such process"),
                absl::StrCat("processes: ", absl::StrJoin(names, ", ")));
    }
  }
  std::vector<std::string> entry = absl::StrSplit(stack.entry, '.');
  bool found =
      std::any_of(stack.processes.begin(), stack.processes.end(), [&](const ProcessTemplate& process) {
        return entry.size() == 2 && process.name == entry[0] &&
               (stack.attach ||
                std::find(process.ports.begin(), process.ports.end(), entry[1]) != process.ports.end());
      });
  if (!found)
    root.Fail(absl::StrCat("entry '", stack.entry, "' is no port of a process"),
              "write <process>.<port>, for example router.http");
}

}  // namespace

Result<StackSpec> ReadStack(std::string_view yaml, const std::string& where, Errors* errors) {
  size_t before = errors->size();
  StackSpec stack;
  auto root = Value::Parse(yaml, where, errors);
  if (!root) return ToStatus(*errors);
  Map map(*root);
  CheckVersion(&map);
  map.Text("description", &stack.description);
  if (auto strategy = map.Need("strategy", absl::StrCat("one of ", absl::StrJoin(kStrategies, ", ")))) {
    if (auto text = strategy->OneOf(kStrategies))
      stack.strategy = static_cast<Strategy>(IndexOf(kStrategies, *text));
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
      if (value.node().IsNull()) stack.required.push_back(name);
      stack.params[name] = value.node().IsNull() ? "" : value.Text().value_or("");
    }
  }
  if (auto kv = map.Get("kv")) ReadKv(*kv, &stack.kv);
  if (auto tiers = map.Get("tiers")) {
    for (const Value& value : tiers->List()) {
      TierSpec tier;
      Map inner(value);
      if (auto source = inner.Need("source")) {
        if (auto text = source->OneOf(kSources))
          tier.source = static_cast<TierSource>(IndexOf(kSources, *text));
      }
      if (auto size = inner.Need("size", "a size such as 64GiB, or auto")) {
        tier.size = size->Text().value_or("");
        if (tier.size.find("${") == std::string::npos && tier.size != "auto" && !ParseBytes(tier.size).ok()) {
          size->Fail(absl::StrCat("'", tier.size, "' is no size"),
                     "write 64GiB, auto or a parameter such as ${host}");
        }
      }
      if (auto owner = inner.Need("owner")) tier.owner = owner->Text().value_or("");
      inner.Finish();
      stack.tiers.push_back(std::move(tier));
    }
  }
  if (auto processes = map.Need("processes")) {
    for (const Value& value : processes->List()) stack.processes.push_back(ReadProcess(value));
  }
  if (auto entry = map.Need("entry", "the port that requests go to, for example router.http"))
    stack.entry = entry->Text().value_or("");
  map.OneOf("relay", {"none", "store"}, &stack.relay);
  map.Finish();
  if (errors->size() == before) CheckStack(*root, stack);
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
