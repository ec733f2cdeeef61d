#include "agent/facts/system.h"

#include <algorithm>

#include "agent/facts/text.h"

namespace poolmark::agent {

Cpu ParseCpuInfo(std::string_view text) {
  Cpu cpu;
  std::string implementer, part;
  for (std::string_view line : Lines(text)) {
    const size_t colon = line.find(':');
    if (colon == std::string_view::npos) continue;
    const std::string_view key = Trim(line.substr(0, colon));
    const std::string_view value = Trim(line.substr(colon + 1));
    if (key == "processor" && ToUint(value)) ++cpu.cpus;
    if (cpu.model.empty() && (key == "model name" || key == "Model")) cpu.model = std::string(value);
    if (key == "CPU implementer") implementer = std::string(value);
    if (key == "CPU part") part = std::string(value);
  }
  if (cpu.model.empty() && !part.empty()) {
    // Arm's main id register; the two parts that GPU servers of today carry are named.
    if (part == "0xd4f") {
      cpu.model = "Arm Neoverse-V2";
    } else if (part == "0xd40") {
      cpu.model = "Arm Neoverse-V1";
    } else {
      cpu.model = "implementer " + implementer + " part " + part;
    }
  }
  return cpu;
}

uint32_t CountNumaNodes(const std::string& root) {
  uint32_t nodes = 0;
  for (const std::string& name : Entries(root, "/sys/devices/system/node")) {
    if (name.rfind("node", 0) == 0 && ToUint(name.substr(4))) ++nodes;
  }
  return std::max(nodes, 1u);
}

std::map<std::string, uint64_t, std::less<>> ParseMemInfo(std::string_view text) {
  std::map<std::string, uint64_t, std::less<>> values;
  for (std::string_view line : Lines(text)) {
    const size_t colon = line.find(':');
    if (colon == std::string_view::npos) continue;
    const auto fields = Fields(line.substr(colon + 1));
    if (fields.empty()) continue;
    const auto number = ToUint(fields[0]);
    if (!number || (fields.size() > 1 && fields[1] == "kB" && *number > UINT64_MAX / 1024)) continue;
    values[std::string(Trim(line.substr(0, colon)))] =
        fields.size() > 1 && fields[1] == "kB" ? *number * 1024 : *number;
  }
  return values;
}

namespace {
// "Max locked memory         8388608              unlimited            bytes": names hold blanks.
bool ParseLimitLine(std::string_view line, std::string_view name, Limit* limit) {
  if (line.substr(0, name.size()) != name) return false;
  const auto fields = Fields(line.substr(name.size()));
  if (fields.size() < 2) return false;
  const auto read = [](std::string_view word, std::optional<uint64_t>* into) {
    if (word == "unlimited") return true;
    *into = ToUint(word);
    return into->has_value();
  };
  return read(fields[0], &limit->soft) && read(fields[1], &limit->hard);
}
}  // namespace

std::optional<ResourceLimits> ParseLimits(std::string_view text) {
  ResourceLimits limits;
  bool memlock = false, nofile = false;
  for (std::string_view line : Lines(text)) {
    memlock |= ParseLimitLine(line, "Max locked memory", &limits.memlock);
    nofile |= ParseLimitLine(line, "Max open files", &limits.nofile);
  }
  if (!memlock || !nofile) return std::nullopt;
  return limits;
}

bool HasIpcLock(std::string_view proc_status) {
  for (std::string_view line : Lines(proc_status)) {
    if (line.substr(0, 7) != "CapEff:") continue;
    const auto bits = ToUint(Trim(line.substr(7)), 16);
    return bits && (*bits >> 14 & 1) != 0;
  }
  return false;
}

std::optional<Lockable> ReadLockable(const std::string& root) {
  const auto meminfo_text = ReadTrimmed(root, "/proc/meminfo");
  const auto limits_text = ReadTrimmed(root, "/proc/self/limits");
  if (!meminfo_text || !limits_text) return std::nullopt;
  const auto meminfo = ParseMemInfo(*meminfo_text);
  const auto limits = ParseLimits(*limits_text);
  const auto available = meminfo.find("MemAvailable");
  if (available == meminfo.end() || !limits) return std::nullopt;

  Lockable lockable{available->second, "available memory"};
  const bool bypass = HasIpcLock(ReadTrimmed(root, "/proc/self/status").value_or(""));
  if (!bypass && limits->memlock.hard && *limits->memlock.hard < lockable.bytes) {
    lockable = {*limits->memlock.hard, "limit of locked memory (RLIMIT_MEMLOCK, hard)"};
  }
  // Control groups: version 2 names its path in /proc/self/cgroup as "0::/system.slice/x"; a limit may stand
  // on any level above.
  const std::string cgroups = ReadTrimmed(root, "/proc/self/cgroup").value_or("");
  for (std::string_view line : Lines(cgroups)) {
    if (line.substr(0, 3) != "0::") continue;
    std::string path(Trim(line.substr(3)));
    while (!path.empty()) {
      const std::string base = "/sys/fs/cgroup" + (path == "/" ? "" : path);
      const auto most = ReadUint(root, base + "/memory.max");  // "max" is no number
      const auto used = ReadUint(root, base + "/memory.current");
      if (most && used) {
        const uint64_t left = *most > *used ? *most - *used : 0;
        if (left < lockable.bytes) lockable = {left, "memory limit of the control group " + path};
      }
      if (path == "/") break;
      const size_t slash = path.find_last_of('/');
      path = slash == 0 || slash == std::string::npos ? "/" : path.substr(0, slash);
    }
  }
  return lockable;
}

std::string ParseOsRelease(std::string_view text, std::string_view key) {
  for (std::string_view line : Lines(text)) {
    const size_t equals = line.find('=');
    if (equals == std::string_view::npos || Trim(line.substr(0, equals)) != key) continue;
    std::string_view value = Trim(line.substr(equals + 1));
    if (value.size() >= 2 && (value.front() == '"' || value.front() == '\'') &&
        value.back() == value.front()) {
      value = value.substr(1, value.size() - 2);
    }
    return std::string(value);
  }
  return "";
}

Identity ReadIdentity(const std::string& root) {
  Identity identity;
  identity.hostname = ReadTrimmed(root, "/proc/sys/kernel/hostname").value_or("");
  identity.boot_id = ReadTrimmed(root, "/proc/sys/kernel/random/boot_id").value_or("");
  identity.kernel = ReadTrimmed(root, "/proc/sys/kernel/osrelease").value_or("");
  identity.os = ParseOsRelease(ReadTrimmed(root, "/etc/os-release").value_or(""), "PRETTY_NAME");
  identity.product = ReadTrimmed(root, "/sys/class/dmi/id/product_name").value_or("");
  return identity;
}

}  // namespace poolmark::agent
