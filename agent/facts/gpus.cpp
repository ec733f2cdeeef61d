#include "agent/facts/gpus.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "agent/facts/text.h"
#include "common/base/json.h"

namespace poolmark::agent {
namespace {

constexpr uint64_t kMiB = 1u << 20;

// "[N/A]", "[Not Supported]", "[Unknown Error]", "N/A", "ERR!" and empty cells.
bool IsNothing(std::string_view cell) {
  return cell.empty() || cell.front() == '[' || cell == "N/A" || cell == "ERR!";
}

std::optional<double> Number(std::string_view cell) {
  return IsNothing(cell) ? std::nullopt : ToDouble(cell);
}

// A member whatever the case of its name ("Card Series", "Card series").
const Json* Member(const Json& object, std::string_view name) {
  if (!object.is_object()) return nullptr;
  for (const auto& [key, value] : object.items()) {
    if (Lower(key) == Lower(name)) return &value;
  }
  return nullptr;
}

std::string Text(const Json* value) {
  if (value == nullptr) return "";
  if (value->is_string()) return IsNothing(value->get<std::string>()) ? "" : value->get<std::string>();
  if (value->is_number_integer()) return value->dump();
  return "";
}

// A number, a numeric string, or {"value": n, "unit": "W"}; the unit goes to `unit` when given.
std::optional<double> Amount(const Json* value, std::string* unit = nullptr) {
  if (value == nullptr) return std::nullopt;
  if (value->is_object()) {
    if (unit != nullptr) *unit = Text(Member(*value, "unit"));
    return Amount(Member(*value, "value"));
  }
  if (value->is_number()) return value->get<double>();
  if (value->is_string()) return Number(Trim(value->get<std::string>()));
  return std::nullopt;
}

std::optional<double> Bytes(const Json* value) {
  std::string unit;
  const auto amount = Amount(value, &unit);
  if (!amount || *amount < 0 || *amount > 1e15) return std::nullopt;
  if (unit == "B") return *amount;
  if (unit == "KB") return *amount * 1024;
  if (unit == "GB") return *amount * 1024 * 1024 * 1024;
  return *amount * static_cast<double>(kMiB);  // amd-smi prints binary megabytes as "MB"
}

std::optional<double> Watts(const Json* value) {
  std::string unit = "W";
  const auto amount = Amount(value, &unit);
  if (!amount || *amount < 0) return std::nullopt;
  if (unit == "mW") return *amount / 1000;
  if (unit == "uW") return *amount / 1e6;
  return unit == "W" || unit.empty() ? amount : std::nullopt;
}

// amd-smi: {"gpu_data": [...]} since ROCm 6.4, a bare array before, a bare object for one GPU in some builds.
// Warnings may stand before the JSON.
Result<Json> AmdGpus(std::string_view text) {
  const size_t start = text.find_first_of("[{");
  if (start == std::string_view::npos) return InvalidInput("amd-smi", "its answer holds no JSON");
  POOLMARK_ASSIGN_OR_RETURN(Json json, ParseJson(Trim(text.substr(start)), "amd-smi", {4u << 20, 32, false}));
  if (const Json* data = Member(json, "gpu_data")) {
    Json inner = *data;
    json = std::move(inner);
  }
  if (json.is_object()) json = Json::array({json});
  if (!json.is_array()) return InvalidInput("amd-smi", "its answer is no list of GPUs");
  return json;
}

// A GPU's number, or its place in the list where the tool gives none that can be one.
uint32_t IndexOr(std::optional<double> number, size_t place) {
  const auto count = number ? ToCount(*number) : std::nullopt;
  return static_cast<uint32_t>(count && *count <= UINT32_MAX ? *count : place);
}

// 0 where the tool gives no amount that can be one: GPUs that share the machine's memory (GB10, Jetson) have
// no figure of their own.
uint64_t MemoryBytes(std::optional<double> bytes) {
  return bytes ? ToCount(*bytes).value_or(0) : 0;
}

Result<std::vector<std::vector<std::string>>> CsvRows(std::string_view csv, size_t columns,
                                                      const std::string& tool) {
  std::vector<std::vector<std::string>> rows;
  for (std::string_view line : Lines(csv)) {
    if (Trim(line).empty()) continue;
    const auto cells = SplitAt(line, ',');
    if (cells.size() != columns || ToUint(cells[0]).value_or(UINT64_MAX) > UINT32_MAX) {
      return InvalidInput(tool, absl::StrCat("unexpected line '", std::string(line.substr(0, 120)),
                                             "', expected ", columns, " comma-separated values"));
    }
    rows.emplace_back(cells.begin(), cells.end());
  }
  return rows;
}

}  // namespace

const Command& NvidiaSmiQuery() {
  static const Command command{
      {"nvidia-smi", "--query-gpu=index,uuid,name,memory.total,driver_version,pci.bus_id,mig.mode.current",
       "--format=csv,noheader,nounits"},
      {}};
  return command;
}

Result<std::vector<GpuInfo>> ParseNvidiaSmi(std::string_view csv) {
  POOLMARK_ASSIGN_OR_RETURN(auto rows, CsvRows(csv, 7, "nvidia-smi"));
  std::vector<GpuInfo> gpus;
  for (const auto& row : rows) {
    GpuInfo gpu;
    gpu.index = static_cast<uint32_t>(*ToUint(row[0]));
    gpu.vendor = "nvidia";
    gpu.uuid = IsNothing(row[1]) ? "" : row[1];
    gpu.model = IsNothing(row[2]) ? "" : row[2];
    gpu.memory_bytes = MemoryBytes(Number(row[3]).value_or(0) * static_cast<double>(kMiB));
    gpu.driver = IsNothing(row[4]) ? "" : row[4];
    gpu.pci_bus = IsNothing(row[5]) ? "" : row[5];
    gpu.mig = row[6] == "Enabled";
    if (gpu.model.empty()) {
      return InvalidInput("nvidia-smi", absl::StrCat("GPU ", row[0], " has no name ('", row[2], "')"));
    }
    gpus.push_back(std::move(gpu));
  }
  return gpus;
}

const Command& NvidiaSmiReadings() {
  static const Command command{{"nvidia-smi", "--query-gpu=index,uuid,utilization.gpu,memory.used,power.draw",
                                "--format=csv,noheader,nounits"},
                               {}};
  return command;
}

Result<std::vector<GpuReading>> ParseNvidiaSmiReadings(std::string_view csv) {
  POOLMARK_ASSIGN_OR_RETURN(auto rows, CsvRows(csv, 5, "nvidia-smi"));
  std::vector<GpuReading> readings;
  for (const auto& row : rows) {
    GpuReading reading;
    reading.index = static_cast<uint32_t>(*ToUint(row[0]));
    reading.uuid = IsNothing(row[1]) ? "" : row[1];
    if (const auto percent = Number(row[2])) reading.utilization_ratio = *percent / 100;
    if (const auto mebibytes = Number(row[3]))
      reading.memory_used_bytes = *mebibytes * static_cast<double>(kMiB);
    reading.power_watts = Number(row[4]);
    readings.push_back(std::move(reading));
  }
  return readings;
}

const Command& AmdSmiStatic() {
  static const Command command{{"amd-smi", "static", "--asic", "--vram", "--driver", "--bus", "--json"}, {}};
  return command;
}

Result<std::vector<GpuInfo>> ParseAmdSmi(std::string_view text) {
  POOLMARK_ASSIGN_OR_RETURN(const Json list, AmdGpus(text));
  std::vector<GpuInfo> gpus;
  for (const Json& entry : list) {
    const Json* asic = Member(entry, "asic");
    if (asic == nullptr) return InvalidInput("amd-smi", "an entry without 'asic'");
    GpuInfo gpu;
    gpu.vendor = "amd";
    gpu.index = IndexOr(Amount(Member(entry, "gpu")), gpus.size());
    gpu.model = Text(Member(*asic, "market_name"));
    if (gpu.model.empty()) gpu.model = Text(Member(*asic, "target_graphics_version"));
    gpu.uuid = Text(Member(*asic, "asic_serial"));
    if (const Json* bus = Member(entry, "bus")) gpu.pci_bus = Text(Member(*bus, "bdf"));
    if (const Json* vram = Member(entry, "vram")) {
      gpu.memory_bytes = MemoryBytes(Bytes(Member(*vram, "size")));
    }
    if (const Json* driver = Member(entry, "driver")) gpu.driver = Text(Member(*driver, "version"));
    if (gpu.model.empty())
      return InvalidInput("amd-smi", absl::StrCat("GPU ", gpu.index, " has no market_name"));
    if (gpu.uuid.empty()) gpu.uuid = gpu.pci_bus;
    gpus.push_back(std::move(gpu));
  }
  return gpus;
}

const Command& AmdSmiReadings() {
  static const Command command{{"amd-smi", "metric", "--usage", "--power", "--mem-usage", "--json"}, {}};
  return command;
}

Result<std::vector<GpuReading>> ParseAmdSmiReadings(std::string_view text) {
  POOLMARK_ASSIGN_OR_RETURN(const Json list, AmdGpus(text));
  std::vector<GpuReading> readings;
  for (const Json& entry : list) {
    GpuReading reading;
    reading.index = IndexOr(Amount(Member(entry, "gpu")), readings.size());
    if (const Json* usage = Member(entry, "usage")) {
      if (const auto percent = Amount(Member(*usage, "gfx_activity")))
        reading.utilization_ratio = *percent / 100;
    }
    if (const Json* power = Member(entry, "power")) {
      reading.power_watts = Watts(Member(*power, "socket_power"));
      if (!reading.power_watts) reading.power_watts = Watts(Member(*power, "current_socket_power"));
    }
    if (const Json* memory = Member(entry, "mem_usage"))
      reading.memory_used_bytes = Bytes(Member(*memory, "used_vram"));
    // partitions other than the first repeat the socket and report 0 W
    if (reading.power_watts && *reading.power_watts == 0) reading.power_watts.reset();
    readings.push_back(std::move(reading));
  }
  return readings;
}

const Command& RocmSmiQuery() {
  static const Command command{{"rocm-smi", "--showproductname", "--showmeminfo", "vram",
                                "--showdriverversion", "--showuniqueid", "--showbus", "--json"},
                               {}};
  return command;
}

Result<std::vector<GpuInfo>> ParseRocmSmi(std::string_view text) {
  const size_t start = text.find('{');  // warnings may stand before the JSON
  if (start == std::string_view::npos) return InvalidInput("rocm-smi", "its answer holds no JSON");
  POOLMARK_ASSIGN_OR_RETURN(const Json json,
                            ParseJson(Trim(text.substr(start)), "rocm-smi", {4u << 20, 32, false}));
  if (!json.is_object()) return InvalidInput("rocm-smi", "its answer is no object of cards");
  std::string driver;
  if (const Json* system = Member(json, "system")) driver = Text(Member(*system, "driver version"));
  std::vector<GpuInfo> gpus;
  for (const auto& [key, card] : json.items()) {
    if (key.rfind("card", 0) != 0 || ToUint(key.substr(4)).value_or(UINT64_MAX) > UINT32_MAX) continue;
    GpuInfo gpu;
    gpu.vendor = "amd";
    gpu.index = static_cast<uint32_t>(*ToUint(key.substr(4)));
    gpu.model = Text(Member(card, "card series"));
    if (gpu.model.empty()) gpu.model = Text(Member(card, "card model"));
    gpu.uuid = Text(Member(card, "unique id"));
    gpu.pci_bus = Text(Member(card, "pci bus"));
    gpu.memory_bytes = MemoryBytes(Amount(Member(card, "vram total memory (b)")));
    gpu.driver = driver;
    if (gpu.model.empty()) return InvalidInput("rocm-smi", absl::StrCat(key, " has no 'Card Series'"));
    gpus.push_back(std::move(gpu));
  }
  std::sort(gpus.begin(), gpus.end(), [](const GpuInfo& a, const GpuInfo& b) { return a.index < b.index; });
  return gpus;
}

std::vector<std::string> GpusOnPci(const std::string& root) {
  std::vector<std::string> found;
  for (const std::string& slot : Entries(root, "/sys/bus/pci/devices")) {
    const std::string base = "/sys/bus/pci/devices/" + slot;
    const std::string kind = ReadTrimmed(root, base + "/class").value_or("");
    const std::string vendor = ReadTrimmed(root, base + "/vendor").value_or("");
    const bool gpu =
        kind.rfind("0x0302", 0) == 0 || kind.rfind("0x1200", 0) == 0 || kind.rfind("0x0300", 0) == 0;
    if (gpu && vendor == "0x10de") found.push_back("nvidia " + slot);
    if (gpu && vendor == "0x1002") found.push_back("amd " + slot);
  }
  return found;
}

namespace {

using Parse = Result<std::vector<GpuInfo>> (*)(std::string_view);

std::optional<GpuTool> Ask(Spawner& spawner, const std::string& vendor, const Command& command, Parse parse,
                           Nanoseconds timeout) {
  GpuTool tool;
  tool.vendor = vendor;
  tool.name = command.argv[0];
  const auto output = RunCommand(spawner, command, timeout);
  if (!output.ok()) {
    if (output.status().code() == absl::StatusCode::kNotFound) return std::nullopt;
    tool.failure = std::string(output.status().message());
    tool.hangs = output.status().code() == absl::StatusCode::kDeadlineExceeded;
    return tool;
  }
  if (!output->ok()) {
    tool.hangs = output->timed_out;
    tool.failure = Describe(command, *output);
    return tool;
  }
  auto gpus = parse(output->out);
  if (!gpus.ok()) {
    tool.failure = std::string(gpus.status().message());
    return tool;
  }
  tool.gpus = std::move(*gpus);
  if (!tool.gpus.empty()) tool.version = tool.gpus.front().driver;
  return tool;
}

void AddNumaNodes(const std::string& root, std::vector<GpuInfo>* gpus) {
  for (GpuInfo& gpu : *gpus) {
    std::string slot = Lower(gpu.pci_bus);
    if (slot.size() > 12)
      slot = slot.substr(slot.size() - 12);  // nvidia-smi: eight digits of domain, sysfs: four
    const auto node = ReadUint(root, "/sys/bus/pci/devices/" + slot + "/numa_node");
    if (!slot.empty() && node) gpu.numa_node = static_cast<uint32_t>(*node);  // "-1" is no number here
  }
}

}  // namespace

std::vector<GpuTool> ReadGpus(Spawner& spawner, const std::string& root, Nanoseconds timeout) {
  std::vector<GpuTool> tools;
  if (auto nvidia = Ask(spawner, "nvidia", NvidiaSmiQuery(), ParseNvidiaSmi, timeout))
    tools.push_back(*nvidia);
  auto amd = Ask(spawner, "amd", AmdSmiStatic(), ParseAmdSmi, timeout);
  if (!amd || !amd->failure.empty()) {
    auto rocm = Ask(spawner, "amd", RocmSmiQuery(), ParseRocmSmi, timeout);
    if (rocm && (!amd || rocm->failure.empty())) amd = std::move(rocm);
  }
  if (amd) tools.push_back(*amd);
  for (GpuTool& tool : tools) AddNumaNodes(root, &tool.gpus);
  return tools;
}

}  // namespace poolmark::agent
