// All that a run made, compared with its ledger: processes, directories, files, ports, shared memory.
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <set>

#include "agent/guard/items.h"
#include "agent/guard/ports.h"
#include "agent/guard/proc.h"
#include "agent/guard/shared_memory.h"
#include "common/base/files.h"
#include "tests/component/guard/guard_fixture.h"

using namespace poolmark;
using namespace poolmark::test;

namespace {

std::set<std::string> PathsBelow(const std::string& root) {
  std::set<std::string> paths;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(root)) paths.insert(entry.path());
  return paths;
}

std::set<std::string> Segments() {
  std::set<std::string> names;
  for (const auto& [name, inode] : guard::PosixSegments()) names.insert(name);
  return names;
}

// Is the path, or a directory above it, named in the ledger?
bool IsNamed(std::string path, const std::set<std::string>& named) {
  for (; path.size() > 1; path = path.substr(0, path.rfind('/'))) {
    if (named.contains(path)) return true;
  }
  return false;
}

}  // namespace

TEST_CASE("the ledger names all that a run made, and only that", "[live]") {
  GuardFixture fixture;
  const std::string disks = fixture.dir("disks");  // which the machine offers
  REQUIRE(MakeDirs(disks).ok());
  const std::string tier = disks + "/tier/kv";
  const std::string outside = fixture.dir("stranger");
  const std::string segment = "poolmark-complete-" + fixture.run_name();
  const int port = FreePort(), late_port = FreePort();
  // A job of every kind of thing: a directory of its own, files in it, files in the work directory, a helper
  // in a session of its own that listens, shared memory.
  const std::set<std::string> before = {fixture.dir("work"), disks};
  fixture.Must(Record("directory").Add("epoch", 3).Add("base", disks).Add("path", "tier/kv"));
  fixture.StartShell(
      "engine-0",
      "mkdir -p $WORK/a/b; echo x > $WORK/a/b/c; echo kv > " + tier + "/block; exec 9>/dev/shm/" + segment +
          "; setsid sleep 1000 & (sleep 1000; true) & echo up; exec python3 -c 'import socket, "
          "time; s = socket.create_server((\"127.0.0.1\", " +
          std::to_string(port) + ")); print(\"listens\", flush=True); time.sleep(1000)'",
      {{"port", std::to_string(port)}});
  fixture.StartShell("load-0", "echo up; exec sleep 1000", {{"port", std::to_string(late_port)}});
  REQUIRE(WaitFor([&] { return fixture.Log("engine-0") == "up\nlistens\n"; }));
  REQUIRE(WaitFor([&] { return fixture.Log("load-0") == "up\n"; }));
  REQUIRE(MakeDirs(outside).ok());

  const auto state = [&] { return guard::Fold(fixture.Ledger().records); };
  REQUIRE(WaitFor([&] {
    for (const auto& [number, item] : state().items) {
      if (item.kind != "shared_memory") continue;
      for (const std::string& pair : item.made.All("ours")) {
        if (pair.starts_with(segment + ":")) return true;
      }
    }
    return false;
  }));
  std::set<std::string> places, ports;
  std::set<pid_t> leaders;
  for (const auto& [number, item] : state().items) {
    if (item.kind == "directory" || item.kind == "file") places.insert(item.name);
    if (item.kind == "port") ports.insert(item.name);
    if (item.kind == "process") leaders.insert(static_cast<pid_t>(item.made.Signed("pid").value_or(0)));
  }
  // Files: what is new lies below something named; the run's own directory holds the ledger itself and the
  // logs.
  int files = 0;
  for (const std::string& path : PathsBelow(fixture.dir(""))) {
    if (before.contains(path) || path.starts_with(outside) || path.starts_with(fixture.run_dir())) continue;
    INFO(path);
    CHECK(IsNamed(path, places));
    ++files;
  }
  CHECK(files >= 6);
  CHECK_FALSE(IsNamed(outside, places));
  for (const std::string& place : places) {
    INFO(place);
    CHECK(FileExists(place));
  }
  // Processes: all that carry the run's marker descend from one that is named, or are it.
  int processes = 0;
  for (pid_t pid : guard::AllPids()) {
    if (!guard::HasEnvironmentWord(pid, "POOLMARK_RUN=" + fixture.run_name())) continue;
    pid_t up = pid;
    for (auto stat = guard::ReadStat(up); stat && !leaders.contains(up) && up > 1; stat = guard::ReadStat(up))
      up = stat->parent;
    INFO("pid " << pid);
    // The guard is the subreaper of helpers whose parent has ended: their session or parent is named then.
    CHECK((leaders.contains(up) || up == 1 || up == fixture.guard_pid()));
    ++processes;
  }
  CHECK(processes >= 4);
  for (pid_t leader : leaders) CHECK(ProcessExists(leader));
  CHECK(ports == std::set<std::string>{std::to_string(port), std::to_string(late_port)});

  // And nothing of it is there after a tear-down that says so.
  const auto events = fixture.TearDown();
  CHECK(GuardFixture::Clean(events));
  for (const std::string& path : PathsBelow(fixture.dir(""))) {
    if (path.starts_with(fixture.run_dir())) continue;
    INFO(path);
    CHECK((before.contains(path) || path == outside));
  }
  CHECK_FALSE(Segments().contains(segment));
  for (pid_t pid : guard::AllPids())
    CHECK_FALSE(guard::HasEnvironmentWord(pid, "POOLMARK_RUN=" + fixture.run_name()));
}
