// A spawner for one reading of the facts or one round of checks, where one tool that hangs must not make the
// whole hang: a tool that did not end is not asked again, and once all such waits together are long no
// further tool is. What it refuses is DEADLINE_EXCEEDED and says why. Also lets a reading be ended early. Not
// for a tool whose time-out says something of another machine (ping): those are shorter than `hung_after`.
// Thread-safe; a Child belongs to one thread, and none outlives the spawner.
#pragma once
#include <map>
#include <mutex>
#include <stop_token>
#include <string>

#include "agent/facts/command.h"

namespace poolmark::agent {

class WarySpawner final : public Spawner {
 public:
  struct Limits {
    Nanoseconds hung_after = std::chrono::seconds(10);  // a wait in vain of this length or more
    Nanoseconds together = std::chrono::seconds(60);    // of all waits in vain
  };
  // `inner` outlives this object. After `stop` nothing is started, and waits end at once.
  explicit WarySpawner(Spawner* inner, std::stop_token stop = {}) : WarySpawner(inner, stop, Limits()) {}
  WarySpawner(Spawner* inner, std::stop_token stop, Limits limits)
      : inner_(inner), stop_(std::move(stop)), limits_(limits) {}

  Result<std::unique_ptr<Child>> Start(const Command& command) override;

 private:
  class WaryChild;
  void WaitedInVain(const std::string& tool, Nanoseconds waited);

  Spawner* inner_;
  const std::stop_token stop_;
  const Limits limits_;
  std::mutex mutex_;                         // guards what follows
  std::map<std::string, Nanoseconds> hung_;  // tool -> how long it was waited for
  Nanoseconds lost_{0};
};

}  // namespace poolmark::agent
