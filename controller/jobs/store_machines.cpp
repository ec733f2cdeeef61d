// Machines of the store.
#include "absl/strings/str_cat.h"
#include "controller/jobs/epochs.h"
#include "controller/jobs/sqlite.h"
#include "controller/jobs/standing.h"
#include "controller/jobs/store.h"

namespace poolmark::controller {
namespace {

std::string MachineStateText(v1::MachineState state) {
  return v1::MachineState_Name(state).substr(sizeof("MACHINE_STATE_") - 1);
}
v1::MachineState MachineStateOf(const std::string& text) {
  v1::MachineState state = v1::MACHINE_STATE_QUARANTINED;  // an unknown word fails safe
  v1::MachineState_Parse(absl::StrCat("MACHINE_STATE_", text), &state);
  return state;
}

// What of a registration is worth a write: what changes with every start of an agent does not count.
std::string Durable(const v1::RegisterRequest& registration) {
  v1::RegisterRequest copy = registration;
  copy.clear_held();
  copy.clear_highest_epoch();
  copy.mutable_facts()->clear_memory_available_bytes();
  copy.mutable_facts()->clear_work_dir_free_bytes();
  for (v1::Disk& disk : *copy.mutable_facts()->mutable_disks()) disk.clear_free_bytes();
  copy.mutable_facts()->clear_used_ports();
  copy.mutable_facts()->clear_clock();
  return copy.SerializeAsString();
}

}  // namespace

Result<std::vector<StoredMachine>> Store::Machines() {
  std::lock_guard lock(mutex_);
  POOLMARK_ASSIGN_OR_RETURN(
      Statement list, db_->Prepare(absl::StrCat("SELECT name, state, reason, job_id, epoch, registration, ",
                                                kUnproven, ", taken FROM machines ORDER BY name")));
  std::vector<StoredMachine> machines;
  for (;;) {
    POOLMARK_ASSIGN_OR_RETURN(bool row, list.Step());
    if (!row) return machines;
    StoredMachine machine;
    machine.name = list.TextAt(0);
    const Standing standing = StandingOf(list.TextAt(1), list.TextAt(2), list.TextAt(6));
    machine.state = MachineStateOf(standing.state);
    machine.reason = standing.reason;
    machine.given = MachineStateOf(list.TextAt(1));
    machine.job_id = list.TextAt(3);
    machine.taken = list.TextAt(7);
    machine.epoch = static_cast<uint64_t>(list.IntAt(4));
    if (!machine.registration.ParseFromString(list.TextAt(5))) machine.registration.set_machine(machine.name);
    machines.push_back(std::move(machine));
  }
}

Status Store::SaveRegistration(const v1::RegisterRequest& registration) {
  std::lock_guard lock(mutex_);
  POOLMARK_ASSIGN_OR_RETURN(Statement find,
                            db_->Prepare("SELECT registration, job_id FROM machines WHERE name=?"));
  find.Text(registration.machine());
  POOLMARK_ASSIGN_OR_RETURN(bool known, find.Step());
  v1::RegisterRequest kept = registration;
  if (known) {
    v1::RegisterRequest old;
    const bool readable = old.ParseFromString(find.TextAt(0));
    if (readable && Durable(old) == Durable(registration)) return absl::OkStatus();
    // What a job uses is not free now: a plan made again after a restart needs what was free at its lock.
    if (readable && old.has_facts() && !find.TextAt(1).empty()) *kept.mutable_facts() = old.facts();
  }
  kept.clear_held();
  kept.clear_highest_epoch();
  POOLMARK_ASSIGN_OR_RETURN(
      Statement put, db_->Prepare("INSERT INTO machines(name, state, registration) VALUES(?,'READY',?) "
                                  "ON CONFLICT(name) DO UPDATE SET registration=excluded.registration"));
  return put.Text(registration.machine()).Blob(kept.SerializeAsString()).Run();
}

Status Store::SaveFacts(const std::string& machine, const v1::Facts& facts) {
  std::lock_guard lock(mutex_);
  POOLMARK_ASSIGN_OR_RETURN(Statement find, db_->Prepare("SELECT registration FROM machines WHERE name=?"));
  find.Text(machine);
  POOLMARK_ASSIGN_OR_RETURN(bool known, find.Step());
  v1::RegisterRequest registration;
  if (!known || !registration.ParseFromString(find.TextAt(0)))
    return NotFound(absl::StrCat("machine '", machine, "'"), "it has not registered");
  *registration.mutable_facts() = facts;
  POOLMARK_ASSIGN_OR_RETURN(Statement put, db_->Prepare("UPDATE machines SET registration=? WHERE name=?"));
  return put.Blob(registration.SerializeAsString()).Text(machine).Run();
}

Status Store::SetMachine(const std::string& name, v1::MachineState state, const std::string& reason) {
  std::lock_guard lock(mutex_);
  POOLMARK_ASSIGN_OR_RETURN(Statement put,
                            db_->Prepare("UPDATE machines SET state=?, reason=? WHERE name=?"));
  POOLMARK_RETURN_IF_ERROR(put.Text(MachineStateText(state)).Text(reason).Text(name).Run());
  if (db_->Changes() == 0) {
    return NotFound(absl::StrCat("machine '", name, "'"), "no such machine",
                    "list them with `poolmark machines`");
  }
  return absl::OkStatus();
}

Status Store::QuarantineLocked(const std::string& machine, const std::string& job_id,
                               const std::string& why) {
  POOLMARK_ASSIGN_OR_RETURN(Statement put, db_->Prepare("INSERT OR REPLACE INTO unproven VALUES(?,?,?)"));
  return put.Text(machine).Text(job_id).Text(why).Run();
}

Status Store::Quarantine(const std::string& machine, const std::string& job_id, const std::string& why) {
  std::lock_guard lock(mutex_);
  return QuarantineLocked(machine, job_id, why);
}

Result<bool> Store::Proven(const std::string& machine, const std::string& job_id) {
  std::lock_guard lock(mutex_);
  POOLMARK_ASSIGN_OR_RETURN(Statement gone,
                            db_->Prepare("DELETE FROM unproven WHERE machine=? AND job_id=?"));
  POOLMARK_RETURN_IF_ERROR(gone.Text(machine).Text(job_id).Run());
  return db_->Changes() > 0;
}

Status Store::ClearMachine(const std::string& name) {
  std::lock_guard lock(mutex_);
  POOLMARK_ASSIGN_OR_RETURN(Transaction transaction, Transaction::Begin(db_.get()));
  POOLMARK_ASSIGN_OR_RETURN(Statement gone, db_->Prepare("DELETE FROM unproven WHERE machine=?"));
  POOLMARK_RETURN_IF_ERROR(gone.Text(name).Run());
  const bool unproven = db_->Changes() > 0;
  // A drain that stood before the quarantine goes on: it has an end of its own.
  POOLMARK_ASSIGN_OR_RETURN(
      Statement put,
      db_->Prepare(unproven ? "UPDATE machines SET state='READY', reason='' WHERE name=? AND state<>'DRAINED'"
                            : "UPDATE machines SET state='READY', reason='' WHERE name=?"));
  POOLMARK_RETURN_IF_ERROR(put.Text(name).Run());
  return transaction.Commit();
}

Status Store::NoteTaken(const std::string& job_id, const std::string& machine) {
  std::lock_guard lock(mutex_);
  POOLMARK_ASSIGN_OR_RETURN(Statement put, db_->Prepare("UPDATE machines SET taken=? WHERE name=?"));
  return put.Text(job_id).Text(machine).Run();
}

Status Store::GrantAnew(const std::string& job_id, const std::string& machine) {
  std::lock_guard lock(mutex_);
  POOLMARK_ASSIGN_OR_RETURN(Statement put,
                            db_->Prepare("UPDATE machines SET epoch=epoch+1 WHERE name=? AND job_id=?"));
  POOLMARK_RETURN_IF_ERROR(put.Text(machine).Text(job_id).Run());
  if (db_->Changes() == 0)
    return Precondition(absl::StrCat("machine '", machine, "'"),
                        absl::StrCat("job ", job_id, " does not hold it"), "");
  return absl::OkStatus();
}

Status Store::RaiseEpoch(const std::string& machine, uint64_t epoch) {
  if (epoch > kMostEpoch)
    return InvalidInput(absl::StrCat("machine '", machine, "'"),
                        absl::StrCat("epoch ", epoch, ", at most ", kMostEpoch));
  std::lock_guard lock(mutex_);
  POOLMARK_ASSIGN_OR_RETURN(
      Statement put, db_->Prepare("UPDATE machines SET epoch=max(epoch,?) WHERE name=? AND job_id=''"));
  return put.Int(static_cast<int64_t>(epoch)).Text(machine).Run();
}

}  // namespace poolmark::controller
