// The durable truth of the controller: jobs, their events, machines and their locks, finished repeats,
// answered requests. One SQLite file (WAL, synchronous=FULL) in the state directory, which one controller
// holds at a time (flock). Every method is one transaction, durable when it returns OK; progress ticks,
// samples and request records never come here. Thread-safe.
#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/base/clock.h"
#include "common/base/result.h"
#include "controller/jobs/job_table.h"
#include "controller/jobs/reserve.h"
#include "poolmark/v1/controller.pb.h"

namespace poolmark::controller {

class Database;

// How long an answer is known under its request's id. The CLI tries a call again for minutes.
inline constexpr Nanoseconds kAnswersKept = std::chrono::hours(24);

struct StoredJob {
  v1::Job job;
  v1::SubmitJobRequest request;  // as submitted: inputs by digest, settings
  Pending pending = Pending::kNone;
  bool force = false;        // a second cancel: no grace
  uint32_t cycle = 0;        // of the last launch
  uint32_t idle_cycles = 0;  // in a row, without a finished repeat
};

// A repeat whose files are complete.
struct RepeatKey {
  std::string stack;
  std::string workload;
  std::string level;
  int repeat = 1;
  auto operator<=>(const RepeatKey&) const = default;
};
struct StoredRepeat {
  RepeatKey key;
  bool valid = false;
  uint32_t cycle = 0;
};

// What the controller remembers of a machine between starts.
struct StoredMachine {
  std::string name;
  v1::MachineState state = v1::MACHINE_STATE_READY;  // READY, DRAINED, QUARANTINED or REVOKED
  std::string reason;
  v1::MachineState given = v1::MACHINE_STATE_READY;  // by hand: `state` but for unproven tear-downs
  std::string job_id;                                // holder; "": none
  std::string taken;                                 // the job whose lease was last answered here
  uint64_t epoch = 0;                                // of the last grant
  v1::RegisterRequest registration;
};

// What an event brings with it into its transaction.
struct Change {
  std::vector<v1::Reason> reasons{};  // appended
  std::string message{};              // of the event row
  std::string data_json{};
  std::optional<v1::JobPosition> position{};
  std::optional<v1::TeardownVerdict> verdict{};
  std::optional<bool> cancel{};  // sets cancel_requested
  std::optional<bool> force{};
  std::optional<std::string> waiting_for{};
  std::optional<int64_t> estimated_ns{};
  std::optional<StoredRepeat> repeat{};                           // a repeat finished with this event
  std::vector<std::pair<std::string, std::string>> quarantine{};  // for this job: machine, why
  // The event counts only while the job's `pending` is still this.
  std::optional<Pending> decided_with{};
};

class Store {
 public:
  // Takes the lock of `directory` (FAILED_PRECONDITION "locked" when another controller has it), checks the
  // file, migrates it, increments the controller epoch and the epochs of all machines that a job holds. A
  // file that is corrupt is kept beside as poolmark.db.corrupt-<time>, and recovered() says so.
  static Result<std::unique_ptr<Store>> Open(const std::string& directory, const Clock* clock);
  ~Store();

  uint64_t controller_epoch() const { return controller_epoch_; }
  const std::string& cluster_id() const { return cluster_id_; }
  // The cluster that the CA names; takes the place of the store's own word.
  void AdoptCluster(std::string id) { cluster_id_ = std::move(id); }
  const std::string& directory() const { return directory_; }
  // The corrupt file, when this start found one: machines that report jobs unknown here are quarantined.
  const std::optional<std::string>& recovered() const { return recovered_; }

  // Called after each commit with what it made visible; from any thread, without a lock of the store.
  using Listener = std::function<void(const std::string& job_id, const v1::JobEvent& event)>;
  void SetListener(Listener listener);

  // --- requests: the stored answer of a repeated id; ALREADY_EXISTS when the body differs,
  // FAILED_PRECONDITION when it is a submission's and its job was deleted (`digest` is over the request
  // without its id) ---
  Result<std::optional<std::string>> FindAnswer(const std::string& request_id, const std::string& digest);
  Status StoreAnswer(const std::string& request_id, const std::string& digest, const std::string& answer);
  // Forgets what no retry asks for any more: answers older than kAnswersKept, but for those of submissions
  // whose job is there. How many.
  Result<uint64_t> ForgetAnswers();

