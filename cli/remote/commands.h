// The commands that talk to a controller, as functions over plain options; commands.cpp reads these from the
// command line. Each returns an exit code (output/exit_code.h).
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "cli/remote/session.h"
#include "common/base/clock.h"

namespace poolmark::cli {

struct SubmitOptions {
  RemoteOptions remote;
  std::string job_file;
  std::string from;  // a results directory, instead of job_file
  std::map<std::string, std::string> set;
  std::map<std::string, std::string> labels;
  std::string name;
  std::string request_id;
  bool dry_run = false;
  bool wait = false;
  bool no_continue = false;
  Nanoseconds timeout{};  // of --wait; 0: none
};
int RunSubmit(const SubmitOptions& options);

struct JobsOptions {
  RemoteOptions remote;
  std::vector<std::string> states;
  uint32_t limit = 50;
};
int RunJobs(const JobsOptions& options);

struct JobOptions {
  RemoteOptions remote;
  std::string job;
  bool force = false;     // cancel
  bool follow = false;    // events, logs
  Nanoseconds timeout{};  // wait
  uint64_t after = 0;     // events
  std::string machine;    // logs
  std::string process;
  uint64_t tail_bytes = 0;
  std::string directory;  // fetch
  bool resume = false;
};
int RunStatus(const JobOptions& options);
int RunCancel(const JobOptions& options);
int RunDelete(const JobOptions& options);
int RunWatch(const JobOptions& options);
int RunEvents(const JobOptions& options);
int RunWait(const JobOptions& options);
int RunLogs(const JobOptions& options);
int RunFetch(const JobOptions& options);

struct MachineOptions {
  RemoteOptions remote;
  std::string machine;
  std::string action;  // drain, undrain, quarantine, clear, revoke
  std::string reason;
  bool facts = false;
  bool all = false;  // revoked ones too
};
int RunMachines(const MachineOptions& options);
int RunMachineAction(const MachineOptions& options);
int RunStacks(const RemoteOptions& options, bool validated);

struct LoginOptions {
  std::string token;    // "-": from stdin
  std::string context;  // default: the cluster's name
  std::string output = "table";
};
int RunLogin(const LoginOptions& options);
int RunContexts(const std::string& output);
int RunUseContext(const std::string& name, const std::string& output);
int RunForgetContext(const std::string& name, const std::string& output);

int RunVersion(const RemoteOptions& options, bool client_only);
int RunDoctor(const RemoteOptions& options);

}  // namespace poolmark::cli
