// Facts of the machine as a whole: CPU, NUMA, memory, resource limits, identity. Parsers are pure; readers
// take a root directory.
#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

namespace poolmark::agent {

// --- /proc/cpuinfo
struct Cpu {
  std::string model;  // "AMD EPYC 9654", "Neoverse-V2" (aarch64 names implementer and part only)
  uint32_t cpus = 0;  // logical ones
};
Cpu ParseCpuInfo(std::string_view text);

// Directories /sys/devices/system/node/node<n>; 1 where the kernel has no NUMA.
uint32_t CountNumaNodes(const std::string& root);

// --- /proc/meminfo: name -> bytes (or a plain count for HugePages_*).
std::map<std::string, uint64_t, std::less<>> ParseMemInfo(std::string_view text);

// --- /proc/<pid>/limits
struct Limit {
  std::optional<uint64_t> soft;  // absent: unlimited
  std::optional<uint64_t> hard;
};
struct ResourceLimits {
  Limit memlock;  // bytes
  Limit nofile;
};
// Nothing when one of the two lines is missing or malformed.
std::optional<ResourceLimits> ParseLimits(std::string_view text);

// Does this process bypass the memlock limit: effective CAP_IPC_LOCK (bit 14) in /proc/<pid>/status?
bool HasIpcLock(std::string_view proc_status);

// What processes of this machine may lock: the smallest of the memlock limit (unless bypassed), the control
// group's limit less what it uses, and available memory. `why` names the one that decided.
struct Lockable {
  uint64_t bytes = 0;
  std::string why;
};
std::optional<Lockable> ReadLockable(const std::string& root);

struct Identity {
  std::string hostname;
  std::string boot_id;
  std::string os;       // PRETTY_NAME of /etc/os-release
  std::string kernel;   // "6.1.0-28-amd64"
  std::string product;  // DMI: "NVIDIA GB200 NVL72"
};
Identity ReadIdentity(const std::string& root);
// The value of a key of os-release, without quotes.
std::string ParseOsRelease(std::string_view text, std::string_view key);

}  // namespace poolmark::agent
