// GPUs by their vendor's tool: nvidia-smi (CSV), amd-smi (JSON in three layouts) or rocm-smi (JSON). Without
// a tool the PCI bus still says that a GPU is there, which makes a better message than "no GPU". Parsers are
// pure; the formats are those of the tools' public documentation and of fixtures in public projects.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "agent/facts/command.h"
#include "common/base/result.h"

namespace poolmark::agent {

struct GpuInfo {
  uint32_t index = 0;
  std::string vendor;  // "nvidia", "amd"
  std::string model;   // "NVIDIA H200"
  std::string uuid;
  std::string pci_bus;  // "00000000:19:00.0"
  uint64_t memory_bytes = 0;
  std::string driver;
  bool mig = false;  // NVIDIA only: partitioned
  std::optional<uint32_t> numa_node;
};

// What one reading of load and power gives; units in the names. Absent: the tool printed "[N/A]" or the like.
struct GpuReading {
  uint32_t index = 0;
  std::string uuid;
  std::optional<double> utilization_ratio;
  std::optional<double> memory_used_bytes;
  std::optional<double> power_watts;
};

struct GpuTool {
  std::string vendor;
  std::string name;     // "nvidia-smi"
  std::string version;  // of the driver or the tool, as it prints it; "" unknown
  std::vector<GpuInfo> gpus;
  std::string failure;  // the tool is there and did not answer: why
  bool hangs = false;   // of a failure: it did not end in time
};

const Command& NvidiaSmiQuery();
Result<std::vector<GpuInfo>> ParseNvidiaSmi(std::string_view csv);
const Command& NvidiaSmiReadings();
Result<std::vector<GpuReading>> ParseNvidiaSmiReadings(std::string_view csv);

const Command& AmdSmiStatic();
Result<std::vector<GpuInfo>> ParseAmdSmi(std::string_view json);
const Command& AmdSmiReadings();
Result<std::vector<GpuReading>> ParseAmdSmiReadings(std::string_view json);

const Command& RocmSmiQuery();
Result<std::vector<GpuInfo>> ParseRocmSmi(std::string_view json);

// GPUs that the PCI bus shows: "nvidia 0000:19:00.0". Display and accelerator classes only.
std::vector<std::string> GpusOnPci(const std::string& root);

// Asks every installed vendor tool. rocm-smi only where amd-smi is not installed or fails.
std::vector<GpuTool> ReadGpus(Spawner& spawner, const std::string& root, Nanoseconds timeout);

}  // namespace poolmark::agent
