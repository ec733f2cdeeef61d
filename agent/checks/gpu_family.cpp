// One GPU family, answered by its vendor's tool: nvidia-smi, amd-smi or rocm-smi.
#include <map>

#include "absl/strings/str_cat.h"
#include "agent/checks/each.h"
#include "agent/facts/gpus.h"
#include "common/base/units.h"

namespace poolmark::agent {
namespace {

std::string HintOf(const GpuTool& tool) {
  const bool nvidia = tool.vendor == "nvidia";
  if (tool.hangs) {
    return nvidia ? "look for Xid errors in the kernel's log (dmesg): a GPU that fell off the bus hangs its "
                    "tool; "
                    "where it is only slow, turn persistence mode on (nvidia-smi -pm 1)"
                  : "look for errors of amdgpu in the kernel's log (dmesg)";
  }
  return nvidia ? "load the NVIDIA driver; 'nvidia-smi' must list the GPUs"
                : "load the amdgpu driver; 'amd-smi static' must list the GPUs";
}

}  // namespace

Finding CheckGpuFamily(const v1::CheckPlan& plan, const CheckContext& context) {
  if (!plan.need_gpus()) return Skipped("the plan uses no GPUs here");
  Finding finding;
  finding.expected = absl::StrCat("GPUs of one model",
                                  plan.gpu_model().empty() ? "" : absl::StrCat(" (", plan.gpu_model(), ")"),
                                  ", answered by the vendor's tool");
  std::vector<GpuTool> tools;
  if (context.facts.spawner != nullptr) {
    tools = ReadGpus(*context.facts.spawner, context.facts.root, std::chrono::seconds(30));
  }
  std::map<std::string, int> models;  // "nvidia NVIDIA H200, 140GiB" -> how many
  std::vector<std::string> partitioned;
  bool other_model = false, other_vendor = false;
  for (const GpuTool& tool : tools) {
    if (!tool.failure.empty()) {
      finding.outcome = v1::OUTCOME_FAIL;
      finding.observed = absl::StrCat(tool.name, " does not answer: ", tool.failure);
      finding.hint = HintOf(tool);
      return finding;
    }
    for (const GpuInfo& gpu : tool.gpus) {
      ++models[absl::StrCat(
          gpu.vendor, " ", gpu.model, ", ",
          gpu.memory_bytes == 0 ? "memory shared with the CPU" : FormatBytes(gpu.memory_bytes))];
      if (gpu.mig) partitioned.push_back(absl::StrCat("GPU ", gpu.index));
      other_model |= !plan.gpu_model().empty() && gpu.model != plan.gpu_model();
      other_vendor |= !plan.gpu_vendor().empty() && gpu.vendor != plan.gpu_vendor();
      AddLine(&finding.evidence, absl::StrCat(tool.name, ": GPU ", gpu.index, " ", gpu.model, " ", gpu.uuid,
                                              " driver ", gpu.driver));
    }
  }
  if (models.empty()) {
    finding.outcome = v1::OUTCOME_FAIL;
    const auto on_pci = GpusOnPci(context.facts.root);
    if (on_pci.empty()) {
      finding.observed = "no GPU on this machine";
      finding.hint = "leave the machine out of the pool or use a stack without GPUs";
    } else {
      finding.observed = absl::StrCat(on_pci.size(), " GPUs on the PCI bus (", Shorten(on_pci),
                                      "), but no vendor tool answers");
      finding.hint = "install the vendor's driver with nvidia-smi, amd-smi or rocm-smi";
    }
    return finding;
  }
  std::vector<std::string> listed;
  for (const auto& [model, count] : models) listed.push_back(absl::StrCat(count, " x ", model));
  finding.observed = Shorten(listed);
  if (models.size() > 1 || other_model || other_vendor) {
    finding.outcome = v1::OUTCOME_FAIL;
    finding.hint = "machines of different GPU models or vendors never share a pool: leave the others out";
  } else if (!partitioned.empty()) {
    finding.outcome = v1::OUTCOME_FAIL;
    absl::StrAppend(&finding.observed, "; MIG is on: ", Shorten(partitioned));
    finding.hint = "turn MIG off: nvidia-smi -mig 0";
  }
  return finding;
}

}  // namespace poolmark::agent
