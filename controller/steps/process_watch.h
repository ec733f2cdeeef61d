// Follows the processes of one job on all its machines: a thread per machine on WatchProcesses, resumed by
// sequence number when the stream breaks. Keeps the last status of each process, and the progress lines of
// the load. Thread-safe.
#pragma once
#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "controller/steps/step.h"

namespace poolmark::controller {

class ProcessWatch {
 public:
  explicit ProcessWatch(JobRun* run);
  ~ProcessWatch();
  ProcessWatch(const ProcessWatch&) = delete;
  ProcessWatch& operator=(const ProcessWatch&) = delete;

  // What the reply to StartProcess said: the process counts from now on.
  void Set(const std::string& machine, const v1::ProcessStatus& status);
  std::optional<v1::ProcessStatus> StatusOf(const std::string& id) const;
  // The executable behind each started process, with its digest.
  void SetTool(const std::string& id, const v1::Tool& tool);
  std::map<std::string, v1::Tool> Tools() const;
  // A process that ends is a fault of the pool from now on, until it is told otherwise (expected = true).
  void Expect(const std::string& id, bool expected_to_end);
  // It will be started again under the same id: its end is forgotten.
  void Forget(const std::string& id);
  // The first process that ended or failed without being expected to, with its machine.
  struct Death {
    std::string machine;
    v1::ProcessStatus status;
  };
  std::optional<Death> FirstDeath() const;
  // Waits until `done` holds (checked with the lock held at every change and every poll), a process dies
  // unexpectedly, or `stop`. True when `done`.
  bool Await(const std::function<bool()>& done, std::optional<Nanoseconds> deadline = std::nullopt);
  // Waits until all are ready. False on a death, a failure, stop, or at the deadline: an agent that beats and
  // tells nothing of its processes is no reason to wait for ever.
  bool AwaitReady(const std::vector<std::string>& ids, Nanoseconds deadline);
  bool AwaitEnd(const std::string& id, std::optional<Nanoseconds> deadline = std::nullopt);
  // Progress lines since the last call, oldest first.
  std::vector<std::string> TakeProgress(const std::string& id);

 private:
  void Follow(const std::string& machine, std::stop_token stop);
  // The agent says that the job holds its machine no more: what ran there is gone, whether its end was told
  // or not (the guard was killed and swept, or the lease ran out, between two looks).
  void RunEnded(const std::string& machine, const std::string& why);
  // Lock held.
  void Heard(const v1::ProcessStatus& status);
  void Take(const v1::ProcessStatus& status);

  JobRun* run_;
  mutable std::mutex mutex_;  // all below but threads_
  std::condition_variable_any changed_;
  std::map<std::string, v1::ProcessStatus> status_;
  std::map<std::string, std::string> machine_of_;
  std::map<std::string, v1::Tool> tools_;
  // The last word about each process that was heard of before its start was answered, by id and pid.
  std::map<std::pair<std::string, int32_t>, v1::ProcessStatus> heard_;
  std::set<std::string> may_end_;
  std::optional<Death> death_;
  std::map<std::string, std::deque<std::string>> progress_;
  std::vector<std::jthread> threads_;
};

// "engine-n1 ended with exit code 1", with what the agent said about it.
std::string DescribeEnd(const v1::ProcessStatus& status);

}  // namespace poolmark::controller