  // --- jobs ---
  // Stores the job as SUBMITTED with its snapshot and the answer to its request, in one transaction.
  Result<v1::Job> Insert(const v1::SubmitJobRequest& request, const std::string& owner,
                         const std::string& digest, const std::vector<std::string>& notes,
                         int64_t estimated_ns);
  // By id or unique prefix.
  Result<StoredJob> Get(const std::string& job_id);
  // Newest first; `before` is the page token (0: from the newest). A page also ends at `bytes`, but holds at
  // least one job.
  struct Page {
    std::vector<v1::Job> jobs;
    uint64_t next = 0;
  };
  Result<Page> List(const std::vector<v1::JobState>& states, uint64_t before, uint32_t size,
                    size_t bytes = SIZE_MAX);
  Result<std::map<std::string, uint64_t>> CountByState();
  Result<std::vector<StoredJob>> Unfinished();
  // The transition that the table has for `event`; nothing when it has none (nothing is written then).
  // Entering a terminal state releases the job's machines in the same transaction.
  Result<std::optional<std::pair<StoredJob, Action>>> Apply(const std::string& job_id, JobEventKind event,
                                                            const Change& change = {});
  // QUEUED -> PREFLIGHT with all of `machines` locked, or nothing: then the result is empty and `blocked_by`
  // says "machine n1 is held by job j". Epochs of the grants are in the machines.
  Result<std::optional<StoredJob>> Lock(const std::string& job_id, const std::vector<std::string>& machines,
                                        std::string* blocked_by);
  // Changes without a transition; a row of kind "step" when `change.message` is not empty.
  Result<StoredJob> Update(const std::string& job_id, const Change& change);
  // A new cycle: its number. Counts idle cycles.
  Result<uint32_t> BeginCycle(const std::string& job_id);
  // Only of terminal jobs; its events and repeats go too. Its files are the caller's, who calls Deleted when
  // they are gone; until then, over restarts, the id is among Deletions.
  Status Delete(const std::string& job_id);
  Result<std::vector<std::string>> Deletions();
  Status Deleted(const std::string& job_id);

  // --- events ---
  Result<uint64_t> AppendEvent(const std::string& job_id, v1::JobEvent event);
  Result<std::vector<v1::JobEvent>> Events(const std::string& job_id, uint64_t after, uint32_t limit);

  Result<std::vector<StoredRepeat>> Repeats(const std::string& job_id);

  // --- machines ---
  Result<std::vector<StoredMachine>> Machines();
  // Writes only when something durable differs.
  Status SaveRegistration(const v1::RegisterRequest& registration);
  // Of a machine that has registered, also what changes all the time.
  Status SaveFacts(const std::string& machine, const v1::Facts& facts);
  // The state that somebody gives it. What jobs left unproven there stays beside it.
  Status SetMachine(const std::string& name, v1::MachineState state, const std::string& reason);
  // The job's end on the machine is not proven: it is quarantined until Proven or ClearMachine, whatever else
  // is said of it meanwhile.
  Status Quarantine(const std::string& machine, const std::string& job_id, const std::string& why);
  // True when this was still to be proven.
  Result<bool> Proven(const std::string& machine, const std::string& job_id);
  // Somebody has looked at it: nothing is to be proven any more, and a quarantine or revocation by hand ends.
  // A drain ends only where it is all that keeps the machine out.
  Status ClearMachine(const std::string& name);
  // The machine's agent has answered the job's lease: from here on it has something to prove.
  Status NoteTaken(const std::string& job_id, const std::string& machine);
  // A higher epoch for the job that holds the machine: its lease there has ended, but the job goes on.
  Status GrantAnew(const std::string& job_id, const std::string& machine);
  // An agent has seen higher grants than this store knows of (it was restored or lost): the next is above
  // them. Changes nothing while a job holds the machine.
  Status RaiseEpoch(const std::string& machine, uint64_t epoch);

  // Writes a row and removes it: is the store writable (readiness)?
  Status Probe();

 private:
  Store() = default;
  Status OpenFile();
  Status Migrate();
  Result<std::optional<std::string>> AnswerLocked(const std::string& request_id, const std::string& digest);
  // `job_id`: of a submission; "": of another request.
  Status KeepAnswerLocked(const std::string& request_id, const std::string& digest, const std::string& answer,
                          const std::string& job_id);
  Result<StoredJob> GetLocked(const std::string& job_id);
  Status PutLocked(const StoredJob& job);
  Status AppendLocked(StoredJob* job, v1::JobEvent* event);
  Status ApplyChangeLocked(StoredJob* job, const Change& change);
  Status QuarantineLocked(const std::string& machine, const std::string& job_id, const std::string& why);
  void KeepReserveLocked();
  void Announce(const std::string& job_id, const std::vector<v1::JobEvent>& events);

  std::string directory_;
  const Clock* clock_ = nullptr;
  int lock_fd_ = -1;
  uint64_t controller_epoch_ = 0;
  std::string cluster_id_;
  std::optional<std::string> recovered_;
  std::mutex mutex_;  // db_, reserve_
  std::unique_ptr<Database> db_;
  Reserve reserve_;
  std::mutex listener_mutex_;  // listener_
  Listener listener_;
};

}  // namespace poolmark::controller
