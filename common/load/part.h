// The loops of one process: its part of a load. Internal to the engine.
#pragma once
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "common/load/board.h"
#include "common/load/loop.h"
#include "common/load/options.h"
#include "common/load/recorder.h"

namespace poolmark::load {

class Part {
 public:
  // Process `process` of `processes`; loops are numbered over all processes.
  Part(const LoadOptions& options, const std::vector<Target>& targets, SessionSource& source, Board& board,
       int process, int processes);
  ~Part();
  // Starts the loops' threads. An empty path: no record file.
  Status Start(const std::string& record_path);
  void Wake();
  // Waits for the loops, writes the rest of the records.
  Status Join();
  Accumulator TakeTotals() { return recorder_->TakeTotals(); }

 private:
  const LoadOptions& options_;
  const std::vector<Target>& targets_;
  SessionSource& source_;
  Board& board_;
  const int process_;
  const int processes_;
  std::unique_ptr<Recorder> recorder_;
  std::vector<std::unique_ptr<Loop>> loops_;
  std::vector<std::thread> threads_;
};

Result<std::vector<Target>> ResolveTargets(const LoadOptions& options);
// The largest resident memory of this process so far.
uint64_t PeakMemoryBytes();
// Raises the limit of open files as far as allowed; an error when `connections` do not fit.
Status AllowConnections(uint64_t connections);

}  // namespace poolmark::load
