// The registry's administrative states: drain, quarantine, clear, revoke.
#include "absl/strings/str_cat.h"
#include "common/base/log.h"
#include "controller/machines/registry.h"

namespace poolmark::controller {

Result<v1::Machine> Registry::Act(const std::string& name, v1::MachineAction action,
                                  const std::string& reason, bool by_admin) {
  POOLMARK_ASSIGN_OR_RETURN(v1::Machine now, Get(name));
  v1::MachineState stored_state = v1::MACHINE_STATE_READY, given = v1::MACHINE_STATE_READY;
  {
    std::lock_guard lock(mutex_);
    stored_state = machines_.at(name).stored.state;
    given = machines_.at(name).stored.given;
  }
  const std::string where = absl::StrCat("machine '", name, "'");
  v1::MachineState next = v1::MACHINE_STATE_UNSPECIFIED;
  switch (action) {
    case v1::MACHINE_ACTION_DRAIN:
      if (stored_state != v1::MACHINE_STATE_READY && stored_state != v1::MACHINE_STATE_DRAINED) {
        return Precondition(where, absl::StrCat("only a ready machine can be drained: ", now.reason()),
                            "clear it first");
      }
      next = v1::MACHINE_STATE_DRAINED;
      break;
    case v1::MACHINE_ACTION_UNDRAIN:
      // Also of one that is quarantined as well: that stays.
      if (stored_state != v1::MACHINE_STATE_READY && given != v1::MACHINE_STATE_DRAINED) {
        return Precondition(where, "it is not drained", "use `clear` for a quarantined or revoked machine");
      }
      next = v1::MACHINE_STATE_READY;
      break;
    case v1::MACHINE_ACTION_QUARANTINE:
      if (stored_state == v1::MACHINE_STATE_REVOKED) {
        return Precondition(where, "it is revoked, which is more than a quarantine",
                            "an admin can clear it first");
      }
      next = v1::MACHINE_STATE_QUARANTINED;
      break;
    case v1::MACHINE_ACTION_CLEAR:
      if (stored_state == v1::MACHINE_STATE_REVOKED && !by_admin) {
        return ToStatus(Error{absl::StatusCode::kPermissionDenied, "needs_admin", where,
                              "an admin revoked it, and only an admin takes that back", "ask an admin"});
      }
      next = v1::MACHINE_STATE_READY;
      break;
    case v1::MACHINE_ACTION_REVOKE:
      next = v1::MACHINE_STATE_REVOKED;
      break;
    default:
      return InvalidInput(where, "unknown action", "use drain, undrain, quarantine, clear or revoke");
  }
  const std::string text = next == v1::MACHINE_STATE_READY ? "" : (reason.empty() ? "set by hand" : reason);
  if (action == v1::MACHINE_ACTION_CLEAR) {
    std::lock_guard lock(mutex_);
    machines_.at(name).past_boots.clear();
  }
  POOLMARK_RETURN_IF_ERROR(action == v1::MACHINE_ACTION_CLEAR ? store_->ClearMachine(name)
                                                              : store_->SetMachine(name, next, text));
  Log(LogLevel::kInfo, "machine.state",
      {{"machine", name}, {"state", v1::MachineState_Name(next)}, {"reason", text}});
  POOLMARK_RETURN_IF_ERROR(Refresh());
  return Get(name);
}

}  // namespace poolmark::controller
