// Reads the machine's facts in a thread of its own and keeps the last ones: a vendor tool may take half a
// minute, or hang, and neither a heartbeat nor an agent that ends may wait for it. Two who ask while a
// reading runs share the next one. Thread-safe.
#pragma once
#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <stop_token>
#include <thread>

#include "common/base/clock.h"
#include "poolmark/v1/agent.pb.h"

namespace poolmark::agent {

class FactsKeeper {
 public:
  // Called in the keeper's thread, one call at a time; it ends soon after the stop.
  using Read = std::function<v1::Facts(std::stop_token)>;
  explicit FactsKeeper(Read read, const Clock* clock = &RealClock());
  ~FactsKeeper();  // no caller waits any more

  struct Known {
    std::optional<v1::Facts> facts;  // absent: not read yet
    Nanoseconds age{0};              // since they were read
  };
  // The last ones, at once.
  Known Last() const;
  // Has them read; does not wait.
  void Ask();
  // Facts whose reading began after this call. Absent when `gave_up` (asked ten times a second) said so.
  std::optional<v1::Facts> Fresh(const std::function<bool()>& gave_up);

 private:
  void Loop(std::stop_token stop);

  const Read read_;
  const Clock* clock_;
  mutable std::mutex mutex_;  // guards what follows
  std::condition_variable_any changed_;
  uint64_t wanted_ = 0;  // readings are numbered from 1
  uint64_t begun_ = 0;
  uint64_t ended_ = 0;
  std::optional<v1::Facts> facts_;
  Nanoseconds read_at_{0};
  std::jthread thread_;
};

}  // namespace poolmark::agent
