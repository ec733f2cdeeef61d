// The logs of a job as its processes write them, until the job ends: `poolmark logs --follow`. Processes that
// start later, in later cycles too, come in when they start; no byte is sent twice. The agents are asked for
// what is new about once a second instead of being kept at a stream for each process: their streams are few
// and the job needs them. Not for jobs that have ended (job_logs.h sends the stored files). Run() blocks; one
// thread for each machine.
#pragma once
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "controller/runner/manager.h"

namespace poolmark::controller {

class LogFollow {
 public:
  using Wanted = std::function<bool(const std::string& machine, const std::string& process)>;
  // False: the client has gone. Never called by two threads at once.
  using Write = std::function<bool(v1::StreamJobLogsResponse)>;

  // `tail_bytes` (0: all) limits what is sent of processes that run already.
  LogFollow(const JobManager& jobs, std::string job_id, uint64_t tail_bytes, Wanted wanted, Write write);
  // Until the job has ended and its logs are read to their ends, the client has gone, or `stop`.
  void Run(std::stop_token stop);

  // After Run: whether any process was wanted, and the names of all that there were.
  bool found() const { return found_; }
  const std::vector<std::string>& known() const { return known_; }

 private:
  // One log: a process id in one run of its machine.
  struct Log {
    uint64_t next = 0;        // the first byte that was not sent
    uint64_t tail_bytes = 0;  // for the first look
    bool live = true;         // its cycle runs; afterwards it is read once more
    bool drained = false;
    Nanoseconds due{0}, pause{0};
  };
  using Key = std::pair<std::string, uint64_t>;  // process, epoch

  // What runs now: new logs come in, others are read to their ends.
  void Note(const std::vector<LiveProcess>& live, bool first);
  void FollowMachine(const std::string& machine, std::stop_token stop);
  // The machine's logs that are due; at the end all of them, `last`. False when one could not be read.
  bool Look(const std::string& machine, bool last, std::stop_token stop);
  bool Read(const std::string& machine, const Key& key, Log* log, std::stop_token stop);

  const JobManager& jobs_;
  const Environment& environment_;
  const std::string job_id_;
  const uint64_t tail_bytes_;
  const Wanted wanted_;
  const Write write_;
  const Nanoseconds shortest_, longest_;  // between two looks at one log
  bool found_ = false;                    // Run's thread
  std::vector<std::string> known_;        // Run's thread
  std::stop_source all_;
  std::mutex write_mutex_;  // held while write_ runs
  std::mutex mutex_;        // the rest
  std::condition_variable_any changed_;
  bool over_ = false;
  std::map<std::string, std::map<Key, Log>> logs_;  // of each machine
};

}  // namespace poolmark::controller
