#include "agent/facts/wary_spawner.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/base/time_format.h"

namespace poolmark::agent {
namespace {

constexpr Nanoseconds kLook = std::chrono::milliseconds(100);

Status NotAsked(const std::string& tool, std::string why) {
  return ToStatus(Error{absl::StatusCode::kDeadlineExceeded, "tool_hangs", tool, std::move(why),
                        absl::StrCat("run '", tool, "' by hand on this machine")});
}

}  // namespace

class WarySpawner::WaryChild final : public Child {
 public:
  WaryChild(WarySpawner* owner, std::string tool, std::unique_ptr<Child> inner)
      : owner_(owner), tool_(std::move(tool)), inner_(std::move(inner)) {}

  int pid() const override { return inner_->pid(); }
  const CommandOutput& Poll() override { return inner_->Poll(); }
  bool ended() const override { return inner_->ended(); }
  bool Wait(Nanoseconds timeout) override {
    Nanoseconds left = timeout;
    while (left > Nanoseconds(0) && !owner_->stop_.stop_requested()) {
      const Nanoseconds piece = std::min(left, kLook);
      if (inner_->Wait(piece)) return true;
      left -= piece;
    }
    if (inner_->Wait(Nanoseconds(0))) return true;
    if (!owner_->stop_.stop_requested()) owner_->WaitedInVain(tool_, timeout);
    return false;
  }
  CommandOutput Stop(Nanoseconds grace) override { return inner_->Stop(grace); }

 private:
  WarySpawner* owner_;
  std::string tool_;
  std::unique_ptr<Child> inner_;
};

void WarySpawner::WaitedInVain(const std::string& tool, Nanoseconds waited) {
  std::lock_guard lock(mutex_);
  lost_ += waited;
  if (waited >= limits_.hung_after) hung_[tool] = std::max(hung_[tool], waited);
}

Result<std::unique_ptr<Child>> WarySpawner::Start(const Command& command) {
  const std::string tool = command.argv.empty() ? "" : command.argv[0];
  if (stop_.stop_requested()) return NotAsked(tool, "the agent is stopping");
  {
    std::lock_guard lock(mutex_);
    if (const auto found = hung_.find(tool); found != hung_.end())
      return NotAsked(tool, absl::StrCat("did not end within ", FormatDuration(found->second),
                                         " a moment ago and is not asked again"));
    if (lost_ >= limits_.together && FindExecutable(tool))
      return NotAsked(tool, absl::StrCat("is not asked: other tools here did not end, ",
                                         FormatDuration(lost_), " were spent on them"));
  }
  POOLMARK_ASSIGN_OR_RETURN(auto child, inner_->Start(command));
  return std::make_unique<WaryChild>(this, tool, std::move(child));
}

}  // namespace poolmark::agent
