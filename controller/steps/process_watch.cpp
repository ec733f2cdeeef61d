#include "controller/steps/process_watch.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/base/log.h"

namespace poolmark::controller {
namespace {

constexpr size_t kProgressKept = 1000;
constexpr size_t kProgressBytes = 64u << 10;  // of one line; a tick has a few hundred
// Processes that an agent speaks of before their start was answered; it has as many as the plan.
constexpr size_t kHeardKept = 1000;

bool IsEnd(v1::ProcessState state) {
  return state != v1::PROCESS_STATE_STARTING && state != v1::PROCESS_STATE_READY;
}

}  // namespace

std::string DescribeEnd(const v1::ProcessStatus& status) {
  std::string text = status.id();
  if (status.state() == v1::PROCESS_STATE_FAILED) {
    text += " did not start";
  } else if (status.out_of_memory()) {
    text += " was killed for want of memory";
  } else if (status.has_exit_signal()) {
    absl::StrAppend(&text, " was killed by signal ", status.exit_signal());
  } else if (status.has_exit_code()) {
    absl::StrAppend(&text, " ended with exit code ", status.exit_code());
  } else {
    text += " is gone";
  }
  if (!status.message().empty()) absl::StrAppend(&text, ": ", status.message());
  return text;
}

ProcessWatch::ProcessWatch(JobRun* run) : run_(run) {
  for (const std::string& machine : run->plan->machines) {
    threads_.emplace_back([this, machine](std::stop_token stop) { Follow(machine, stop); });
  }
}

ProcessWatch::~ProcessWatch() {
  for (std::jthread& thread : threads_) thread.request_stop();
}

void ProcessWatch::Follow(const std::string& machine, std::stop_token stop) {
  v1::WatchProcessesRequest request;
  *request.mutable_lease() = run_->Lease(machine);
  while (!stop.stop_requested()) {
    auto link = run_->registry->Link(machine);
    if (link.ok()) {
      Status status = (*link)->WatchProcesses(request, stop, [&](const v1::WatchProcessesResponse& response) {
        if (response.sequence() != 0) request.set_after_sequence(response.sequence());
        std::lock_guard lock(mutex_);
        if (response.has_status()) Heard(response.status());
        // A load's first line may be here before the answer to its start is.
        const bool known = progress_.contains(response.progress_id()) || progress_.size() < kHeardKept;
        if (!response.progress_id().empty() && known && response.progress_json().size() <= kProgressBytes) {
          auto& lines = progress_[response.progress_id()];
          lines.push_back(response.progress_json());
          if (lines.size() > kProgressKept) lines.pop_front();
        }
        changed_.notify_all();
        return !stop.stop_requested();
      });
      if (!status.ok() && !stop.stop_requested()) {
        Log(LogLevel::kWarning, "watch.broken",
            {{"machine", machine}, {"job", run_->job_id}, {"error", std::string(status.message())}});
        const std::string code = ErrorOf(status).code;
        if (code == "no_lease" || code == "stale_epoch") RunEnded(machine, std::string(status.message()));
      }
    }
    if (!WaitFor(stop, run_->timing.poll)) return;
  }
}

void ProcessWatch::SetTool(const std::string& id, const v1::Tool& tool) {
  std::lock_guard lock(mutex_);
  tools_[id] = tool;
}

std::map<std::string, v1::Tool> ProcessWatch::Tools() const {
  std::lock_guard lock(mutex_);
  return tools_;
}

void ProcessWatch::RunEnded(const std::string& machine, const std::string& why) {
  std::lock_guard lock(mutex_);
  for (auto& [id, known] : status_) {
    auto where = machine_of_.find(id);
    if (where == machine_of_.end() || where->second != machine || IsEnd(known.state())) continue;
    v1::ProcessStatus gone = known;
    gone.set_state(v1::PROCESS_STATE_EXITED);
    gone.set_message(absl::StrCat("its guard has ended, and everything on ", machine, " with it: ", why));
    Take(gone);
  }
}

void ProcessWatch::Heard(const v1::ProcessStatus& status) {
  if (heard_.size() >= kHeardKept) heard_.clear();
  heard_[{status.id(), status.pid()}] = status;
  auto known = status_.find(status.id());
  if (known == status_.end()) return;
  // Without a pid it never came to life: that is about the start we asked for.
  if (status.pid() == 0 || known->second.pid() == 0 || status.pid() == known->second.pid()) Take(status);
}

void ProcessWatch::Take(const v1::ProcessStatus& status) {
  v1::ProcessStatus& known = status_[status.id()];
  if (known.state() != v1::PROCESS_STATE_UNSPECIFIED && IsEnd(known.state())) return;  // an end is final
  if (known.state() == v1::PROCESS_STATE_READY && status.state() == v1::PROCESS_STATE_STARTING) return;
  known = status;
  if (IsEnd(status.state()) && !may_end_.contains(status.id()) && !death_) {
    death_ = Death{machine_of_[status.id()], status};
  }
  changed_.notify_all();
}

void ProcessWatch::Set(const std::string& machine, const v1::ProcessStatus& status) {
  std::lock_guard lock(mutex_);
  machine_of_[status.id()] = machine;
  status_.erase(status.id());
  Take(status);
  // The stream may have been faster than the reply.
  auto heard = heard_.find({status.id(), status.pid()});
  if (heard != heard_.end() && status.pid() != 0) Take(heard->second);
}

std::optional<v1::ProcessStatus> ProcessWatch::StatusOf(const std::string& id) const {
  std::lock_guard lock(mutex_);
  auto found = status_.find(id);
  if (found == status_.end()) return std::nullopt;
  return found->second;
}

void ProcessWatch::Expect(const std::string& id, bool expected_to_end) {
  std::lock_guard lock(mutex_);
  if (expected_to_end) {
    may_end_.insert(id);
  } else {
    may_end_.erase(id);
  }
}

void ProcessWatch::Forget(const std::string& id) {
  std::lock_guard lock(mutex_);
  status_.erase(id);
}

std::optional<ProcessWatch::Death> ProcessWatch::FirstDeath() const {
  std::lock_guard lock(mutex_);
  return death_;
}

bool ProcessWatch::Await(const std::function<bool()>& done, std::optional<Nanoseconds> deadline) {
  std::unique_lock lock(mutex_);
  for (;;) {
    if (done()) return true;
    if (death_ || run_->stop.stop_requested()) return false;
    if (deadline && run_->clock->Steady() >= *deadline) return false;
    changed_.wait_for(lock, run_->stop, run_->timing.poll, [] { return false; });
  }
}

bool ProcessWatch::AwaitReady(const std::vector<std::string>& ids, Nanoseconds deadline) {
  return Await(
      [&] {
        return std::all_of(ids.begin(), ids.end(), [&](const std::string& id) {
          auto found = status_.find(id);
          return found != status_.end() && found->second.state() == v1::PROCESS_STATE_READY;
        });
      },
      deadline);
}

bool ProcessWatch::AwaitEnd(const std::string& id, std::optional<Nanoseconds> deadline) {
  return Await(
      [&] {
        auto found = status_.find(id);
        return found != status_.end() && found->second.state() != v1::PROCESS_STATE_UNSPECIFIED &&
               IsEnd(found->second.state());
      },
      deadline);
}

std::vector<std::string> ProcessWatch::TakeProgress(const std::string& id) {
  std::lock_guard lock(mutex_);
  auto& lines = progress_[id];
  std::vector<std::string> taken(lines.begin(), lines.end());
  lines.clear();
  return taken;
}

}  // namespace poolmark::controller
