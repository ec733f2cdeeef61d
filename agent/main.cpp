// poolmark-agent: serves one machine to the controller. See docs/agent.md.
#include <malloc.h>
#include <poll.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "agent/api/agent.h"
#include "agent/api/config.h"
#include "agent/api/local.h"
#include "common/base/files.h"
#include "common/base/log.h"
#include "common/base/version.h"
#include "common/rpc/enroll_client.h"

namespace poolmark::agent {
namespace {

constexpr char kUsage[] =
    "poolmark-agent: serves this machine to the controller\n"
    "\n"
    "  poolmark-agent run [--config FILE]            serve (systemd: Type=notify)\n"
    "  poolmark-agent join TOKEN [--config FILE]     get this machine's certificate; `-`: the token from "
    "standard input\n"
    "  poolmark-agent status [--config FILE]         what runs here, and what was left\n"
    "  poolmark-agent drain [--config FILE]          stop all runs, with proof\n"
    "  poolmark-agent version\n"
    "\n"
    "--config defaults to /etc/poolmark/agent.yaml. Exit codes: 0 done, 1 failed, 2 usage or configuration,\n"
    "6 something was left or could not be proven gone.\n";
constexpr int kOk = 0;
constexpr int kFailed = 1;
constexpr int kBadUse = 2;

int Complain(const Status& status, int code) {
  std::fprintf(stderr, "poolmark-agent: %s\n", std::string(status.message()).c_str());
  return code;
}

// systemd's readiness protocol: one datagram to $NOTIFY_SOCKET.
void Notify(const std::string& text) {
  const char* path = std::getenv("NOTIFY_SOCKET");
  if (path == nullptr || *path == '\0') return;
  int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  size_t length = std::min(std::strlen(path), sizeof address.sun_path - 1);
  std::memcpy(address.sun_path, path, length);
  if (address.sun_path[0] == '@') address.sun_path[0] = '\0';  // abstract
  auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + length);
  if (fd >= 0)
    sendto(fd, text.data(), text.size(), MSG_NOSIGNAL, reinterpret_cast<sockaddr*>(&address), size);
  if (fd >= 0) close(fd);
}

// Half of what systemd allows between two signs of life; -1: none are wanted.
int WatchdogMilliseconds() {
  const char* text = std::getenv("WATCHDOG_USEC");
  long long microseconds = text != nullptr ? std::atoll(text) : 0;
  return microseconds > 0 ? static_cast<int>(microseconds / 2000) : -1;
}

int Run(const AgentConfig& config) {
  // Many threads that allocate little: an arena for each would triple the agent's memory.
  mallopt(M_ARENA_MAX, 2);
  // Large buffers go back at once; left alone, the limit would rise with them and their holes would stay.
  mallopt(M_MMAP_THRESHOLD, 128 * 1024);
  sigset_t wanted;
  sigemptyset(&wanted);
  for (int signal : {SIGTERM, SIGINT}) sigaddset(&wanted, signal);
  sigprocmask(SIG_BLOCK, &wanted, nullptr);
  signal(SIGPIPE, SIG_IGN);
  int signals = signalfd(-1, &wanted, SFD_CLOEXEC);
  auto agent = Agent::Start(config);
  if (!agent.ok())
    return Complain(agent.status(), absl::IsInvalidArgument(agent.status()) ? kBadUse : kFailed);
  std::printf("listening on %s\n", (*agent)->address().c_str());
  std::fflush(stdout);
  Notify("READY=1");
  pollfd waiting{signals, POLLIN, 0};
  while (poll(&waiting, 1, WatchdogMilliseconds()) <= 0) Notify("WATCHDOG=1");
  // Guards and engines go on: the next agent takes them over, or the lease ends them.
  Notify("STOPPING=1");
  agent->reset();
  return kOk;
}

int Join(std::string token, AgentConfig config) {
  if (token == "-") {  // so that it shows in no list of processes
    token.clear();
    for (int c = 0; (c = std::getchar()) != EOF && c != '\n' && token.size() < 4096;)
      token += static_cast<char>(c);
  }
  if (config.tls_dir.empty()) config.tls_dir = config.state_dir + "/tls";
  if (Status made = MakeDirs(config.state_dir, 0700); !made.ok()) return Complain(made, kFailed);
  auto enrolled = rpc::Enroll(token);
  if (!enrolled.ok()) return Complain(enrolled.status(), kFailed);
  if (enrolled->role != rpc::Role::kAgent) {
    return Complain(
        Precondition("token",
                     absl::StrCat("it is for ", rpc::RoleName(enrolled->role), " '", enrolled->name, "'"),
                     "make one for this machine"),
        kFailed);
  }
  if (!config.machine.empty() && config.machine != enrolled->name) {
    return Complain(Precondition("token",
                                 absl::StrCat("it is for machine '", enrolled->name, "', agent.yaml says '",
                                              config.machine, "'"),
                                 "correct one of them"),
                    kFailed);
  }
  Status installed = rpc::InstallIdentity(config.tls_dir, enrolled->identity, RealClock());
  if (!installed.ok()) return Complain(installed, kFailed);
  Status noted = AtomicWriteFile(config.state_dir + "/controller", enrolled->controller_address + "\n", 0600);
  if (!noted.ok()) return Complain(noted, kFailed);
  std::printf("machine %s joined cluster %s; controller %s; certificate in %s\n", enrolled->name.c_str(),
              enrolled->cluster.c_str(), enrolled->controller_address.c_str(), config.tls_dir.c_str());
  return kOk;
}

int Main(const std::vector<std::string>& words) {
  std::string config_file = "/etc/poolmark/agent.yaml";
  bool config_named = false;
  std::vector<std::string> rest;
  for (size_t i = 0; i < words.size(); ++i) {
    if (words[i] == "--config" && i + 1 < words.size()) {
      config_file = words[++i];
      config_named = true;
    } else if (words[i] == "--help" || words[i] == "-h") {
      std::fputs(kUsage, stdout);
      return kOk;
    } else {
      rest.push_back(words[i]);
    }
  }
  const std::string command = rest.empty() ? "" : rest[0];
  if (command == "version" && rest.size() == 1) {
    std::printf("poolmark-agent %s\n", Version().c_str());
    return kOk;
  }
  bool known = ((command == "run" || command == "status" || command == "drain") && rest.size() == 1) ||
               (command == "join" && rest.size() == 2);
  if (!known) {
    std::fputs(kUsage, stderr);
    return kBadUse;
  }
  AgentConfig config;
  if (config_named || FileExists(config_file)) {
    auto loaded = LoadAgentConfig(config_file);
    if (!loaded.ok()) return Complain(loaded.status(), kBadUse);
    config = *loaded;
  }
  if (command == "join") return Join(rest[1], config);
  if (command == "status") return PrintStatus(config);
  if (command == "drain") return Drain(config);
  return Run(config);
}

}  // namespace
}  // namespace poolmark::agent

int main(int argc, char** argv) {
  return poolmark::agent::Main({argv + 1, argv + argc});
}
