// All jobs of a controller: takes submissions, plans them, lets them wait for their machines, gives each that
// holds them a runner, and picks up what an earlier start left. One dispatcher thread. Thread-safe.
#pragma once
#include <atomic>
#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "controller/runner/environment.h"
#include "controller/runner/job_runner.h"
#include "controller/runner/queue.h"

namespace poolmark::controller {

struct Retention {
  Nanoseconds max_age{0};  // 0: jobs never expire
  uint64_t max_bytes = 0;  // of all results; 0: no limit. The oldest finished jobs go first.
};

class JobManager {
 public:
  JobManager(const Environment& environment, Retention retention);
  ~JobManager();  // Stop()

  // Every unfinished job goes on as the table says; then the dispatcher starts.
  Status Start();
  // Jobs stay where they are. Idempotent.
  void Stop();

  // Validates and plans; a plan that cannot work is an error with all refusals.
  Result<v1::SubmitJobResponse> Submit(const v1::SubmitJobRequest& request, const std::string& owner);
  v1::ValidateJobResponse Validate(const v1::SubmitJobRequest& request);
  Result<v1::Job> Cancel(const std::string& job_id, bool force, const std::string& who);
  // A finished job with its results: freed bytes.
  Result<uint64_t> Delete(const std::string& job_id);
  void MachineLost(const std::string& machine, const std::string& job_id);
  // Something that jobs may wait for has changed.
  void Wake();
  size_t running() const;
  std::vector<LiveProcess> LiveProcesses(const std::string& job_id) const;
  // How many plans were made for jobs that wait, since the start.
  uint64_t queue_plans() const { return queue_.plans(); }
  const Environment& environment() const { return environment_; }

 private:
  struct Running {
    std::unique_ptr<JobRunner> runner;
    std::jthread thread;
    bool ended = false;  // guarded by mutex_
  };

  void Dispatch(std::stop_token stop);
  void StartRunner(const std::string& job_id, std::unique_ptr<PlannedJob> planned);
  void Reap();
  void Finish(const StoredJob& job, JobEventKind event, Change change, const PlannedJob* planned);
  void Expire();
  // The files of a job whose row is gone, and the inputs that no other job has: freed bytes.
  Result<uint64_t> RemoveFiles(const std::string& job_id);
  // Deletions that an earlier start did not get through with.
  void FinishDeletions();
  // Dispatcher thread.
  void ForgetAnswers();
  // Completes the files of jobs that have ended where that could not be done at once. Dispatcher thread, and
  // Start.
  void CloseEnded();

  const Environment& environment_;
  const Retention retention_;
  JobQueue queue_;            // dispatcher thread
  mutable std::mutex mutex_;  // running_, wake_
  std::condition_variable_any changed_;
  bool wake_ = false;
  std::map<std::string, std::unique_ptr<Running>> running_;
  std::jthread dispatcher_;
  Nanoseconds last_expiry_{0}, last_close_{0}, last_forget_{0};  // dispatcher thread
  std::atomic<bool> unclosed_{false};
};

}  // namespace poolmark::controller
