// Starts measuring tools (iperf3, ib_write_bw, exporters) under the guard of the run that holds the machine:
// they are in its ledger before they exist, and end with its lease whatever becomes of the agent.
// Thread-safe; a Child belongs to one thread.
#pragma once
#include <atomic>
#include <functional>
#include <memory>

#include "agent/api/active_run.h"
#include "agent/facts/command.h"

namespace poolmark::agent {

// Ids of such processes begin so; no process of a job may.
inline constexpr char kToolPrefix[] = "poolmark-tool.";

class GuardSpawner final : public Spawner {
 public:
  // `run` gives the run that holds the machine now, or null.
  explicit GuardSpawner(std::function<std::shared_ptr<ActiveRun>()> run) : run_(std::move(run)) {}
  Result<std::unique_ptr<Child>> Start(const Command& command) override;

 private:
  std::function<std::shared_ptr<ActiveRun>()> run_;
  std::atomic<uint64_t> number_{0};
};

}  // namespace poolmark::agent
