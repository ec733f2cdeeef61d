// The processes of a run: starts them, takes their output, sees them end, stops them. Every state change
// is an event. Not thread-safe: lives on the guard's one thread.
#pragma once
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>

#include "agent/guard/containment.h"
#include "agent/guard/log_store.h"
#include "agent/guard/poller.h"
#include "agent/guard/redactor.h"
#include "agent/guard/run.h"
#include "agent/guard/spawn.h"

namespace poolmark::guard {

struct SupervisorOptions {
  std::string log_directory;
  LogLimits log_limits;
  std::chrono::nanoseconds kill_wait = std::chrono::seconds(15);
};

class Supervisor {
 public:
  Supervisor(SupervisorOptions options, Run* run, Containment* containment, Poller* poller);
  ~Supervisor();

  // Request `start`: id, exe, argv…, env…, secret…, redact…, cwd, port…, uid, gid, request, split, container,
  // tool. `answer` is the process's record. A repeated request id, or an id that runs, starts nothing.
  Fault Start(const Record& request, Record* answer);
  // The process that this request id started, if it did.
  std::optional<Record> Find(const std::string& request_id) const;
  // SIGTERM now, SIGKILL to all of the process's group after `grace`. Returns at once; the end is an event.
  Fault Stop(const std::string& id, std::chrono::nanoseconds grace);
  // What the agent found out: state ready or failed, with a message.
  Fault Mark(const Record& request);
  // Request `owns`: id, port…. For each port whether a process of that id listens on it, and who does if not.
  Fault Owns(const Record& request, std::vector<Record>* answer) const;
  // A helper command of the guard itself (containers), whose output is wanted.
  struct CommandResult {
    bool ran = false;  // started and ended by itself in time
    int exit_code = -1;
    std::string out;     // standard output alone
    std::string output;  // both streams; each at most about 64 KiB
  };
  CommandResult Command(const std::vector<std::string>& argv, std::chrono::nanoseconds limit);

  // Call when a child may have ended, and at least once a second.
  void Reap();
  void Tick();
  // True while something waits for its kill time.
  bool urgent() const;
  // Of every process known, also those that ended.
  std::vector<Record> Status() const;
  // Items of kind process that run now, newest first.
  std::vector<uint64_t> RunningNewestFirst() const;
  // TERM to the main process.
  void Terminate(uint64_t number);
  void NoteForced();
  void FlushLogs();

 private:
  struct Stream {
    UniqueFd fd;
    LogWriter writer;
    Redactor redactor{{}};
  };
  struct Process {
    uint64_t number = 0;
    std::string id;
    std::string request;
    std::string group;  // its cgroup; empty: none
    pid_t pid = 0;
    uint64_t start_time = 0;
    UniqueFd pidfd;
    std::shared_ptr<Stream> streams[2];
    std::string state = "starting";  // starting, ready, exited, failed
    std::string message;
    std::chrono::nanoseconds ready_after{0};
    std::optional<int> exit_code;
    std::optional<int> exit_signal;
    bool running = false;
    bool forced = false;
    bool out_of_memory = false;
    std::optional<std::chrono::nanoseconds> kill_at;  // on the boot clock, once it was told to stop
    bool stragglers_told = false;
  };

  Fault Prepare(const Record& request, Process* process, std::vector<Record>* intents);
  Fault OpenStreams(const Record& request, Process* process, UniqueFd write_ends[2]);
  void Pump(const std::shared_ptr<Stream>& stream);
  void CloseStream(const std::shared_ptr<Stream>& stream);
  void Ended(Process* process, int status);
  std::string LastWords(const Process& process) const;
  Record StatusOf(const Process& process) const;
  void Announce(const Process& process);

  SupervisorOptions options_;
  Run* run_;
  Containment* containment_;
  Poller* poller_;
  std::map<std::string, Process> processes_;     // by id: the newest of each
  std::set<std::string> secrets_;                // of every process that was started
  std::map<std::string, std::string> requests_;  // request id -> process id
  std::map<pid_t, int> command_status_;          // helper commands that ended
  std::set<pid_t> commands_;
};

}  // namespace poolmark::guard
