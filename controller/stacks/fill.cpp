#include "controller/stacks/fill.h"

#include <algorithm>
#include <numeric>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "common/base/units.h"

namespace poolmark::controller {
namespace {

std::string AddressOf(const Instance& instance) {
  return instance.address.empty() ? instance.machine->address : instance.address;
}

// `other` as a process on `machine` reaches it: a relayed store by the link's end there.
Instance SeenFrom(const Instance& other, const PoolMachine* machine) {
  Instance seen = other;
  if (machine == nullptr || other.relayed.empty() || machine == other.machine) return seen;
  if (auto ends = other.relayed.find(machine->name); ends != other.relayed.end()) seen.ports = ends->second;
  return seen;
}

std::string HostPort(const Instance& instance, uint32_t port) {
  const std::string address = AddressOf(instance);
  return absl::StrContains(address, ':') ? absl::StrCat("[", address, "]:", port)
                                         : absl::StrCat(address, ":", port);
}

// A field that belongs to an instance: port.X, url.X, hostport.X, address, machine.
Result<std::string> FieldOf(const Instance& instance, const std::vector<std::string>& parts) {
  if (parts.size() == 1 && parts[0] == "address") return AddressOf(instance);
  if (parts.size() == 1 && parts[0] == "machine") return instance.machine->name;
  if (parts.size() == 2) {
    if (instance.attached != nullptr && parts[0] == "url") return instance.attached->url;
    auto port = instance.ports.find(parts[1]);
    if (port == instance.ports.end()) {
      return NotFound("",
                      absl::StrCat("process '", instance.process->name, "' has no port '", parts[1], "'"));
    }
    if (parts[0] == "port") return absl::StrCat(port->second);
    if (parts[0] == "hostport") return HostPort(instance, port->second);
    if (parts[0] == "url") return UrlOf(instance, parts[1]);
  }
  return NotFound("", absl::StrCat("'", absl::StrJoin(parts, "."), "' is no field of a process"));
}

// Instances of a template, or of a role when no template has that name.
std::vector<const Instance*> Named(const FillContext& context, const std::string& name) {
  std::vector<const Instance*> found;
  for (const Instance& instance : *context.instances) {
    if (instance.process->name == name) found.push_back(&instance);
  }
  if (!found.empty()) return found;
  for (const Instance& instance : *context.instances) {
    if (spec::RoleName(instance.process->role) == name) found.push_back(&instance);
  }
  return found;
}

Result<std::string> TierSize(const FillContext& context, const Instance& instance, const std::string& unit,
                             const std::string& source) {
  auto of_instance = context.tier_bytes.find(instance.id);
  if (of_instance == context.tier_bytes.end() || of_instance->second.count(source) == 0) {
    return NotFound("",
                    absl::StrCat("process '", instance.process->name, "' owns no tier of source ", source));
  }
  uint64_t bytes = of_instance->second.at(source);
  if (unit == "gib") return absl::StrCat(bytes >> 30);
  if (unit == "mib") return absl::StrCat(bytes >> 20);
  return absl::StrCat(bytes);
}

Result<std::string> KvField(const spec::KvFormat& kv, const std::string& field) {
  if (field == "block_tokens") return absl::StrCat(kv.block_tokens);
  if (field == "chunk_tokens" && kv.chunk_tokens) return absl::StrCat(*kv.chunk_tokens);
  if (field == "hash_seed") return absl::StrCat(kv.hash_seed.value_or(0));
  if (field == "dtype") return kv.dtype;
  return NotFound("", absl::StrCat("'kv.", field, "' is not set in this stack"));
}

// As the process counts them: a container that is given some of the machine's NVIDIA GPUs has no others, and
// calls them 0, 1, ... With AMD it has the whole of /dev/dri.
std::string GpuIndexes(const Instance& instance) {
  if (instance.process->image.empty() || instance.gpus.empty() || instance.machine == nullptr)
    return absl::StrJoin(instance.gpus, ",");
  const auto& all = instance.machine->facts->facts.gpus();
  if (!all.empty() && all.Get(0).vendor() == "amd") return absl::StrJoin(instance.gpus, ",");
  std::vector<uint32_t> numbers(instance.gpus.size());
  std::iota(numbers.begin(), numbers.end(), 0);
  return absl::StrJoin(numbers, ",");
}

Result<std::string> Resolve(const FillContext& context, const Instance& instance, const std::string& name) {
  if (name == "index") return absl::StrCat(instance.index);
  if (name == "count") return absl::StrCat(instance.count);
  if (name == "job") return context.job_id;
  if (name == "stack") return context.stack->name;
  if (name == "run") return absl::StrCat("poolmark-", context.job_id, "-", context.stack->name);
  if (name == "work") return instance.machine->job_dir;
  if (name == "gpus") return absl::StrCat(instance.gpus.size());
  if (name == "gpu_indexes") return GpuIndexes(instance);
  auto param = context.stack->params.find(name);
  if (param != context.stack->params.end()) return param->second;

  std::vector<std::string> parts = absl::StrSplit(name, '.');
  if (parts[0] == "kv" && parts.size() == 2) return KvField(context.stack->kv, parts[1]);
  if (parts.size() == 2 && (parts[0] == "bytes" || parts[0] == "gib" || parts[0] == "mib")) {
    return TierSize(context, instance, parts[0], parts[1]);
  }
  if (parts.size() == 2 && parts[0] == "dir") {
    if (parts[1] != instance.process->disk)
      return NotFound(
          "", absl::StrCat("process '", instance.process->name, "' has no directory '", parts[1], "'"));
    return DirectoryOf(context, instance);
  }
  if (parts[0] == "list" && parts.size() >= 3) {
    std::vector<std::string> values;
    for (const Instance* other : Named(context, parts[1])) {
      POOLMARK_ASSIGN_OR_RETURN(
          std::string value, FieldOf(SeenFrom(*other, instance.machine), {parts.begin() + 2, parts.end()}));
      values.push_back(std::move(value));
    }
    if (values.empty()) return NotFound("", absl::StrCat("no process is called '", parts[1], "'"));
    return absl::StrJoin(values, ",");
  }
  if (parts[0] == "port" || parts[0] == "url" || parts[0] == "hostport" || name == "address" ||
      name == "machine") {
    return FieldOf(instance, parts);
  }
  auto others = Named(context, parts[0]);
  if (others.empty()) return NotFound("", absl::StrCat("'", name, "' means nothing here"));
  const Instance* chosen = others.size() == 1 ? others[0] : nullptr;
  for (const Instance* other : others) {
    if (other->machine == instance.machine && other->index == instance.index) chosen = other;
  }
  for (const Instance* other : others) {
    if (chosen == nullptr && other->machine == instance.machine) chosen = other;
  }
  if (chosen == nullptr) {
    return NotFound("", absl::StrCat("'", name, "': ", parts[0], " has ", others.size(),
                                     " instances and none on machine ", instance.machine->name));
  }
  return FieldOf(SeenFrom(*chosen, instance.machine), {parts.begin() + 1, parts.end()});
}

}  // namespace

std::string UrlOf(const Instance& instance, const std::string& port) {
  if (instance.attached != nullptr) return instance.attached->url;
  auto found = instance.ports.find(port);
  return found == instance.ports.end() ? "" : absl::StrCat("http://", HostPort(instance, found->second));
}

Result<std::string> DirectoryOf(const FillContext& context, const Instance& instance) {
  if (!instance.process->disk_path.empty()) return Fill(context, instance, instance.process->disk_path);
  return absl::StrCat(instance.machine->disk_dir, "/", instance.id, ".", instance.process->disk);
}

Result<std::string> Fill(const FillContext& context, const Instance& instance, const std::string& text) {
  std::string out;
  size_t at = 0;
  for (;;) {
    size_t open = text.find("${", at);
    out.append(text, at, open == std::string::npos ? std::string::npos : open - at);
    if (open == std::string::npos) return out;
    size_t close = text.find('}', open);
    if (close == std::string::npos) {
      return InvalidInput(absl::StrCat("stack ", context.stack->name, ", process ", instance.process->name),
                          absl::StrCat("'", text, "' has a ${ without its }"));
    }
    std::string name = text.substr(open + 2, close - open - 2);
    auto value = Resolve(context, instance, name);
    if (!value.ok()) {
      Error error = ErrorOf(value.status());
      return InvalidInput(absl::StrCat("stack ", context.stack->name, ", process ", instance.process->name),
                          absl::StrCat("${", name, "} cannot be filled: ", error.message),
                          "docs/stacks.md lists what can be named");
    }
    out += *value;
    at = close + 1;
  }
}

Result<std::vector<std::string>> FillArgv(const FillContext& context, const Instance& instance) {
  std::vector<std::string> argv;
  for (const spec::ArgWord& word : instance.process->argv) {
    if (word.each.empty()) {
      POOLMARK_ASSIGN_OR_RETURN(std::string text, Fill(context, instance, word.text));
      argv.push_back(std::move(text));
      continue;
    }
    auto others = Named(context, word.each);
    if (others.empty()) {
      return InvalidInput(absl::StrCat("stack ", context.stack->name, ", process ", instance.process->name),
                          absl::StrCat("each: no process is called '", word.each, "'"));
    }
    for (const Instance* other : others) {
      POOLMARK_ASSIGN_OR_RETURN(std::string text,
                                Fill(context, SeenFrom(*other, instance.machine), word.text));
      argv.push_back(std::move(text));
    }
  }
  return argv;
}

}  // namespace poolmark::controller
