#include "agent/facts/facts.h"

#include <sys/statvfs.h>

#include <algorithm>
#include <set>

#include "absl/strings/str_cat.h"
#include "agent/facts/clock_state.h"
#include "agent/facts/drives.h"
#include "agent/facts/gpus.h"
#include "agent/facts/network.h"
#include "agent/facts/sockets.h"
#include "agent/facts/system.h"
#include "agent/facts/text.h"
#include "agent/facts/tools.h"

namespace poolmark::agent {
namespace {

void Note(std::vector<std::string>* notes, std::string text) {
  if (notes != nullptr) notes->push_back(std::move(text));
}

void FillSystem(const std::string& root, v1::Facts* facts, std::vector<std::string>* notes) {
  const Identity identity = ReadIdentity(root);
  facts->set_hostname(identity.hostname);
  facts->set_boot_id(identity.boot_id);
  facts->set_os(identity.os);
  facts->set_kernel(identity.kernel);
  facts->set_product(identity.product);
  const Cpu cpu = ParseCpuInfo(ReadTrimmed(root, "/proc/cpuinfo").value_or(""));
  facts->set_cpu_model(cpu.model);
  facts->set_cpus(cpu.cpus);
  facts->set_numa_nodes(CountNumaNodes(root));
  const auto meminfo = ParseMemInfo(ReadTrimmed(root, "/proc/meminfo").value_or(""));
  if (const auto it = meminfo.find("MemTotal"); it != meminfo.end()) facts->set_memory_bytes(it->second);
  if (const auto it = meminfo.find("MemAvailable"); it != meminfo.end()) {
    facts->set_memory_available_bytes(it->second);
  }
  if (const auto limits = ParseLimits(ReadTrimmed(root, "/proc/self/limits").value_or(""))) {
    // the hard limits: engines are started with the soft one raised
    if (limits->memlock.hard) facts->set_memlock_bytes(*limits->memlock.hard);
    if (limits->nofile.hard) facts->set_nofile(*limits->nofile.hard);
  } else {
    Note(notes, "limits: /proc/self/limits could not be read");
  }
  if (const auto lockable = ReadLockable(root)) {
    facts->set_memory_lockable_bytes(lockable->bytes);
    Note(notes, absl::StrCat("lockable memory is decided by the ", lockable->why));
  }
}

void FillGpus(const FactsContext& context, v1::Facts* facts, std::vector<std::string>* notes) {
  std::vector<GpuTool> tools;
  if (context.spawner != nullptr) tools = ReadGpus(*context.spawner, context.root, std::chrono::seconds(20));
  std::string answered;
  for (const GpuTool& tool : tools) {
    if (!tool.failure.empty()) {
      Note(notes, absl::StrCat(tool.name, ": ", tool.failure));
      continue;
    }
    absl::StrAppend(&answered, answered.empty() ? "" : ", ", tool.name, tool.version.empty() ? "" : " ",
                    tool.version);
    for (const GpuInfo& info : tool.gpus) {
      v1::Gpu* gpu = facts->add_gpus();
      gpu->set_index(info.index);
      gpu->set_vendor(info.vendor);
      gpu->set_model(info.model);
      gpu->set_uuid(info.uuid);
      gpu->set_memory_bytes(info.memory_bytes);
      gpu->set_driver(info.driver);
      if (info.numa_node) gpu->set_numa_node(*info.numa_node);
    }
  }
  facts->set_gpu_tool(answered);
  const auto on_pci = GpusOnPci(context.root);
  if (facts->gpus_size() == 0 && !on_pci.empty()) {
    Note(notes, absl::StrCat(on_pci.size(), " GPUs on the PCI bus (", on_pci.front(),
                             " ...), no vendor tool answers"));
  }
}

void FillClock(const FactsContext& context, v1::Facts* facts, std::vector<std::string>* notes) {
  std::string evidence;
  const auto state = ReadClock(context.spawner, context.root, &evidence);
  if (!state)
    return Note(notes, absl::StrCat("clock: neither chrony nor the kernel tells of it; ", evidence));
  v1::ClockState* clock = facts->mutable_clock();
  clock->set_source(state->source);
  clock->set_synchronised(state->synchronised);
  clock->set_follows_itself(state->local_source);
  if (state->bound_seconds) clock->set_bound_ns(static_cast<int64_t>(*state->bound_seconds * 1e9));
}

void FillNetwork(const FactsContext& context, v1::Facts* facts) {
  for (const NicInfo& info :
       ReadNics(context.root, context.addresses ? context.addresses() : ReadAddresses())) {
    v1::Nic* nic = facts->add_nics();
    nic->set_name(info.name);
    if (!info.addresses.empty()) nic->set_address(info.addresses.front());
    for (const std::string& address : info.addresses) nic->add_addresses(address);
    nic->set_mtu(info.mtu);
    if (info.speed_bits_per_second) nic->set_speed_bits_per_second(*info.speed_bits_per_second);
    nic->set_driver(info.driver);
    nic->set_operstate(info.operstate);
  }
  auto ports = ReadRdmaPorts(context.root);
  if (!ports.empty() && context.spawner != nullptr) {
    const Command command{{"ibv_devinfo"}, {}};
    const auto output = RunCommand(*context.spawner, command, std::chrono::seconds(10));
    if (output.ok() && output->ok()) {
      const auto mtus = ParseIbvDevinfo(output->out);
      for (RdmaPortInfo& port : ports) {
        const auto device = mtus.find(port.device);
        if (device == mtus.end()) continue;
        const auto found = device->second.find(port.port);
        if (found != device->second.end()) port.active_mtu = found->second;
      }
    }
  }
  for (const RdmaPortInfo& info : ports) {
    v1::RdmaPort* port = facts->add_rdma_ports();
    port->set_device(info.device);
    port->set_port(info.port);
    port->set_state(info.state);
    port->set_link_layer(info.link_layer);
    port->set_rate(info.rate);
    port->set_netdev(info.netdev);
    if (info.active_mtu) port->set_active_mtu(*info.active_mtu);
  }
  std::set<uint32_t> used;
  for (const Socket& socket : ReadSockets(context.root)) {
    if (socket.listening()) used.insert(socket.port);
  }
  for (const uint32_t port : used) facts->add_used_ports(port);
}

std::optional<uint64_t> FreeBytes(const std::string& path) {
  struct statvfs volume {};
  if (path.empty() || ::statvfs(path.c_str(), &volume) != 0) return std::nullopt;
  return static_cast<uint64_t>(volume.f_bavail) * volume.f_frsize;
}

}  // namespace

v1::Facts ReadFacts(const FactsContext& context, std::vector<std::string>* notes) {
  v1::Facts facts;
  FillSystem(context.root, &facts, notes);
  FillGpus(context, &facts, notes);
  FillClock(context, &facts, notes);
  FillNetwork(context, &facts);
  for (const DriveInfo& info : ReadDrives(context.root)) {
    v1::Drive* drive = facts.add_drives();
    drive->set_name(info.name);
    drive->set_model(info.model);
    drive->set_size_bytes(info.size_bytes);
    drive->set_rotational(info.rotational);
  }
  facts.set_containment(context.containment);
  for (const std::string& name : KnownTools()) {
    v1::Tool tool = ReadTool(name, context);
    if (!tool.path().empty()) *facts.add_tools() = std::move(tool);
  }
  facts.set_work_dir(context.work_dir);
  if (const auto bytes = FreeBytes(context.work_dir)) {
    facts.set_work_dir_free_bytes(*bytes);
  } else if (!context.work_dir.empty()) {
    Note(notes, absl::StrCat("work directory ", context.work_dir, ": its free space could not be read"));
  }
  for (const std::string& path : context.directories) {
    const auto bytes = FreeBytes(path);
    if (!bytes) {
      Note(notes, absl::StrCat("directory ", path, ": its free space could not be read"));
      continue;
    }
    v1::Disk* disk = facts.add_disks();
    disk->set_path(path);
    disk->set_free_bytes(*bytes);
  }
  return facts;
}

v1::Tool ReadTool(const std::string& name, const FactsContext& context) {
  const ToolInfo info = LookUpTool(name, context.spawner, context.root);
  v1::Tool tool;
  tool.set_name(info.name);
  tool.set_version(info.version);
  tool.set_sha256(info.sha256);
  tool.set_path(info.path);
  tool.set_note(info.note);
  return tool;
}

}  // namespace poolmark::agent
