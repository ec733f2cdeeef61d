#include "controller/machines/registry.h"

#include <algorithm>
#include <set>

#include "absl/strings/str_cat.h"
#include "common/base/log.h"
#include "common/base/time_format.h"
#include "controller/jobs/epochs.h"
#include "controller/machines/unknown_machine.h"

namespace poolmark::controller {
namespace {

constexpr Nanoseconds kTickGap = std::chrono::seconds(3);
constexpr size_t kPastBoots = 8;

// Agents keep the runs of one day.
constexpr int kMaxHeld = 5000;
constexpr size_t kMaxHeldBytes = 1u << 20;

bool EndedClean(const v1::HeldJob& job) {
  return job.clean() && job.state() != "running" && !job.guard_alive() && job.open_items() == 0;
}

// What an agent may say of itself: everything of it is kept in memory and shown in lists.
Status CheckHeld(const std::string& machine, const google::protobuf::RepeatedPtrField<v1::HeldJob>& held) {
  size_t bytes = 0;
  for (const v1::HeldJob& job : held) bytes += job.ByteSizeLong();
  if (held.size() <= kMaxHeld && bytes <= kMaxHeldBytes) return absl::OkStatus();
  return InvalidInput(absl::StrCat("machine '", machine, "'"),
                      absl::StrCat("its agent names ", held.size(), " runs in ", bytes, " bytes, at most ",
                                   kMaxHeld, " in ", kMaxHeldBytes, " are taken"),
                      "look at the runs in its state directory");
}

}  // namespace

Registry::Registry(Store* store, const Clock* clock, Timing timing, LinkFactory make_link)
    : store_(store),
      clock_(clock),
      timing_(timing),
      make_link_(std::move(make_link)),
      last_tick_(clock->Steady()) {}

Status Registry::Load() {
  POOLMARK_ASSIGN_OR_RETURN(auto stored, store_->Machines());
  std::lock_guard lock(mutex_);
  const Nanoseconds now = clock_->Steady();
  for (StoredMachine& machine : stored) {
    Entry& entry = machines_[machine.name];
    entry.boot_id = machine.registration.boot_id();
    entry.agent_id = machine.registration.agent_id();
    entry.last_beat = now;
    entry.last_beat_wall = clock_->Wall().count();
    entry.stored = std::move(machine);
  }
  return absl::OkStatus();
}

Status Registry::Refresh() {
  std::lock_guard order(rows_mutex_);
  POOLMARK_ASSIGN_OR_RETURN(auto stored, store_->Machines());
  std::lock_guard lock(mutex_);
  for (StoredMachine& machine : stored) machines_[machine.name].stored = std::move(machine);
  return absl::OkStatus();
}

std::vector<std::string> Registry::JudgeHeld(const std::string& machine,
                                             const google::protobuf::RepeatedPtrField<v1::HeldJob>& held) {
  std::vector<std::string> tear_down;
  {
    // Each message names all that it holds. What it named before is still good as a proof, but not for ever.
    std::lock_guard lock(mutex_);
    auto& known = machines_[machine].held;
    if (known.size() + static_cast<size_t>(held.size()) > kMaxHeld) known.clear();
  }
  // A job may have had more than one lease here: all of them must have ended well.
  std::set<std::string> open;
  for (const v1::HeldJob& job : held) {
    if (!EndedClean(job)) open.insert(job.job_id());
  }
  for (const v1::HeldJob& job : held) {
    auto stored = store_->Get(job.job_id());
    const bool known = stored.ok() && stored->job.id() == job.job_id();
    bool owned = false;
    {
      std::lock_guard lock(mutex_);
      Entry& entry = machines_[machine];
      v1::HeldJob& kept = entry.held[job.job_id()];
      if (job.epoch() >= kept.epoch() && (!EndedClean(job) || open.count(job.job_id()) == 0)) kept = job;
      owned = known && entry.stored.job_id == job.job_id() && !IsTerminal(stored->job.state());
    }
    if (owned) continue;  // its runner decides
    if (job.state() == "running" || job.guard_alive() || job.open_items() > 0) {
      Log(LogLevel::kWarning, "machine.holds_unowned_job",
          {{"machine", machine}, {"job", job.job_id()}, {"known", known ? "yes" : "no"}});
      tear_down.push_back(job.job_id());
      if (!known && store_->recovered()) {
        (void)store_->Quarantine(
            machine, job.job_id(),
            absl::StrCat("holds job ", job.job_id(), ", which the recovered store does not know"));
      }
      continue;
    }
    // Proof of an end that no controller saw: what was quarantined for this job is clean again.
    if (open.count(job.job_id()) != 0) continue;
    if (store_->Proven(machine, job.job_id()).value_or(false))
      Log(LogLevel::kInfo, "machine.proved_clean", {{"machine", machine}, {"job", job.job_id()}});
  }
  if (!held.empty()) (void)Refresh();
  return tear_down;
}

Result<v1::RegisterResponse> Registry::Register(const v1::RegisterRequest& request) {
  if (request.machine().empty() || request.address().empty()) {
    return InvalidInput("Register", "machine and address must be given",
                        "start the agent with its own name and address");
  }
  const auto& versions = request.api_versions();
  if (std::find(versions.begin(), versions.end(), "v1") == versions.end()) {
    return Precondition(absl::StrCat("machine '", request.machine(), "'"),
                        absl::StrCat("agent ", request.agent_version(), " does not speak API v1"),
                        "upgrade the agent to the controller's version");
  }
  POOLMARK_RETURN_IF_ERROR(CheckHeld(request.machine(), request.held()));
  v1::RegisterRequest itself = request;
  itself.clear_held();
  if (itself.ByteSizeLong() > kMaxMachineBytes) {
    return InvalidInput(absl::StrCat("machine '", request.machine(), "'"),
                        absl::StrCat("its agent's facts have ", itself.ByteSizeLong(), " bytes, at most ",
                                     kMaxMachineBytes, " are taken"),
                        "look at its network devices, drives and open ports");
  }
  {
    std::lock_guard lock(mutex_);
    auto found = machines_.find(request.machine());
    if (found != machines_.end() && found->second.stored.state == v1::MACHINE_STATE_REVOKED) {
      return ToStatus(Error{absl::StatusCode::kPermissionDenied, "revoked", request.machine(),
                            "this machine was revoked", "clear it and enrol it again with a new token"});
    }
    // An agent whose tools take long beats before it has read its facts: those of before count until then,
    // but not past a reboot.
    if (!itself.has_facts() && found != machines_.end()) {
      const v1::RegisterRequest& before = found->second.stored.registration;
      const bool same = before.boot_id() == request.boot_id() || !found->second.stored.job_id.empty();
      if (before.has_facts() && same) *itself.mutable_facts() = before.facts();
    }
  }
  POOLMARK_RETURN_IF_ERROR(CheckOneAgent(request));
  {
    std::lock_guard order(rows_mutex_);
    POOLMARK_RETURN_IF_ERROR(store_->SaveRegistration(itself));
    std::lock_guard lock(mutex_);
    Entry& entry = machines_[request.machine()];
    if (entry.stored.name.empty()) {
      entry.stored.name = request.machine();
      entry.stored.state = v1::MACHINE_STATE_READY;
    }
    const bool same_boot = entry.boot_id == request.boot_id();
    entry.stored.registration = std::move(itself);
    if (!entry.boot_id.empty() && entry.boot_id != request.boot_id()) {
      Log(LogLevel::kWarning, "machine.rebooted", {{"machine", request.machine()}});
      entry.clock.Forget();
      entry.past_boots.push_back(entry.boot_id);
      if (entry.past_boots.size() > kPastBoots) entry.past_boots.erase(entry.past_boots.begin());
    }
    if (entry.agent_id != request.agent_id()) {
      entry.past_boots.clear();
      entry.clock.Forget();
    }
    entry.agent_id = request.agent_id();
    if (entry.stored.job_id.empty()) {
      if (request.has_facts()) {
        entry.facts = request.facts();
      } else if (!same_boot) {
        entry.facts.reset();
      }
    } else if (entry.facts && request.has_facts()) {
      // What is free is not to be seen while a job uses it; what the machine permits is.
      *entry.facts->mutable_executables() = request.facts().executables();
      *entry.facts->mutable_secrets() = request.facts().secrets();
      *entry.facts->mutable_bmc_logins() = request.facts().bmc_logins();
    }
    entry.boot_id = request.boot_id();
    entry.registered = true;
    entry.held.clear();
    NoteBeat(&entry, clock_->Steady());
  }
  FollowEpoch(request.machine(), request.highest_epoch());
  v1::RegisterResponse response;
  response.set_cluster_id(store_->cluster_id());
  response.set_controller_epoch(store_->controller_epoch());
  response.set_heartbeat_interval_ns(Interval().count());
  for (const std::string& job : JudgeHeld(request.machine(), request.held())) response.add_tear_down(job);
  return response;
}

Status Registry::CheckOneAgent(const v1::RegisterRequest& request) {
  const std::string where = absl::StrCat("machine '", request.machine(), "'");
  bool copies = false, keep_out = false;
  {
    std::lock_guard lock(mutex_);
    auto found = machines_.find(request.machine());
    if (found == machines_.end()) return absl::OkStatus();
    Entry& entry = found->second;
    const std::string known = entry.stored.registration.address();
    const Nanoseconds now = clock_->Steady(), silence = now - entry.last_beat;
    // Two state directories: what the one has begun the other cannot prove gone. Who was there first stays
    // until it has been silent for as long as a lease lasts.
    const bool another = entry.agent_id != request.agent_id();
    if (another && !entry.agent_id.empty() && !request.agent_id().empty() && silence <= timing_.lease) {
      if (entry.rival != request.address() || now - entry.rival_at > kRivalShown) {
        Log(LogLevel::kWarning, "machine.two_agents",
            {{"machine", request.machine()}, {"known", known}, {"refused", request.address()}});
      }
      entry.rival = request.address();
      entry.rival_at = now;
      return ToStatus(Error{
          absl::StatusCode::kFailedPrecondition, "two_agents", where,
          absl::StrCat("the agent at ", known, " is this machine, and was heard of ",
                       FormatDuration(std::chrono::floor<std::chrono::seconds>(silence)), " ago"),
          absl::StrCat(
              "end one of the two agents of this name; where this one has taken the other's place it is "
              "taken after ",
              FormatDuration(std::chrono::floor<std::chrono::seconds>(timing_.lease)),
              " without a word of the other")});
    }
    // One state directory, two machines: no machine comes back to a boot that is over.
    copies = !another && std::find(entry.past_boots.begin(), entry.past_boots.end(), request.boot_id()) !=
                             entry.past_boots.end();
    keep_out = copies && entry.stored.given == v1::MACHINE_STATE_READY;
  }
  if (!copies) return absl::OkStatus();
  Log(LogLevel::kError, "machine.copied", {{"machine", request.machine()}, {"refused", request.address()}});
  const std::string why =
      "two machines run copies of one agent's state directory: join one of them anew under another name";
  if (keep_out) {
    POOLMARK_RETURN_IF_ERROR(store_->SetMachine(request.machine(), v1::MACHINE_STATE_QUARANTINED, why));
    POOLMARK_RETURN_IF_ERROR(Refresh());
  }
  return ToStatus(Error{absl::StatusCode::kFailedPrecondition, "two_agents", where, why, ""});
}

void Registry::FollowEpoch(const std::string& machine, uint64_t highest) {
  if (highest > kMostEpoch) {
    {
      std::lock_guard lock(mutex_);
      if (machines_[machine].stored.state != v1::MACHINE_STATE_READY) return;
    }
    // An agent says what it likes; it must not be what keeps a store from counting on.
    Log(LogLevel::kError, "machine.epoch_impossible", {{"machine", machine}, {"epoch", highest}});
    (void)store_->SetMachine(
        machine, v1::MACHINE_STATE_QUARANTINED,
        absl::StrCat("its agent claims to have seen grant ", highest,
                     ", which no controller gave: look at lease.json in its state directory"));
    (void)Refresh();
    return;
  }
  {
    std::lock_guard lock(mutex_);
    const StoredMachine& stored = machines_[machine].stored;
    if (highest <= stored.epoch || !stored.job_id.empty()) return;
  }
  Log(LogLevel::kWarning, "machine.epoch_ahead", {{"machine", machine}, {"epoch", highest}});
  Status raised = store_->RaiseEpoch(machine, highest);
  if (raised.ok()) raised = Refresh();
  if (!raised.ok())
    Log(LogLevel::kError, "machine.epoch_kept",
        {{"machine", machine}, {"error", std::string(raised.message())}});
}

void Registry::NoteBeat(Entry* entry, Nanoseconds now) {
  const Nanoseconds silence = now - entry->last_beat;
  if (entry->last_beat.count() != 0 && silence > entry->longest_silence) {
    entry->longest_silence = silence;
    entry->silence_began_wall = entry->last_beat_wall;
  }
  entry->last_beat = now;
  entry->last_beat_wall = clock_->Wall().count();
  if (entry->lost) Log(LogLevel::kInfo, "machine.back", {{"machine", entry->stored.name}});
  entry->lost = false;
}

Result<v1::HeartbeatResponse> Registry::Heartbeat(const v1::HeartbeatRequest& request,
                                                  int64_t received_wall_ns) {
  POOLMARK_RETURN_IF_ERROR(CheckHeld(request.machine(), request.held()));
  v1::HeartbeatResponse response;
  bool held_changed = false;
  {
    std::lock_guard lock(mutex_);
    response.set_received_wall_ns(received_wall_ns);
    response.set_heartbeat_interval_ns(
        std::max<Nanoseconds>(timing_.heartbeat,
                              Nanoseconds(static_cast<int64_t>(machines_.size()) * 1'000'000'000 / 500))
            .count());
    auto found = machines_.find(request.machine());
    if (found == machines_.end() || !found->second.registered ||
        request.controller_epoch() != store_->controller_epoch() ||
        found->second.boot_id != request.boot_id() || found->second.agent_id != request.agent_id()) {
      response.set_register_again(true);
      response.set_replied_wall_ns(clock_->Wall().count());
      return response;
    }
    Entry& entry = found->second;
    const Nanoseconds now = clock_->Steady();
    NoteBeat(&entry, now);
    // A lease is renewed only for who holds the machine now: job and epoch must both be the store's.
    if (request.has_lease() && !entry.stored.job_id.empty() &&
        request.lease().job_id() == entry.stored.job_id && request.lease().epoch() == entry.stored.epoch &&
        entry.stored.state != v1::MACHINE_STATE_REVOKED) {
      response.set_lease_ttl_ns(timing_.lease.count());
    }
    for (const v1::HeldJob& job : request.held()) {
      auto known = entry.held.find(job.job_id());
      if (known == entry.held.end() || known->second.SerializeAsString() != job.SerializeAsString())
        held_changed = true;
    }
    for (const std::string& serial : revoked_) response.add_revoked_serials(serial);
    if (request.previous_sent_wall_ns() != 0) {
      entry.clock.Completed(request.previous_sent_wall_ns(), request.previous_reply_wall_ns());
    }
    response.set_replied_wall_ns(clock_->Wall().count());
    entry.clock.Received(request.sent_wall_ns(), request.sent_boot_ns(), received_wall_ns,
                         response.replied_wall_ns(), now);
  }
  FollowEpoch(request.machine(), request.highest_epoch());
  if (held_changed) {
    // A heartbeat cannot order a tear-down; registering again can.
    if (!JudgeHeld(request.machine(), request.held()).empty()) response.set_register_again(true);
  }
  return response;
}

Nanoseconds Registry::Interval() const {
  std::lock_guard lock(mutex_);
  return std::max<Nanoseconds>(timing_.heartbeat,
                               Nanoseconds(static_cast<int64_t>(machines_.size()) * 1'000'000'000 / 500));
}

uint64_t Registry::epoch(const std::string& machine) const {
  std::lock_guard lock(mutex_);
  auto found = machines_.find(machine);
  return found == machines_.end() ? 0 : found->second.stored.epoch;
}

Status Registry::NoteTaken(const std::string& machine, const v1::LeaseId& lease) {
  {
    std::lock_guard lock(mutex_);
    auto found = machines_.find(machine);
    if (found != machines_.end())
      found->second.answered_epoch = std::max(found->second.answered_epoch, lease.epoch());
  }
  if (HasTaken(machine, lease.job_id())) return absl::OkStatus();
  POOLMARK_RETURN_IF_ERROR(store_->NoteTaken(lease.job_id(), machine));
  return Refresh();
}

bool Registry::HasTaken(const std::string& machine, const std::string& job_id) const {
  std::lock_guard lock(mutex_);
  auto found = machines_.find(machine);
  return found != machines_.end() && found->second.stored.taken == job_id;
}

Nanoseconds Registry::Silence(const std::string& machine) const {
  std::lock_guard lock(mutex_);
  auto found = machines_.find(machine);
  if (found == machines_.end()) return Nanoseconds::max();
  return clock_->Steady() - found->second.last_beat;
}

bool Registry::IsLost(const std::string& machine) const {
  return Silence(machine) > timing_.lease;
}

void Registry::Watch(const std::string& machine) {
  std::lock_guard lock(mutex_);
  auto found = machines_.find(machine);
  if (found == machines_.end()) return;
  Entry& entry = found->second;
  entry.watch_start = clock_->Steady();
  entry.longest_silence = Nanoseconds(0);
  entry.silence_began_wall = 0;
  entry.watch_boot_id = entry.boot_id;
}

Presence Registry::PresenceOf(const std::string& machine) const {
  Presence presence;
  std::lock_guard lock(mutex_);
  auto found = machines_.find(machine);
  if (found == machines_.end()) return presence;
  const Entry& entry = found->second;
  presence.longest_silence = entry.longest_silence;
  presence.silence_began_wall = Nanoseconds(entry.silence_began_wall);
  const Nanoseconds open = clock_->Steady() - entry.last_beat;
  if (open > presence.longest_silence) {
    presence.longest_silence = open;
    presence.silence_began_wall = Nanoseconds(entry.last_beat_wall);
  }
  presence.worst_clock = entry.clock.WorstSince(entry.watch_start);
  presence.largest_step = entry.clock.LargestStepSince(entry.watch_start);
  presence.boot_changed = entry.watch_boot_id != entry.boot_id;
  return presence;
}

std::optional<v1::HeldJob> Registry::Held(const std::string& machine, const std::string& job_id) const {
  std::lock_guard lock(mutex_);
  auto found = machines_.find(machine);
  if (found == machines_.end()) return std::nullopt;
  auto held = found->second.held.find(job_id);
  if (held == found->second.held.end()) return std::nullopt;
  // How an earlier grant ended says nothing of what was begun under a later one.
  if (held->second.epoch() < found->second.answered_epoch) return std::nullopt;
  return held->second;
}

void Registry::Tick(const std::function<void(const std::string&, const std::string&)>& on_lost) {
  std::vector<std::pair<std::string, std::string>> lost;
  {
    std::lock_guard lock(mutex_);
    const Nanoseconds now = clock_->Steady();
    const Nanoseconds gap = now - last_tick_;
    last_tick_ = now;
    if (gap > kTickGap) {
      // This process stood still (SIGSTOP, a starved host): no machine could be heard meanwhile.
      Log(LogLevel::kWarning, "controller.paused",
          {{"seconds", std::to_string(gap.count() / 1'000'000'000)}});
      for (auto& [name, entry] : machines_) {
        if (now - entry.last_beat >= gap) entry.last_beat += gap;
      }
    }
    for (auto& [name, entry] : machines_) {
      if (entry.lost || now - entry.last_beat <= timing_.lease) continue;
      entry.lost = true;
      if (entry.registered) ++lost_total_;
      lost.emplace_back(name, entry.stored.job_id);
    }
  }
  for (const auto& [machine, job] : lost) {
    Log(LogLevel::kWarning, "machine.lost", {{"machine", machine}, {"job", job}});
    on_lost(machine, job);
  }
}

void Registry::SetRevoked(std::vector<std::string> serials) {
  std::lock_guard lock(mutex_);
  revoked_ = std::move(serials);
}

uint64_t Registry::lost_total() const {
  std::lock_guard lock(mutex_);
  return lost_total_;
}

}  // namespace poolmark::controller
