// All machines the controller knows: registrations, heartbeats, clocks, liveness, administrative states and
// the links to their agents. Who holds which machine is the store's truth; the registry keeps a copy to
// answer heartbeats (whose reply is the only renewal of a lease) without touching the disk. Thread-safe;
// never calls out with its lock held.
#pragma once
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "common/base/clock.h"
#include "common/base/result.h"
#include "controller/jobs/store.h"
#include "controller/machines/agent_link.h"
#include "controller/machines/clock_probe.h"

namespace poolmark::controller {

// Of what an agent says of its machine: everything is kept in memory and shown in lists. One with hundreds of
// devices needs a tenth of it.
inline constexpr size_t kMaxMachineBytes = 512u << 10;

// How long `machines` tells of another agent of a machine's name that was refused.
inline constexpr Nanoseconds kRivalShown = std::chrono::minutes(1);

struct Timing {
  Nanoseconds heartbeat = std::chrono::seconds(2);
  Nanoseconds suspect = std::chrono::seconds(6);
  Nanoseconds silent = std::chrono::seconds(10);  // "stopped responding" (M10)
  Nanoseconds lease = std::chrono::seconds(30);   // also: lost for its job
  // From the last heartbeat until a silent machine's guard has ended everything: lease + grace + kill wait +
  // margin.
  Nanoseconds guard_done = std::chrono::seconds(85);
};

// What a machine did since a moment, as evidence for a repeat.
struct Presence {
  Nanoseconds longest_silence{0};
  Nanoseconds silence_began_wall{0};
  std::optional<ClockReading> worst_clock;
  Nanoseconds largest_step{0};
  bool boot_changed = false;
};

class Registry {
 public:
  Registry(Store* store, const Clock* clock, Timing timing, LinkFactory make_link);

  // Reads the store's machines; they count as silent from now on until they beat.
  Status Load();
  // Takes over who holds what; after every change of locks or states in the store.
  Status Refresh();

  Result<v1::RegisterResponse> Register(const v1::RegisterRequest& request);
  Result<v1::HeartbeatResponse> Heartbeat(const v1::HeartbeatRequest& request, int64_t received_wall_ns);

  std::vector<v1::Machine> List(bool with_facts) const;
  // By name, from the one behind `after` on: at most `size` machines of together about `bytes`, at least one.
  struct Page {
    std::vector<v1::Machine> machines;
    std::string next;  // the next page's `after`; empty: that was the last one
  };
  Page ListPage(bool with_facts, const std::string& after, size_t size, size_t bytes) const;
  Result<v1::Machine> Get(const std::string& name) const;
  // drain, undrain, quarantine, clear, revoke. A revocation is an admin's: only `by_admin` takes it back, and
  // nothing else makes another state of it.
  Result<v1::Machine> Act(const std::string& name, v1::MachineAction action, const std::string& reason,
                          bool by_admin);

  // Asks the agents of `names` for their facts of this moment, all at once and for at most `within`. Who does
  // not answer keeps the facts that are known, and so do all of them where one is not ready and free: what
  // runs there must not be disturbed, nor be taken for what the next job finds.
  void AskFacts(const std::vector<std::string>& names, Nanoseconds within);
  // Stores the facts that a plan was made from, for a plan after a restart must be the same one.
  Status KeepFacts(const std::vector<std::string>& names);

  // The agent's link; UNAVAILABLE for a machine that never registered.
  Result<AgentLinkPtr> Link(const std::string& machine);
  uint64_t epoch(const std::string& machine) const;
  // The agent answered this lease. That the job took it stays known over restarts.
  Status NoteTaken(const std::string& machine, const v1::LeaseId& lease);
  bool HasTaken(const std::string& machine, const std::string& job_id) const;

  // Since the last heartbeat.
  Nanoseconds Silence(const std::string& machine) const;
  bool IsLost(const std::string& machine) const;
  // Starts a fresh count of silences for the machine; Presence() is since then.
  void Watch(const std::string& machine);
  Presence PresenceOf(const std::string& machine) const;
  // What the agent said about `job_id` since it came back: nothing, or torn down and whether with proof. Not
  // what it said of a lease before the one that it answered last.
  std::optional<v1::HeldJob> Held(const std::string& machine, const std::string& job_id) const;

  // Called about once a second by one thread. A gap between two calls (this process was paused) counts for no
  // machine. `on_lost` gets each machine once when it is lost.
  void Tick(const std::function<void(const std::string& machine, const std::string& job_id)>& on_lost);

  // Serials of certificates that are no longer welcome, for heartbeats.
  void SetRevoked(std::vector<std::string> serials);
  const Timing& timing() const { return timing_; }
  uint64_t lost_total() const;

 private:
  struct Entry {
    StoredMachine stored;
    std::optional<v1::Facts> facts;  // newer than those in `stored`
    Nanoseconds facts_asked{0};      // steady; 0: never
    AgentLinkPtr link;
    std::string link_address;
    bool registered = false;   // since this controller started
    Nanoseconds last_beat{0};  // steady
    int64_t last_beat_wall = 0;
    bool lost = false;
    ClockProbe clock;
    std::map<std::string, v1::HeldJob> held;
    uint64_t answered_epoch = 0;  // of the last lease that its agent answered since this controller started
    std::string boot_id;
    std::string agent_id;
    std::vector<std::string> past_boots;  // that another one has taken the place of
    std::string rival;                    // address of another agent of this name that was refused, and when
    Nanoseconds rival_at{0};
    // Of the current watch:
    Nanoseconds watch_start{0};
    Nanoseconds longest_silence{0};
    int64_t silence_began_wall = 0;
    std::string watch_boot_id;
  };

  v1::Machine Describe(const Entry& entry, bool with_facts) const;
  Nanoseconds Interval() const;
  // What to do about jobs that an agent holds: ids it must tear down itself.
  std::vector<std::string> JudgeHeld(const std::string& machine,
                                     const google::protobuf::RepeatedPtrField<v1::HeldJob>& held);
  void NoteBeat(Entry* entry, Nanoseconds now);
  // Is it the agent that this machine is known by?
  Status CheckOneAgent(const v1::RegisterRequest& request);
  // After a restored or lost store: grants go on above what the agent has seen.
  void FollowEpoch(const std::string& machine, uint64_t highest);

  Store* store_;
  const Clock* clock_;
  const Timing timing_;
  const LinkFactory make_link_;
  // Held from a read of the store's rows until they are in `machines_`, and from a change until it is there:
  // rows of before never take the place of newer ones. Taken before mutex_.
  std::mutex rows_mutex_;
  mutable std::mutex mutex_;  // all below
  std::map<std::string, Entry> machines_;
  std::vector<std::string> revoked_;
  Nanoseconds last_tick_{0};
  uint64_t lost_total_ = 0;
};

}  // namespace poolmark::controller
