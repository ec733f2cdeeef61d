// poolmark-guard: started by the agent, one per job and machine. See guard.h and docs/agent.md.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "agent/guard/guard.h"

namespace {

constexpr char kUsage[] =
    "poolmark-guard: owns the processes of one job on this machine (started by poolmark-agent)\n"
    "  --dir DIR          the run's directory: ledger, socket, logs\n"
    "  --run ID           the run, unique on this machine\n"
    "  --job ID           the job\n"
    "  --epoch N          the job's epoch on this machine\n"
    "  --deadline NS      end of the lease on CLOCK_BOOTTIME\n"
    "  --work-base DIR    where the run's work directory is made\n"
    "  --work-name NAME   its name\n"
    "  --grace NS         between SIGTERM and SIGKILL when the lease runs out\n"
    "  --kill-wait NS     after SIGKILL\n"
    "  --command-limit NS for one command to a container engine\n"
    "  --uid N --gid N    owner of the work directory\n"
    "  --log-segment N    bytes of one log file\n"
    "  --no-cgroup        contain by subreaper, session and environment marker only\n"
    "  --adopt            take a dead guard's ledger over, to tear it down\n";

bool Number(const char* text, long long* number) {
  char* end = nullptr;
  errno = 0;
  *number = std::strtoll(text, &end, 10);
  return errno == 0 && end != text && *end == '\0' && *number >= 0;
}

bool Parse(int argc, char** argv, poolmark::guard::GuardOptions* options) {
  for (int i = 1; i < argc; ++i) {
    std::string flag = argv[i];
    if (flag == "--adopt") {
      options->adopt = true;
      continue;
    }
    if (flag == "--no-cgroup") {
      options->use_cgroup = false;
      continue;
    }
    if (i + 1 >= argc) return false;
    const char* value = argv[++i];
    long long number = 0;
    bool is_number = Number(value, &number);
    if (flag == "--dir") {
      options->directory = value;
    } else if (flag == "--run") {
      options->run = value;
    } else if (flag == "--job") {
      options->job = value;
    } else if (flag == "--work-base") {
      options->work_base = value;
    } else if (flag == "--work-name") {
      options->work_name = value;
    } else if (!is_number) {
      return false;
    } else if (flag == "--epoch") {
      options->epoch = static_cast<uint64_t>(number);
    } else if (flag == "--deadline") {
      options->deadline = std::chrono::nanoseconds(number);
    } else if (flag == "--grace") {
      options->grace = std::chrono::nanoseconds(number);
    } else if (flag == "--kill-wait") {
      options->kill_wait = std::chrono::nanoseconds(number);
    } else if (flag == "--command-limit") {
      options->command_limit = std::chrono::nanoseconds(number);
    } else if (flag == "--uid") {
      options->uid = static_cast<unsigned>(number);
    } else if (flag == "--gid") {
      options->gid = static_cast<unsigned>(number);
    } else if (flag == "--log-segment") {
      options->log_limits.segment_bytes = static_cast<uint64_t>(number);
    } else {
      return false;
    }
  }
  return !options->directory.empty() && !options->run.empty();
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 2 && std::strcmp(argv[1], "--help") == 0) {
    std::fputs(kUsage, stdout);
    return 0;
  }
  poolmark::guard::GuardOptions options;
  if (!Parse(argc, argv, &options)) {
    std::fputs(kUsage, stderr);
    return 2;
  }
  poolmark::guard::Guard guard(options);
  poolmark::guard::Fault fault = guard.Prepare();
  if (!fault.ok()) {
    std::fprintf(stderr, "poolmark-guard: %s\n", fault.text().c_str());
    return 3;
  }
  return guard.Serve();
}
