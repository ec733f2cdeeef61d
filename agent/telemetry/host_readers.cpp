#include "agent/telemetry/host_readers.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <set>

#include "agent/facts/drives.h"
#include "agent/facts/network.h"
#include "agent/facts/system.h"
#include "agent/facts/text.h"
#include "common/base/files.h"

namespace poolmark::agent {
namespace {

constexpr uint64_t kAllOnes = UINT64_MAX;    // what ionic prints for a counter it cannot read
constexpr uint64_t kSaturated = UINT32_MAX;  // counters of old InfiniBand cards stop here

std::optional<std::string> ReadText(const std::string& root, const std::string& path) {
  auto text = ReadPseudoFile(Below(root, path));
  return text.ok() ? std::optional(std::move(*text)) : std::nullopt;
}

}  // namespace

std::map<std::string, double> ParseCpuTimes(std::string_view text, double ticks_per_second) {
  static constexpr std::array<const char*, 8> kModes = {"user",   "nice", "system",  "idle",
                                                        "iowait", "irq",  "softirq", "steal"};
  std::map<std::string, double> seconds;
  for (std::string_view line : Lines(text)) {
    const auto fields = Fields(line);
    if (fields.size() < 1 + kModes.size() || fields[0] != "cpu") continue;
    for (size_t i = 0; i < kModes.size(); ++i) {
      if (const auto ticks = ToUint(fields[i + 1]))
        seconds[kModes[i]] = static_cast<double>(*ticks) / ticks_per_second;
    }
    break;
  }
  return seconds;
}

std::vector<InterfaceCounters> ParseNetDev(std::string_view text) {
  std::vector<InterfaceCounters> interfaces;
  for (std::string_view line : Lines(text)) {
    const size_t colon = line.rfind(':');  // names may hold colons (aliases)
    if (colon == std::string_view::npos) continue;
    const auto fields = Fields(line.substr(colon + 1));
    if (fields.size() < 16) continue;
    std::array<uint64_t, 16> numbers{};
    bool good = true;
    for (size_t i = 0; i < numbers.size(); ++i) {
      const auto number = ToUint(fields[i]);
      good = good && number.has_value();
      numbers[i] = number.value_or(0);
    }
    if (!good) continue;
    InterfaceCounters counters;
    counters.name = std::string(Trim(line.substr(0, colon)));
    counters.receive_bytes = numbers[0];
    counters.receive_packets = numbers[1];
    counters.receive_errs = numbers[2];
    counters.receive_drop = numbers[3];
    counters.transmit_bytes = numbers[8];
    counters.transmit_packets = numbers[9];
    counters.transmit_errs = numbers[10];
    counters.transmit_drop = numbers[11];
    interfaces.push_back(std::move(counters));
  }
  return interfaces;
}

std::map<std::string, uint64_t, std::less<>> ParseNetstat(std::string_view text) {
  std::map<std::string, uint64_t, std::less<>> values;
  const auto lines = Lines(text);
  for (size_t i = 0; i + 1 < lines.size(); ++i) {
    const auto names = Fields(lines[i]);
    const auto numbers = Fields(lines[i + 1]);
    if (names.size() < 2 || names.size() != numbers.size() || names[0] != numbers[0] || ToUint(names[1]))
      continue;
    const std::string group(names[0].substr(0, names[0].size() - 1));
    for (size_t column = 1; column < names.size(); ++column) {
      if (const auto number = ToUint(numbers[column]))
        values[group + "_" + std::string(names[column])] = *number;
    }
    ++i;
  }
  return values;
}

std::vector<DriveCounters> ParseDiskstats(std::string_view text) {
  std::vector<DriveCounters> drives;
  for (std::string_view line : Lines(text)) {
    const auto fields = Fields(line);
    if (fields.size() < 14) continue;
    const std::string name(fields[2]);
    // a partition follows its drive and bears its name ("nvme0n1p1", "sda1")
    bool partition = false;
    for (const DriveCounters& drive : drives)
      partition |= name.size() > drive.name.size() && name.rfind(drive.name, 0) == 0;
    const auto read = ToUint(fields[5]), written = ToUint(fields[9]), busy = ToUint(fields[12]);
    if (partition || !IsLeafDrive(name) || !read || !written || !busy) continue;
    drives.push_back({name, *read * 512, *written * 512, static_cast<double>(*busy) / 1000});
  }
  return drives;
}

void ReadProc(const std::string& root, PointBuilder* points) {
  static const double kTicks = static_cast<double>(::sysconf(_SC_CLK_TCK));
  const auto number = [](uint64_t value) { return static_cast<double>(value); };
  if (const auto text = ReadText(root, "/proc/stat")) {
    for (const auto& [mode, seconds] : ParseCpuTimes(*text, kTicks))
      points->Add("node_cpu_seconds_total", {{"mode", mode}}, seconds);
  } else {
    points->AddMissing("node_cpu_seconds_total", {}, "/proc/stat could not be read");
  }
  if (const auto text = ReadText(root, "/proc/meminfo")) {
    const auto memory = ParseMemInfo(*text);
    for (const char* key : {"MemTotal", "MemAvailable", "Mlocked"}) {
      const auto found = memory.find(key);
      if (found != memory.end())
        points->Add(std::string("node_memory_") + key + "_bytes", {}, number(found->second));
    }
    const auto pages = memory.find("HugePages_Free");
    if (pages != memory.end()) points->Add("node_memory_HugePages_Free", {}, number(pages->second));
  } else {
    points->AddMissing("node_memory_MemAvailable_bytes", {}, "/proc/meminfo could not be read");
  }
  if (const auto text = ReadText(root, "/proc/net/dev")) {
    for (const InterfaceCounters& counters : ParseNetDev(*text)) {
      const prom::Labels device = {{"device", counters.name}};
      points->Add("node_network_receive_bytes_total", device, number(counters.receive_bytes));
      points->Add("node_network_receive_packets_total", device, number(counters.receive_packets));
      points->Add("node_network_receive_errs_total", device, number(counters.receive_errs));
      points->Add("node_network_receive_drop_total", device, number(counters.receive_drop));
      points->Add("node_network_transmit_bytes_total", device, number(counters.transmit_bytes));
      points->Add("node_network_transmit_packets_total", device, number(counters.transmit_packets));
      points->Add("node_network_transmit_errs_total", device, number(counters.transmit_errs));
      points->Add("node_network_transmit_drop_total", device, number(counters.transmit_drop));
    }
  } else {
    points->AddMissing("node_network_receive_bytes_total", {}, "/proc/net/dev could not be read");
  }
  for (const char* file : {"/proc/net/snmp", "/proc/net/netstat"}) {
    const auto text = ReadText(root, file);
    if (!text) continue;
    for (const auto& [name, value] : ParseNetstat(*text))
      points->Add("node_netstat_" + name, {}, number(value));
  }
  if (const auto text = ReadText(root, "/proc/diskstats")) {
    for (const DriveCounters& drive : ParseDiskstats(*text)) {
      const prom::Labels device = {{"device", drive.name}};
      points->Add("node_disk_read_bytes_total", device, number(drive.read_bytes));
      points->Add("node_disk_written_bytes_total", device, number(drive.written_bytes));
      points->Add("node_disk_io_time_seconds_total", device, drive.io_seconds);
    }
  }
}

namespace {

struct Named {
  const char* file;
  const char* series;
  bool words = false;  // 4-byte words
};
// counters/: the port's own, as node_exporter names them.
constexpr std::array<Named, 9> kPortCounters = {
    {{"port_rcv_data", "node_infiniband_port_data_received_bytes_total", true},
     {"port_xmit_data", "node_infiniband_port_data_transmitted_bytes_total", true},
     {"port_rcv_packets", "node_infiniband_port_packets_received_total"},
     {"port_xmit_packets", "node_infiniband_port_packets_transmitted_total"},
     {"port_xmit_wait", "node_infiniband_port_transmit_wait_total"},
     {"port_xmit_discards", "node_infiniband_port_discards_transmitted_total"},
     {"port_rcv_errors", "node_infiniband_port_errors_received_total"},
     {"link_downed", "node_infiniband_link_downed_total"},
     {"symbol_error", "node_infiniband_symbol_error_total"}}};
// hw_counters/ that node_exporter publishes, by its names.
constexpr std::array<Named, 8> kPublished = {
    {{"rx_write_requests", "node_infiniband_rx_write_requests_total"},
     {"rx_read_requests", "node_infiniband_rx_read_requests_total"},
     {"out_of_sequence", "node_infiniband_out_of_sequence_packets_received_total"},
     {"packet_seq_err", "node_infiniband_packet_sequence_errors_total"},
     {"local_ack_timeout_err", "node_infiniband_local_ack_timeout_errors_total"},
     {"np_ecn_marked_roce_packets", "node_infiniband_np_ecn_marked_roce_packets_received_total"},
     {"np_cnp_sent", "node_infiniband_np_cnp_packets_sent_total"},
     {"rp_cnp_handled", "node_infiniband_rp_cnp_packets_handled_total"}}};

// Names node_exporter knows beside those above: not "extra".
const std::set<std::string>& KnownToNodeExporter() {
  static const std::set<std::string> names = {"duplicate_request",
                                              "implied_nak_seq_err",
                                              "lifespan",
                                              "out_of_buffer",
                                              "req_cqe_error",
                                              "req_cqe_flush_error",
                                              "req_remote_access_errors",
                                              "req_remote_invalid_request",
                                              "resp_cqe_error",
                                              "resp_cqe_flush_error",
                                              "resp_local_length_error",
                                              "resp_remote_access_errors",
                                              "rnr_nak_retry_err",
                                              "roce_adp_retrans",
                                              "roce_adp_retrans_to",
                                              "roce_slow_restart",
                                              "roce_slow_restart_cnps",
                                              "roce_slow_restart_trans",
                                              "rp_cnp_ignored",
                                              "rx_atomic_requests",
                                              "rx_icrc_encapsulated"};
  return names;
}

void AddFile(const std::string& root, const std::string& path, const std::string& series,
             const prom::Labels& labels, bool words, PointBuilder* points) {
  const auto value = ReadUint(root, path);
  if (!value) {
    points->AddMissing(series, labels,
                       "the driver does not give it (" + path.substr(path.find_last_of('/') + 1) + ")");
  } else if (*value == kAllOnes) {
    points->AddMissing(series, labels, "the driver could not read it");
  } else if (words && *value == kSaturated) {
    points->AddMissing(series, labels, "the counter has reached its end (2^32 - 1)");
  } else {
    points->Add(series, labels, static_cast<double>(*value) * (words ? 4 : 1));
  }
}

void ReadPort(const std::string& root, const RdmaPortInfo& port, bool published, PointBuilder* points) {
  const std::string base = "/sys/class/infiniband/" + port.device + "/ports/" + std::to_string(port.port);
  const prom::Labels labels = {{"device", port.device}, {"port", std::to_string(port.port)}};
  const auto counters = Entries(root, base + "/counters");
  const auto hardware = Entries(root, base + "/hw_counters");
  const auto has = [](const std::vector<std::string>& names, const char* name) {
    return std::find(names.begin(), names.end(), name) != names.end();
  };
  if (published) {
    for (const Named& named : kPortCounters) {
      if (!counters.empty() && has(counters, named.file)) {
        AddFile(root, base + "/counters/" + named.file, named.series, labels, named.words, points);
      }
    }
    const bool data_readable =
        has(counters, "port_rcv_data") && ReadUint(root, base + "/counters/port_rcv_data").has_value();
    if (!data_readable) {
      // bnxt_re: no counters directory, or one that cannot be read; bytes and packets are in hw_counters
      static constexpr std::array<Named, 4> kInstead = {
          {{"rx_bytes", "node_infiniband_port_data_received_bytes_total"},
           {"tx_bytes", "node_infiniband_port_data_transmitted_bytes_total"},
           {"rx_pkts", "node_infiniband_port_packets_received_total"},
           {"tx_pkts", "node_infiniband_port_packets_transmitted_total"}}};
      for (const Named& named : kInstead) {
        if (has(counters, named.file)) continue;
        if (has(hardware, named.file)) {
          AddFile(root, base + "/hw_counters/" + named.file, named.series, labels, false, points);
        } else {
          points->AddMissing(named.series, labels,
                             "the driver gives no byte or packet counters of this port");
        }
      }
    }
    for (const Named& named : kPublished) {
      if (has(hardware, named.file))
        AddFile(root, base + "/hw_counters/" + named.file, named.series, labels, false, points);
    }
  }
  for (const std::string& name : hardware) {
    if (KnownToNodeExporter().count(name) != 0) continue;
    if (std::any_of(kPublished.begin(), kPublished.end(),
                    [&](const Named& named) { return name == named.file; }))
      continue;
    prom::Labels with_name = labels;
    with_name.emplace_back("counter", name);
    AddFile(root, base + "/hw_counters/" + name, "rdma_hw_counter", with_name, false, points);
  }
}

}  // namespace

void ReadRdmaCounters(const std::string& root, PointBuilder* points) {
  for (const RdmaPortInfo& port : ReadRdmaPorts(root)) ReadPort(root, port, true, points);
}
void ReadExtraRdmaCounters(const std::string& root, PointBuilder* points) {
  for (const RdmaPortInfo& port : ReadRdmaPorts(root)) ReadPort(root, port, false, points);
}

}  // namespace poolmark::agent
