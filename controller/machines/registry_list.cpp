// What the registry tells of machines: one, all, or a page of them.
#include "absl/strings/str_cat.h"
#include "common/base/time_format.h"
#include "controller/machines/registry.h"
#include "controller/machines/unknown_machine.h"

namespace poolmark::controller {

v1::Machine Registry::Describe(const Entry& entry, bool with_facts) const {
  v1::Machine machine;
  machine.set_name(entry.stored.name);
  machine.set_reason(entry.stored.reason);
  machine.set_job_id(entry.stored.job_id);
  machine.set_address(entry.stored.registration.address());
  machine.set_agent_version(entry.stored.registration.agent_version());
  const Nanoseconds silence = clock_->Steady() - entry.last_beat;
  machine.set_last_heartbeat_age_ns(silence.count());
  if (auto reading = entry.clock.reading()) {
    machine.set_clock_offset_ns(reading->offset.count());
    machine.set_clock_uncertainty_ns(reading->uncertainty.count());
  }
  const v1::Facts& facts = entry.facts ? *entry.facts : entry.stored.registration.facts();
  const bool facts_known = entry.facts || entry.stored.registration.has_facts();
  machine.set_gpus(static_cast<uint32_t>(facts.gpus_size()));
  if (facts.gpus_size() > 0) machine.set_gpu_model(facts.gpus(0).model());
  if (with_facts && facts_known) *machine.mutable_facts() = facts;
  v1::MachineState state = entry.stored.state;
  const bool lost = entry.lost || (!entry.registered && silence > timing_.lease);
  const bool silent = lost || !entry.registered || silence > timing_.suspect;
  const std::string since =
      absl::StrCat("no heartbeat for ", FormatDuration(std::chrono::floor<std::chrono::seconds>(silence)));
  if (state == v1::MACHINE_STATE_READY) {
    if (silent) {
      state = lost ? v1::MACHINE_STATE_LOST : v1::MACHINE_STATE_SUSPECT;
      machine.set_reason(since);
    } else if (!facts_known) {
      state = v1::MACHINE_STATE_SUSPECT;
      machine.set_reason("its agent is still reading what the machine has; a vendor tool there is slow");
    } else if (!entry.stored.job_id.empty()) {
      state = v1::MACHINE_STATE_BUSY;
    }
  } else if (lost && state != v1::MACHINE_STATE_REVOKED) {
    // What keeps it out stays its state; whoever waits to take it back must see that it does not answer.
    machine.set_reason(absl::StrCat(entry.stored.reason, entry.stored.reason.empty() ? "" : "; ", since));
  }
  if (!entry.rival.empty() && clock_->Steady() - entry.rival_at <= kRivalShown) {
    machine.set_reason(
        absl::StrCat(machine.reason(), machine.reason().empty() ? "" : "; ",
                     "another agent says that it is this machine, and is refused: ", entry.rival));
  }
  machine.set_state(state);
  return machine;
}

std::vector<v1::Machine> Registry::List(bool with_facts) const {
  std::lock_guard lock(mutex_);
  std::vector<v1::Machine> list;
  list.reserve(machines_.size());
  for (const auto& [name, entry] : machines_) list.push_back(Describe(entry, with_facts));
  return list;
}

Registry::Page Registry::ListPage(bool with_facts, const std::string& after, size_t size,
                                  size_t bytes) const {
  Page page;
  size_t taken = 0;
  std::lock_guard lock(mutex_);
  for (auto at = machines_.upper_bound(after); at != machines_.end(); ++at) {
    v1::Machine machine = Describe(at->second, with_facts);
    taken += machine.ByteSizeLong();
    if (!page.machines.empty() && (page.machines.size() == size || taken > bytes)) {
      page.next = page.machines.back().name();
      return page;
    }
    page.machines.push_back(std::move(machine));
  }
  return page;
}

Result<v1::Machine> Registry::Get(const std::string& name) const {
  std::lock_guard lock(mutex_);
  auto found = machines_.find(name);
  if (found == machines_.end()) return UnknownMachine(name);
  return Describe(found->second, true);
}

}  // namespace poolmark::controller
