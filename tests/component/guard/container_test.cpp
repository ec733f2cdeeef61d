// Containers under a real guard, with a command that behaves as docker's client does: the container lives
// on when the client is killed, names conflict, the daemon refuses, hangs or lies. No container engine runs
// where these tests do.
#include <signal.h>

#include "agent/guard/proc.h"
#include "agent/process/launch.h"
#include "common/base/files.h"
#include "tests/component/guard/guard_fixture.h"

using namespace poolmark;
using namespace poolmark::test;
using std::chrono::milliseconds;
using std::chrono::seconds;

namespace {

// State: a file for each container, which holds its run label.
constexpr char kFakeDocker[] = R"(#!/bin/sh
S=@STATE@
cmd=$1; shift
for last; do :; done
case $cmd in
run)
  name=; run=; image=
  while [ $# -gt 0 ]; do
    case $1 in
      --name) name=$2; shift 2;;
      --label) case $2 in poolmark.run=*) run=${2#poolmark.run=};; esac; shift 2;;
      *) shift;;
    esac
  done
  if [ -e "$S/$name" ]; then echo "Conflict. The container name \"/$name\" is already in use" >&2; exit 125; fi
  echo "$run" > "$S/$name"
  echo "token $HF_TOKEN in container"
  trap 'exit 143' TERM
  while :; do sleep 0.02; done;;
inspect)
  [ -e "$S.hang" ] && sleep 1000
  if [ -e "$S/$last" ]; then cat "$S/$last"; else echo "Error: No such container: $last" >&2; exit 1; fi;;
stop) echo "$last" >> "$S.stopped";;
rm)
  if [ -e "$S.refuse" ]; then echo "permission denied while trying to connect to the docker daemon" >&2; exit 1; fi
  rm -f "$S/$last";;
esac
)";

struct Docker {
  explicit Docker(GuardFixture& fixture) : state(fixture.dir("containers")), tool(fixture.dir("docker")) {
    REQUIRE(MakeDirs(state).ok());
    std::string script = kFakeDocker;
    script.replace(script.find("@STATE@"), 7, state);
    REQUIRE(AtomicWriteFile(tool, script, 0755).ok());
  }
  std::string state;
  std::string tool;
};

// The request that the docker backend composes, for this fixture.
Record ContainerRequest(GuardFixture& fixture, const Docker& docker) {
  auto allow = process::AllowList::Parse(
      "version: 1\nimages: [vllm@sha256:aa]\ncontainers: {docker: " + docker.tool + "}\n", "allow");
  REQUIRE(allow.ok());
  process::LaunchSpec spec;
  spec.id = "engine-0";
  spec.backend = process::BackendKind::kDocker;
  spec.image = "vllm@sha256:aa";
  REQUIRE(MakeDirs(fixture.dir("secrets"), 0700).ok());
  REQUIRE(AtomicWriteFile(fixture.dir("secrets/hf"), "hf_CANARY", 0600).ok());
  spec.secrets = {{"HF_TOKEN", "hf"}};
  process::LaunchPlace place{fixture.run_name(), "job-1", fixture.work_dir(), fixture.work_dir(), 1, {}, {}};
  auto record = process::MakeBackend(spec.backend)
                    ->Compose(spec, place, *allow, process::Secrets(fixture.dir("secrets"), ""));
  REQUIRE(record.ok());
  record->Add("epoch", 3);
  return *record;
}

std::string Name(const Record& request, const Docker& docker) {
  return docker.state + "/" + request.Get("container");
}

// Its label is written too: a real engine makes a container with its labels, never before them.
bool IsUp(const std::string& container) {
  auto label = ReadFile(container);
  return label.ok() && !label->empty();
}

}  // namespace

TEST_CASE("a container is removed with proof, and its secret is in no argument", "[C25][recorded]") {
  GuardFixture fixture;
  Docker docker(fixture);
  Record request = ContainerRequest(fixture, docker);
  Record process = fixture.Must(request).data.at(0);
  REQUIRE(WaitFor([&] { return fixture.Log("engine-0").find("in container\n") != std::string::npos; }));
  CHECK(fixture.Log("engine-0") == "token [redacted] in container\n");
  std::string line = guard::ReadPseudo("/proc/" + process.Get("pid") + "/cmdline");
  CHECK(line.find("--cap-drop") != std::string::npos);
  CHECK(line.find("CANARY") == std::string::npos);
  CHECK(FileExists(Name(request, docker)));
  auto events = fixture.TearDown();
  CHECK(GuardFixture::Clean(events));
  CHECK(GuardFixture::Items(events, "container").at(0).Get("state") == "gone");
  CHECK_FALSE(FileExists(Name(request, docker)));
}

TEST_CASE("a container whose client was killed is found by the ledger and removed", "[C25][recorded]") {
  GuardFixture fixture;
  Docker docker(fixture);
  Record request = ContainerRequest(fixture, docker);
  Record process = fixture.Must(request).data.at(0);
  REQUIRE(WaitFor([&] { return IsUp(Name(request, docker)); }));
  kill(static_cast<pid_t>(*process.Signed("pid")), SIGKILL);
  fixture.WaitState("engine-0", "exited");
  CHECK(FileExists(Name(request, docker)));
  // Also by another guard, when this one dies.
  if (GENERATE(false, true)) {
    fixture.KillGuard();
    fixture.Adopt();
  }
  CHECK(GuardFixture::Clean(fixture.TearDown()));
  CHECK_FALSE(FileExists(Name(request, docker)));
  CHECK(ReadFile(docker.state + ".stopped")->find(request.Get("container")) == 0);
}

TEST_CASE("a container that cannot be removed or looked at is no clean tear-down", "[recorded]") {
  bool hang = GENERATE(false, true);
  GuardFixture fixture([](process::GuardStart* start) { start->command_limit = milliseconds(500); });
  Docker docker(fixture);
  Record request = ContainerRequest(fixture, docker);
  fixture.Must(request);
  REQUIRE(WaitFor([&] { return IsUp(Name(request, docker)); }));
  REQUIRE(AtomicWriteFile(docker.state + (hang ? ".hang" : ".refuse"), "").ok());
  auto events = fixture.TearDown();
  CHECK_FALSE(GuardFixture::Clean(events));
  Record item = GuardFixture::Items(events, "container").at(0);
  CHECK(item.Get("state") == (hang ? "unknown" : "left"));
  CHECK(item.Get("detail").find(hang ? "no answer in time" : "permission denied") != std::string::npos);
}

TEST_CASE("a stranger's container of the same name is never touched", "[recorded]") {
  GuardFixture fixture;
  Docker docker(fixture);
  Record request = ContainerRequest(fixture, docker);
  REQUIRE(AtomicWriteFile(Name(request, docker), "another-run\n").ok());
  fixture.Must(request);
  fixture.WaitState("engine-0", "exited");
  CHECK(fixture.Status("engine-0").Get("code") == "125");
  CHECK(fixture.Status("engine-0").Get("message").find("Conflict") != std::string::npos);
  fixture.TearDown();
  CHECK(*ReadFile(Name(request, docker)) == "another-run\n");
}
