// The end of a run: everybody is told to stop, whoever stays is killed, then the ledger is replayed
// backwards, each thing is removed and looked at again. What cannot be proven gone is said to be left.
// Not thread-safe.
#pragma once
#include <chrono>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "agent/guard/containment.h"
#include "agent/guard/poller.h"
#include "agent/guard/run.h"
#include "agent/guard/supervisor.h"

namespace poolmark::guard {

struct TeardownOptions {
  std::string cause;
  std::chrono::nanoseconds grace = std::chrono::seconds(30);
  std::chrono::nanoseconds kill_wait = std::chrono::seconds(15);
  std::chrono::nanoseconds command_limit = std::chrono::seconds(60);  // one container command
  bool keep = false;                                                  // another cycle follows
  std::vector<std::string> damages;  // of the ledger: they make the verdict "not clean"
};

class Teardown {
 public:
  Teardown(TeardownOptions options, Run* run, Containment* containment, Supervisor* supervisor,
           Poller* poller);
  // True: all is proven gone. Items and the verdict are in the ledger and in the events. `cut_short` is
  // asked while waiting: true ends the grace at once.
  bool Execute(const std::function<bool()>& cut_short);
  // Which of the new segments in /dev/shm are held by our processes now; written to the ledger.
  static void AttributeSharedMemory(Run* run, Containment* containment, Supervisor* supervisor);

 private:
  struct Seen {
    GoneState state = GoneState::kUnknown;
    std::string proof;
    std::string detail;
    bool forced = false;
  };
  void StopEverything(const std::function<bool()>& cut_short);
  Seen Look(const Item& item);
  Seen LookAtProcess(const Item& item);
  Seen LookAtCgroup(const Item& item);
  Seen LookAtPort(const Item& item);
  Seen LookAtDirectory(const Item& item);
  Seen LookAtFile(const Item& item);
  Seen LookAtContainer(const Item& item);
  Seen LookAtSharedMemory(const Item& item);

  TeardownOptions options_;
  Run* run_;
  Containment* containment_;
  Supervisor* supervisor_;
  Poller* poller_;
  bool same_boot_ = true;
  std::vector<Member> survivors_;  // after kill and wait
  std::set<pid_t> forced_;         // that needed SIGKILL
};

}  // namespace poolmark::guard
