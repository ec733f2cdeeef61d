#include "controller/stacks/tiers.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/base/units.h"

namespace poolmark::controller {
namespace {

// What is free where a machine's disk tiers go; none where its agent does not offer that place.
std::optional<uint64_t> FreeOnDisk(const v1::Facts& facts, const std::string& path) {
  auto below = [&path](const std::string& place) {
    return !place.empty() && (path == place || absl::StartsWith(path, absl::StrCat(place, "/")));
  };
  const v1::Disk* best = nullptr;
  for (const v1::Disk& disk : facts.disks()) {
    if (below(disk.path()) && (best == nullptr || disk.path().size() > best->path().size())) best = &disk;
  }
  if (best != nullptr) return best->free_bytes();
  return std::nullopt;
}

}  // namespace

void SizeTiers(const spec::StackSpec& stack, const std::vector<Instance>& instances, FillContext* context,
               StackPlan* plan, Errors* refusals) {
  const auto refuse = [&](std::string message, std::string hint) {
    refusals->push_back({absl::StatusCode::kFailedPrecondition, "plan", absl::StrCat("stack ", stack.name),
                         std::move(message), std::move(hint)});
  };

  std::map<std::string, uint64_t> locked_total, memory_total, disk_total;
  std::set<std::string> not_offered;  // machine and place already told of
  // Machine and medium -> holders of tiers, to share `auto`: a host tier and a store take the same memory.
  std::map<std::string, unsigned> owners_on;
  const auto on_disk = [](const spec::TierSpec& tier, const Instance& instance) {
    return tier.source == spec::TierSource::kStorage ||
           (tier.source == spec::TierSource::kRemote && !instance.process->disk.empty());
  };
  const auto medium = [](const Instance& instance, bool disk) {
    return absl::StrCat(instance.machine->name, disk ? "/disk" : "/memory");
  };
  for (const spec::TierSpec& tier : stack.tiers) {
    for (const Instance& instance : instances) {
      if (instance.process->name == tier.owner) ++owners_on[medium(instance, on_disk(tier, instance))];
    }
  }
  for (const spec::TierSpec& tier : stack.tiers) {
    for (const Instance& instance : instances) {
      if (instance.process->name != tier.owner) continue;
      const PoolMachine& machine = *instance.machine;
      const v1::Facts& facts = machine.facts->facts;
      std::string source(spec::TierSourceName(tier.source));
      context->tier_bytes[instance.id][source] = 0;  // also where its size is refused: that is told once
      const auto filled = Fill(*context, instance, tier.size);
      if (!filled.ok()) {
        refusals->push_back(ErrorOf(filled.status()));
        continue;
      }
      const std::string& text = *filled;
      const bool disk = on_disk(tier, instance);
      // A host tier is pinned for the GPU; a store keeps its keys in ordinary memory.
      const bool locked = tier.source == spec::TierSource::kHost && facts.has_memory_lockable_bytes();
      // Its own place, as the stack or the pool names it, else the work directory.
      std::string place = disk ? machine.spec.disk : "";
      if (disk && !instance.process->disk_path.empty()) {
        auto filled_place = Fill(*context, instance, instance.process->disk_path);
        if (!filled_place.ok()) {
          refusals->push_back(ErrorOf(filled_place.status()));
          continue;
        }
        place = *std::move(filled_place);
      }
      const std::optional<uint64_t> free_on_disk =
          place.empty() ? facts.work_dir_free_bytes() : FreeOnDisk(facts, place);
      if (!free_on_disk) {
        if (not_offered.insert(absl::StrCat(machine.name, place)).second)
          refuse(absl::StrCat("tier ", source, " of '", tier.owner, "' would lie at '", place,
                              "', which machine ", machine.name, " does not offer"),
                 "add it, or a directory above it, below 'directories:' of that machine's agent.yaml");
        continue;
      }
      const uint64_t limit = disk     ? *free_on_disk
                             : locked ? facts.memory_lockable_bytes()
                                      : facts.memory_available_bytes();
      uint64_t bytes = 0;
      if (text == "auto") {
        // Half of what is there, shared by the holders on the machine, in whole MiB.
        bytes = limit / 2 / std::max(1u, owners_on[medium(instance, disk)]) >> 20 << 20;
      } else {
        auto parsed = ParseBytes(text);
        if (!parsed.ok()) {
          refuse(absl::StrCat("tier ", source, " of '", tier.owner, "': '", text, "' is no size"),
                 "write 64GiB or auto");
          continue;
        }
        bytes = *parsed;
      }
      uint64_t& total = (disk ? disk_total : locked ? locked_total : memory_total)[machine.name];
      total += bytes;
      if (total > limit) {
        refuse(
            absl::StrCat("tier ", source, " of '", tier.owner, "' needs ", FormatBytes(bytes), " on machine ",
                         machine.name, ", which ", locked ? "can lock " : "has ", FormatBytes(limit),
                         disk ? absl::StrCat(" free on disk at ", place.empty() ? facts.work_dir() : place)
                         : locked ? ""
                                  : " of memory free",
                         total > bytes ? absl::StrCat(" (", FormatBytes(total), " together)") : ""),
            disk     ? "lower the size or name another disk"
            : locked ? "lower the size, or raise the machine's memlock limit"
                     : "lower the size");
      }
      // What is locked is taken from the memory that is free, like the rest.
      const uint64_t together = locked_total[machine.name] + memory_total[machine.name];
      if (!disk && total <= limit && together > facts.memory_available_bytes()) {
        refuse(
            absl::StrCat("tier ", source, " of '", tier.owner, "' needs ", FormatBytes(bytes), " on machine ",
                         machine.name, ", which has ", FormatBytes(facts.memory_available_bytes()),
                         " of memory free (", FormatBytes(together), " together)"),
            "lower the sizes");
      }
      context->tier_bytes[instance.id][source] = bytes;
      plan->tiers.push_back({tier.source, bytes, machine.name, instance.id});
    }
  }
}

}  // namespace poolmark::controller
