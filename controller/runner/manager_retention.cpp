// What goes: jobs that somebody deletes or that have expired, with their files, and answers that nobody asks
// for any more.
#include <sys/stat.h>

#include "absl/strings/str_cat.h"
#include "common/base/files.h"
#include "common/base/log.h"
#include "controller/runner/manager.h"
#include "controller/runner/results_writer.h"

namespace poolmark::controller {
namespace {

std::optional<uint64_t> FileSize(const std::string& path) {
  struct stat info {};
  if (lstat(path.c_str(), &info) != 0) return std::nullopt;
  return static_cast<uint64_t>(info.st_size);
}

}  // namespace

Result<uint64_t> JobManager::Delete(const std::string& job_id) {
  POOLMARK_ASSIGN_OR_RETURN(StoredJob job, environment_.store->Get(job_id));
  {
    std::lock_guard lock(mutex_);
    auto found = running_.find(job.job.id());
    if (!IsTerminal(job.job.state())) {
      return Precondition(absl::StrCat("job '", job.job.id(), "'"),
                          absl::StrCat("it has not ended (", StateName(job.job.state()), ")"),
                          absl::StrCat("end it first: poolmark cancel ", job.job.id()));
    }
    if (found != running_.end() && !found->second->ended) {
      return Precondition(absl::StrCat("job '", job.job.id(), "'"), "it is still being closed",
                          "try again in a moment");
    }
  }
  POOLMARK_RETURN_IF_ERROR(environment_.store->Delete(job.job.id()));
  return RemoveFiles(job.job.id());
}

Result<uint64_t> JobManager::RemoveFiles(const std::string& job_id) {
  const std::string directory = ResultsDir(environment_, job_id);
  uint64_t bytes = 0;
  if (auto files = ListTree(directory); files.ok()) {
    for (const std::string& file : *files) {
      bytes += FileSize(JoinPath(directory, file)).value_or(0);
    }
  }
  POOLMARK_RETURN_IF_ERROR(RemoveTree(directory).status());
  POOLMARK_RETURN_IF_ERROR(environment_.store->Deleted(job_id));
  std::set<std::string> keep;
  uint64_t before = 0;
  do {
    POOLMARK_ASSIGN_OR_RETURN(auto page, environment_.store->List({}, before, 1000));
    for (const v1::Job& other : page.jobs) {
      auto stored = environment_.store->Get(other.id());
      if (!stored.ok()) continue;
      for (const v1::JobInput& input : stored->request.inputs()) keep.insert(input.sha256());
    }
    before = page.next;
  } while (before != 0);
  return bytes + environment_.inputs->RemoveUnused(keep);
}

void JobManager::FinishDeletions() {
  auto jobs = environment_.store->Deletions();
  if (!jobs.ok()) return;
  for (const std::string& job : *jobs) {
    auto freed = RemoveFiles(job);
    Log(freed.ok() ? LogLevel::kInfo : LogLevel::kError, "job.deletion_finished",
        {{"job", job},
         {"result", freed.ok() ? "its files are gone" : std::string(freed.status().message())}});
  }
}

void JobManager::ForgetAnswers() {
  const Nanoseconds now = environment_.clock->Steady();
  if (last_forget_.count() != 0 && now - last_forget_ < std::chrono::hours(1)) return;
  last_forget_ = now;
  auto forgotten = environment_.store->ForgetAnswers();
  if (!forgotten.ok())
    Log(LogLevel::kError, "store.answers_kept", {{"error", std::string(forgotten.status().message())}});
}

void JobManager::Expire() {
  if (retention_.max_age.count() == 0 && retention_.max_bytes == 0) return;
  const Nanoseconds now = environment_.clock->Steady();
  if (last_expiry_.count() != 0 && now - last_expiry_ < std::chrono::minutes(10)) return;
  last_expiry_ = now;
  uint64_t total = 0;
  uint64_t before = 0;
  do {
    auto page = environment_.store->List({}, before, 1000);
    if (!page.ok()) return;
    for (const v1::Job& job : page->jobs) {  // newest first
      const std::string directory = ResultsDir(environment_, job.id());
      if (auto files = ListTree(directory); files.ok()) {
        for (const std::string& file : *files) total += FileSize(JoinPath(directory, file)).value_or(0);
      }
      if (!IsTerminal(job.state())) continue;
      const bool old =
          retention_.max_age.count() != 0 &&
          environment_.clock->Wall().count() - job.finished_wall_ns() > retention_.max_age.count();
      const bool full = retention_.max_bytes != 0 && total > retention_.max_bytes;
      if (!old && !full) continue;
      Log(LogLevel::kInfo, "job.expired", {{"job", job.id()}, {"why", old ? "age" : "size"}});
      (void)Delete(job.id());
    }
    before = page->next;
  } while (before != 0);
}

}  // namespace poolmark::controller
