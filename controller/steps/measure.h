// Step 6, Measure: while the load runs, every machine samples its engine, cache, router and exporter
// counters, its GPUs, host and network. One object is one repeat's sampling: started before the load, stopped
// after its drain, one thread per machine that writes samples/<machine>.jsonl.zst as the batches come. An
// agent that is started again meanwhile is asked to sample again; the file then has a gap, and its counters
// go on.
#pragma once
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "common/results/samples.h"
#include "controller/steps/step.h"

namespace poolmark::controller {

class Measurement {
 public:
  // `directory` is the repeat's samples directory. `tag` makes request ids unique. `stack` outlives the
  // object. Fails when a machine does not start to sample.
  static Result<std::unique_ptr<Measurement>> Start(JobRun* run, const StackPlan& stack,
                                                    const std::string& directory, const std::string& tag);
  ~Measurement();
  Measurement(const Measurement&) = delete;
  Measurement& operator=(const Measurement&) = delete;

  // The load has begun, at this wall time of the controller: second 0 of the files. What came before it is
  // kept in memory until then.
  void LoadStarted(Nanoseconds wall);
  // Asks every machine for its last round and waits until all of it is on disk. What could not be had is in
  // notes(). Idempotent.
  Status Finish();
  const std::map<std::string, std::string>& files() const { return files_; }  // machine -> path
  std::vector<std::string> notes() const;
  // Why samples cannot be stored any more (a full disk): the repeat cannot be right any more.
  Status stored() const;
  // A machine one of whose disks has filled: machine, what is full.
  std::optional<std::pair<std::string, std::string>> full_disk() const;
  // Waits until every machine has sent at least one round, and a little longer for those of its processes
  // whose counters were not read yet: they count from a reading before the load. False: a machine sent
  // nothing.
  bool AwaitFirst(Nanoseconds within);

 private:
  Measurement(JobRun* run, const StackPlan& stack, std::string tag)
      : run_(run), stack_(stack), tag_(std::move(tag)) {}
  class MachineFile;
  Nanoseconds StartWall() const;
  void Follow(const std::string& machine, const std::string& path, std::stop_token stop);
  // After an agent's restart; `starts` is how often it was asked to before.
  Status SampleAgain(AgentLink* link, const std::string& machine, int starts, std::stop_token stop);
  v1::StopSamplingRequest StopRequest(const std::string& machine) const;

  JobRun* run_;
  const StackPlan& stack_;
  const std::string tag_;
  std::map<std::string, std::string> files_;
  mutable std::mutex mutex_;  // the next nine
  std::vector<std::string> notes_;
  std::map<std::string, bool> ended_;
  Status stored_;
  std::optional<std::pair<std::string, std::string>> full_disk_;
  std::map<std::string, uint64_t> batches_;
  std::set<std::string> unread_;  // processes to be sampled whose counters were not read yet
  Nanoseconds start_wall_{0};     // 0: not yet
  bool ending_ = false;           // the machines are being asked to stop
  bool finished_ = false;
  std::vector<std::jthread> threads_;
};

}  // namespace poolmark::controller
