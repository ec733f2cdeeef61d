// Jobs on their way to their machines: planned once when they come, then waiting until all machines of their
// plan are free at once, in the order in which they came. A job that waits for machines that others hold
// costs nothing but a look at who holds them: it is planned again only when something that its plan depends
// on has changed, for the controller may share its machine with a load that is being measured. What runs has
// left the queue (JobRunner). One thread, the dispatcher's; plans() any.
#pragma once
#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "controller/runner/environment.h"
#include "controller/runner/planning.h"

namespace poolmark::controller {

class JobQueue {
 public:
  // The job holds its machines now.
  using Start = std::function<void(const std::string& job_id, std::unique_ptr<PlannedJob> planned)>;
  // The job ends without having held any.
  using Finish = std::function<void(const StoredJob& job, JobEventKind event, Change change)>;

  JobQueue(const Environment& environment, Start start, Finish finish);

  // One look at all jobs that wait.
  void Step();
  // How many plans were made for jobs that wait.
  uint64_t plans() const { return plans_; }

 private:
  // How a job's last try to get its machines ended.
  struct Waiting {
    std::vector<std::string> named;  // the machines of its pool file; empty: any will do, or not known yet
    std::set<std::string> wanted;    // those of its last plan, which later jobs leave alone
    bool held = false;               // by others: nothing but a change of the machines can help
    std::string seen;                // the machines at the last try
    Nanoseconds tried{0};            // steady
  };
  // What a plan and its lock depend on and what changes while a job waits.
  struct Machines {
    std::map<std::string, v1::MachineState> states;  // BUSY counts as READY: `holders` says by whom
    std::map<std::string, std::string> holders;      // machine -> job
    std::set<std::string> reserved;                  // earlier jobs wait for them
  };

  void PlanSubmitted(const StoredJob& job);
  // Machines that the job waits for, which later jobs leave alone.
  std::set<std::string> TryLock(const StoredJob& job, Machines* machines);
  // The job's last try would end the same way now.
  bool NothingNew(const StoredJob& job, const Machines& machines, Waiting* waiting);
  // The rest of TryLock: plans and locks. `waiting` gets how it ended.
  void PlanAndLock(const StoredJob& job, Machines* machines, Waiting* waiting);
  void SayWaiting(const StoredJob& job, const std::string& what);
  void Refuse(const StoredJob& job, const Errors& errors);
  void EndCancelled(const StoredJob& job);

  const Environment& environment_;
  const Start start_;
  const Finish finish_;
  std::map<std::string, Waiting> waiting_;  // by job
  std::atomic<uint64_t> plans_{0};
};

}  // namespace poolmark::controller
