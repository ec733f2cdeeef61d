// Answers of real clients, recorded: docker 28.2.2 (its daemon's part by an HTTP server on its socket),
// podman 4.3.1 with containers that were created and, where the kernel refused to run them, failed.
#include "agent/guard/container_client.h"

#include <catch2/catch.hpp>
#include <cstdlib>

using namespace poolmark::guard;

namespace {

struct Answer {
  const char* what;
  int exit_code;
  std::string out, error;
  Presence presence;
};

const Answer kAnswers[] = {
    {"docker: ours", 0, "job-e1-aa\n", "", Presence::kOurs},
    {"docker: no such label", 0, "\n", "", Presence::kAnothers},
    {"docker: another run's", 0, "job-e2-bb\n", "", Presence::kAnothers},
    {"docker: absent", 1, "\n", "Error response from daemon: No such container: box-1\n", Presence::kAbsent},
    {"docker before 28: absent", 1, "", "Error: No such container: box-1\n", Presence::kAbsent},
    {"docker: the daemon's own trouble", 1, "\n",
     "Error response from daemon: open /var/lib/docker/x: no such file or directory\n", Presence::kUnknown},
    {"docker: no daemon", 1, "",
     "Cannot connect to the Docker daemon at unix:///var/run/docker.sock. Is the docker daemon running?\n",
     Presence::kUnknown},
    {"docker: another container is absent", 1, "\n", "Error response from daemon: No such container: box-2\n",
     Presence::kUnknown},
    {"podman: ours", 0, "job-e1-aa\n", "", Presence::kOurs},
    {"podman: ours, with a warning", 0, "job-e1-aa\n",
     "time=\"2026-11-30T10:00:00Z\" level=warning msg=\"The cgroupv2 manager is set to systemd but there is "
     "no "
     "systemd user session available\"\n",
     Presence::kOurs},
    {"podman: no such label", 0, "\n", "", Presence::kAnothers},
    {"podman: absent", 125, "", "Error: inspecting object: no such container box-1\n", Presence::kAbsent},
    {"podman: absent, by stop and rm", 125, "",
     "Error: no container with name or ID \"box-1\" found: no such container\n", Presence::kAbsent},
    {"podman: no service", 125, "",
     "Cannot connect to Podman. Please verify your connection to the Linux system using `podman system "
     "connection "
     "list`, or try `podman machine init` and `podman machine start` to manage a new Linux VM\nError: unable "
     "to connect "
     "to Podman socket: Get \"http://d/v4.3.1/libpod/_ping\": dial unix /nonexistent/p.sock: connect: no "
     "such file or "
     "directory\n",
     Presence::kUnknown},
};

}  // namespace

TEST_CASE("only an engine that says so proves that a container is absent", "[C25][recorded]") {
  for (const Answer& answer : kAnswers) {
    INFO(answer.what);
    CHECK(ReadInspect(answer.exit_code, answer.out, answer.out + answer.error, "box-1", "job-e1-aa") ==
          answer.presence);
  }
}

TEST_CASE("the launch of a container asks the engine that the tear-down will ask") {
  const char* before = getenv("HOME");
  const std::string home = before == nullptr ? "/" : before;
  setenv("DOCKER_HOST", "unix:///run/other.sock", 1);
  setenv("HOME", "/home/agent", 1);
  unsetenv("CONTAINER_HOST");
  auto env = WithClientVariables({"PATH=/bin", "HOME=/srv/job", "CONTAINER_HOST=tcp://x", "MODEL=m"});
  auto has = [&](const std::string& word) { return std::find(env.begin(), env.end(), word) != env.end(); };
  CHECK(has("PATH=/bin"));
  CHECK(has("MODEL=m"));
  CHECK(has("HOME=/home/agent"));
  CHECK(has("DOCKER_HOST=unix:///run/other.sock"));
  CHECK_FALSE(has("HOME=/srv/job"));
  CHECK_FALSE(has("CONTAINER_HOST=tcp://x"));
  for (const std::string& word : ClientVariables()) CHECK(has(word));
  unsetenv("DOCKER_HOST");
  setenv("HOME", home.c_str(), 1);
}
