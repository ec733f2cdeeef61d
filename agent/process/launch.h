// From what a job asks for to what the guard is told to start, checked against this machine's allow-list.
// One interface, three ways: a plain process, and containers by docker or podman, whose command-line client
// runs in the foreground as the process (its output is the log, its exit code the container's), so that
// logs, exit codes and the ledger work alike for all three. Pure but for reading secrets, files' digests and
// the way to what is mounted; thread-safe.
#pragma once
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "agent/guard/record.h"
#include "agent/process/allow_list.h"
#include "common/base/result.h"
#include "common/base/secrets.h"

namespace poolmark::process {

enum class BackendKind { kProcess, kDocker, kPodman };

struct LaunchSpec {
  std::string id;
  std::string role;
  BackendKind backend = BackendKind::kProcess;
  std::string executable;
  std::string image;
  std::vector<std::string> argv;
  std::map<std::string, std::string> env;
  std::map<std::string, std::string> secrets;  // variable -> name
  std::vector<uint32_t> gpus;
  std::vector<uint32_t> ports;
  std::vector<std::string> devices;
  std::vector<std::string> mounts;  // "source:target" or "source:target:ro"
  std::string gpu_vendor;
};

// Where it runs.
struct LaunchPlace {
  std::string run;  // the guard's run: label and part of names
  std::string job;
  std::string work_dir;
  std::string temp_dir;  // exists; TMPDIR, so that what engines leave there goes with the job
  uint64_t serial = 0;   // makes a container's name unique when a process is started again
  std::optional<unsigned> uid;
  std::optional<unsigned> gid;
};

class Backend {
 public:
  virtual ~Backend() = default;
  // The guard's request `start`, without epoch and request id. `tool_path` gets the executable's path.
  virtual Result<guard::Record> Compose(const LaunchSpec& spec, const LaunchPlace& place,
                                        const AllowList& allow, const Secrets& secrets) const = 0;
};
std::unique_ptr<Backend> MakeBackend(BackendKind kind);

// "source:target[:ro]" as it may be given to a container client: the source is an allowed place, or the job's
// whole work directory, and its links are resolved. Also asked before anything is started.
Result<std::string> CheckedMount(const std::string& mount, const LaunchPlace& place, const AllowList& allow);
// Standard output is a progress stream of its own for these roles.
bool HasProgress(const std::string& role);

}  // namespace poolmark::process
