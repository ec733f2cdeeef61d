// Containers under a real guard, with a command that behaves as the clients of docker and podman do, each
// with its own words and codes (recorded from docker 28.2.2 and podman 4.3.1): the container lives on when
// the client is killed, names conflict, the engine refuses, hangs, is away or lies. No container engine runs
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
constexpr char kFakeClient[] = R"(#!/bin/sh
S=@STATE@
dialect=@DIALECT@
cmd=$1; shift
for last; do :; done
if [ -e "$S.away" ]; then
  if [ $dialect = docker ]; then echo "Error response from daemon: open /var/lib/docker/x: no such file or directory" >&2; exit 1; fi
  echo 'Error: unable to connect to Podman socket: Get "http://d/v4.3.1/libpod/_ping": dial unix /run/p.sock: connect: no such file or directory' >&2
  exit 125
fi
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
  if [ -e "$S/$name" ]; then
    if [ $dialect = docker ]; then
      echo "docker: Error response from daemon: Conflict. The container name \"/$name\" is already in use by container \"38b4f1e6\"." >&2
    else
      echo "Error: creating container storage: the container name \"$name\" is already in use by 38b4f1e6. You have to remove that container to be able to reuse that name: that name is already in use" >&2
    fi
    exit 125
  fi
  echo "$run" > "$S/$name"
  echo "$HOME" > "$S.home"
  echo "token $HF_TOKEN in container"
  trap 'exit 143' TERM
  while :; do sleep 0.02; done;;
inspect)
  [ -e "$S.hang" ] && sleep 1000
  echo "$HOME" > "$S.home-of-inspect"
  if [ -e "$S/$last" ]; then
    [ $dialect = podman ] && echo 'time="2026-11-30T10:00:00Z" level=warning msg="The cgroupv2 manager is set to systemd"' >&2
    cat "$S/$last"
  elif [ $dialect = docker ]; then echo; echo "Error response from daemon: No such container: $last" >&2; exit 1
  else echo "Error: inspecting object: no such container $last" >&2; exit 125
  fi;;
stop) echo "$last" >> "$S.stopped"; echo "$last";;
rm)
  if [ -e "$S.refuse" ]; then echo "permission denied while trying to connect to the engine" >&2; exit 1; fi
  rm -f "$S/$last"; echo "$last";;
esac
)";

struct Engine {
  Engine(GuardFixture& fixture, process::BackendKind backend)
      : kind(backend), state(fixture.dir("containers")), tool(fixture.dir("client")) {
    REQUIRE(MakeDirs(state).ok());
    std::string script = kFakeClient;
    script.replace(script.find("@STATE@"), 7, state);
    script.replace(script.find("@DIALECT@"), 9, name());
    REQUIRE(AtomicWriteFile(tool, script, 0755).ok());
  }
  std::string name() const { return kind == process::BackendKind::kDocker ? "docker" : "podman"; }

  process::BackendKind kind;
  std::string state;
  std::string tool;
};

process::BackendKind EachBackend() {
  return GENERATE(process::BackendKind::kDocker, process::BackendKind::kPodman);
}

// The request that the backend composes, for this fixture.
Record ContainerRequest(GuardFixture& fixture, const Engine& engine) {
  auto allow =
      process::AllowList::Parse("version: 1\nimages: [vllm@sha256:aa]\ncontainers: {" + engine.name() + ": " +
                                    engine.tool + "}\nsecrets: {hf: [vllm@sha256:aa]}\n",
                                "allow");
  REQUIRE(allow.ok());
  process::LaunchSpec spec;
  spec.id = "engine-0";
  spec.backend = engine.kind;
  spec.image = "vllm@sha256:aa";
  REQUIRE(MakeDirs(fixture.dir("secrets"), 0700).ok());
  REQUIRE(AtomicWriteFile(fixture.dir("secrets/hf"), "hf_CANARY", 0600).ok());
  spec.secrets = {{"HF_TOKEN", "hf"}};
  process::LaunchPlace place{fixture.run_name(), "job-1", fixture.work_dir(), fixture.work_dir(), 1, {}, {}};
  auto record =
      process::MakeBackend(spec.backend)->Compose(spec, place, *allow, Secrets(fixture.dir("secrets"), ""));
  REQUIRE(record.ok());
  record->Add("epoch", 3);
  return *record;
}

