// Preflight: what a machine must prove before anything is started. One file per check, each giving what was
// expected, what was observed, the evidence and what to do. A failed check is data, never an error. The
// checks change nothing on the machine but for short-lived sockets. Thread-safe as long as the context's
// callbacks are.
#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <stop_token>
#include <string>
#include <vector>

#include "agent/facts/command.h"
#include "agent/facts/facts.h"
#include "common/base/clock.h"
#include "poolmark/v1/agent.pb.h"

namespace poolmark::agent {

struct CheckContext {
  std::string machine;  // its name in the pool
  FactsContext facts;   // root, spawner, work directory, addresses
  const Clock* clock = &RealClock();
  // Does the allow-list of this machine permit this name or path? The error holds the line to add.
  // Null: the check "executables" only looks whether they exist.
  std::function<Status(const std::string& executable)> executable_allowed;
  // Names of secrets -> value or why not. Values are used to look for them in process lists; they never
  // reach a result. Null: no secrets on this machine.
  std::function<Result<std::string>(const std::string& name)> secret;
  // Does the allow-list give the secret to this program or image, the login to this BMC? Null: not asked.
  std::function<Status(const std::string& secret, const std::string& program)> secret_given;
  std::function<Status(const v1::BmcLogin& bmc)> bmc_given;
  // All secret values the agent holds, for the process-list check.
  std::function<std::vector<std::string>()> all_secret_values;
  // Processes of the job, with all descendants: their sockets count as ours (side channels too).
  std::function<std::set<int>()> job_pids;
  // What ledgers of earlier jobs on this machine still hold, a line each.
  std::function<std::vector<std::string>()> ledger_leftovers;
};

// Ids, in the order they run: clock, tools, executables, secrets, gpu_family, nvlink, rdma_ports, mtu,
// memlock, disk_space, ports_free, public_ports, secrets_in_ps, leftovers.
const std::vector<std::string>& CheckIds();

// Runs those of `only` (all when empty; an unknown id gives a FAIL that says so) and hands each result over
// as it ends. Stops early, without the remaining results, when `stop` is requested.
void RunChecks(const v1::CheckPlan& plan, const std::vector<std::string>& only, const CheckContext& context,
               const std::function<void(v1::CheckResult)>& emit, std::stop_token stop = {});

}  // namespace poolmark::agent