std::string Name(const Record& request, const Engine& engine) {
  return engine.state + "/" + request.Get("container");
}

// Its label is written too: a real engine makes a container with its labels, never before them.
bool IsUp(const std::string& container) {
  auto label = ReadFile(container);
  return label.ok() && !label->empty();
}

}  // namespace

TEST_CASE("a container is removed with proof, and its secret is in no argument", "[C25][recorded]") {
  GuardFixture fixture;
  Engine engine(fixture, EachBackend());
  Record request = ContainerRequest(fixture, engine);
  Record process = fixture.Must(request).data.at(0);
  REQUIRE(WaitFor([&] { return fixture.Log("engine-0").find("in container\n") != std::string::npos; }));
  CHECK(fixture.Log("engine-0") == "token [redacted] in container\n");
  std::string line = guard::ReadPseudo("/proc/" + process.Get("pid") + "/cmdline");
  CHECK(line.find("--cap-drop") != std::string::npos);
  CHECK(line.find("CANARY") == std::string::npos);
  CHECK(FileExists(Name(request, engine)));
  auto events = fixture.TearDown();
  CHECK(GuardFixture::Clean(events));
  CHECK(GuardFixture::Items(events, "container").at(0).Get("state") == "gone");
  CHECK_FALSE(FileExists(Name(request, engine)));
  // A podman without root keeps its containers below HOME: both must look in the same one.
  CHECK(*ReadFile(engine.state + ".home") == *ReadFile(engine.state + ".home-of-inspect"));
}

TEST_CASE("a container whose client was killed is found by the ledger and removed", "[C25][recorded]") {
  GuardFixture fixture;
  Engine engine(fixture, EachBackend());
  Record request = ContainerRequest(fixture, engine);
  Record process = fixture.Must(request).data.at(0);
  REQUIRE(WaitFor([&] { return IsUp(Name(request, engine)); }));
  kill(static_cast<pid_t>(*process.Signed("pid")), SIGKILL);
  fixture.WaitState("engine-0", "exited");
  CHECK(FileExists(Name(request, engine)));
  // Also by another guard, when this one dies.
  if (GENERATE(false, true)) {
    fixture.KillGuard();
    fixture.Adopt();
  }
  CHECK(GuardFixture::Clean(fixture.TearDown()));
  CHECK_FALSE(FileExists(Name(request, engine)));
  CHECK(ReadFile(engine.state + ".stopped")->find(request.Get("container")) == 0);
}

TEST_CASE("a container that cannot be removed or looked at is no clean tear-down", "[recorded]") {
  struct Trouble {
    const char *file, *state, *detail;
  };
  const Trouble trouble = GENERATE(Trouble{".hang", "unknown", "no answer in time"},
                                   Trouble{".refuse", "left", "permission denied"},
                                   Trouble{".away", "unknown", "no such file or directory"});
  GuardFixture fixture([](process::GuardStart* start) { start->command_limit = milliseconds(500); });
  Engine engine(fixture, EachBackend());
  Record request = ContainerRequest(fixture, engine);
  fixture.Must(request);
  REQUIRE(WaitFor([&] { return IsUp(Name(request, engine)); }));
  REQUIRE(AtomicWriteFile(engine.state + trouble.file, "").ok());
  auto events = fixture.TearDown();
  CHECK_FALSE(GuardFixture::Clean(events));
  Record item = GuardFixture::Items(events, "container").at(0);
  INFO(engine.name() << trouble.file << ": " << item.Get("detail"));
  CHECK(item.Get("state") == trouble.state);
  CHECK(item.Get("detail").find(trouble.detail) != std::string::npos);
}

TEST_CASE("a stranger's container of the same name is never touched", "[recorded]") {
  GuardFixture fixture;
  Engine engine(fixture, EachBackend());
  Record request = ContainerRequest(fixture, engine);
  REQUIRE(AtomicWriteFile(Name(request, engine), "another-run\n").ok());
  fixture.Must(request);
  fixture.WaitState("engine-0", "exited");
  CHECK(fixture.Status("engine-0").Get("code") == "125");
  CHECK(fixture.Status("engine-0").Get("message").find("already in use") != std::string::npos);
  fixture.TearDown();
  CHECK(*ReadFile(Name(request, engine)) == "another-run\n");
}
