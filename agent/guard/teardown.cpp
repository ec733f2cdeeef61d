#include "agent/guard/teardown.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>

#include <algorithm>
#include <charconv>

#include "agent/guard/cgroup.h"
#include "agent/guard/container_client.h"
#include "agent/guard/directories.h"
#include "agent/guard/ports.h"
#include "agent/guard/shared_memory.h"

namespace poolmark::guard {
namespace {

using std::chrono::milliseconds;

// "name:123" -> name and 123; names may hold colons.
bool SplitPair(const std::string& text, std::string* name, uint64_t* number) {
  size_t colon = text.rfind(':');
  if (colon == std::string::npos) return false;
  *name = text.substr(0, colon);
  auto [end, error] = std::from_chars(text.data() + colon + 1, text.data() + text.size(), *number);
  return error == std::errc() && end == text.data() + text.size();
}

std::string Who(const Member& member) {
  auto stat = ReadStat(member.pid);
  std::string text = "pid " + std::to_string(member.pid);
  return stat ? text + " (" + stat->command + ", state " + stat->state + ")" : text;
}

std::string Join(const std::vector<std::string>& parts, size_t limit = 20) {
  std::string text;
  for (size_t i = 0; i < parts.size() && i < limit; ++i) text += (i == 0 ? "" : ", ") + parts[i];
  if (parts.size() > limit) text += " and " + std::to_string(parts.size() - limit) + " more";
  return text;
}

}  // namespace

Teardown::Teardown(TeardownOptions options, Run* run, Containment* containment, Supervisor* supervisor,
                   Poller* poller)
    : options_(std::move(options)),
      run_(run),
      containment_(containment),
      supervisor_(supervisor),
      poller_(poller) {}

void Teardown::AttributeSharedMemory(Run* run, Containment* containment, Supervisor*) {
  const Item* baseline = nullptr;
  for (const auto& [number, item] : run->state().items) {
    if (item.kind == "shared_memory" && item.state == GoneState::kOpen) baseline = &item;
  }
  if (baseline == nullptr) return;
  std::set<std::string> known;
  for (const char* key : {"before", "ours"}) {
    for (std::string& pair : (std::string(key) == "before" ? baseline->intent : baseline->made).All(key)) {
      known.insert(std::move(pair));
    }
  }
  std::vector<std::pair<std::string, uint64_t>> fresh;
  for (const auto& [name, inode] : PosixSegments()) {
    if (known.count(name + ":" + std::to_string(inode)) == 0) fresh.emplace_back(name, inode);
  }
  if (fresh.empty()) return;
  std::set<std::string> held = SegmentsHeldBy(containment->Members());
  Record seen = Record("made").Add("n", baseline->number);
  for (const auto& [name, inode] : fresh) {
    if (held.count(name) != 0) seen.Add("ours", name + ":" + std::to_string(inode));
  }
  if (seen.fields.size() > 1) run->Note(seen);
}

void Teardown::StopEverything(const std::function<bool()>& cut_short) {
  for (uint64_t number : supervisor_->RunningNewestFirst()) supervisor_->Terminate(number);
  auto quiet = [&] {
    supervisor_->Reap();
    return supervisor_->RunningNewestFirst().empty();
  };
  auto begin = BootNow();
  poller_->RunUntil([&] { return quiet() || cut_short(); }, options_.grace);
  // The leaders are gone or out of time; what they left behind gets what remains of the grace.
  containment_->Note();
  std::vector<Member> left = containment_->Members();
  for (const Member& member : left) SignalPid(OpenPid(member.pid, member.start_time).get(), SIGTERM);
  auto rest = options_.grace - (BootNow() - begin);
  if (!left.empty() && rest.count() > 0) {
    poller_->RunUntil([&] { return (quiet() && containment_->Members().empty()) || cut_short(); }, rest,
                      milliseconds(50));
  }
  left = containment_->Members();
  if (!left.empty() || !quiet()) {
    supervisor_->NoteForced();
    auto kill_end = BootNow() + options_.kill_wait;
    // Again and again: without a cgroup, one that forks while we kill can escape a single pass.
    do {
      for (const Member& member : left) forced_.insert(member.pid);
      containment_->KillAll();
      poller_->RunOnce(milliseconds(10));
      (void)quiet();
      left = containment_->Members();
    } while ((!left.empty() || !quiet()) && BootNow() < kill_end);
  }
  survivors_ = left;
  supervisor_->FlushLogs();
}

bool Teardown::Execute(const std::function<bool()>& cut_short) {
  same_boot_ = run_->state().boot == BootId();
  run_->Note(Record("teardown").Add("cause", options_.cause).Add("keep", options_.keep ? 1 : 0));
  run_->events().Add(Record("event").Add("kind", "teardown").Add("cause", options_.cause));
  containment_->Note();
  AttributeSharedMemory(run_, containment_, supervisor_);
  StopEverything(cut_short);

  auto report = [&](const std::string& kind, const std::string& name, const Seen& seen) {
    Record event("event");
    event.Add("kind", "item").Add("item", kind).Add("name", name).Add("state", GoneStateName(seen.state));
    event.Add("proof", seen.proof).Add("detail", seen.detail).Add("forced", seen.forced ? 1 : 0);
    run_->events().Add(std::move(event));
  };
  uint64_t left = 0;
  for (uint64_t number : run_->state().OwedNewestFirst()) {
    poller_->RunOnce(milliseconds(0));
    const Item item = run_->state().items.at(number);
    Seen seen = Look(item);
    run_->Note(Record("gone")
                   .Add("n", number)
                   .Add("state", GoneStateName(seen.state))
                   .Add("proof", seen.proof)
                   .Add("detail", seen.detail)
                   .Add("forced", seen.forced ? 1 : 0));
    report(item.kind, item.name, seen);
    if (seen.state != GoneState::kGone && seen.state != GoneState::kAlreadyGone) ++left;
  }
  if (containment_->has_cgroup() && CgroupExists(containment_->group()) && survivors_.empty()) {
    Fault fault = RemoveCgroup(containment_->group());
    if (!fault.ok()) {
      ++left;
      report("cgroup", containment_->group(), Seen{GoneState::kLeft, "", fault.text(), false});
    }
  }
  if (containment_->has_cgroup()) {
    rmdir(containment_->group().substr(0, containment_->group().rfind('/')).c_str());  // unless others use it
  }
  for (const Member& member : survivors_) {
    ++left;
    report("process", Who(member), Seen{GoneState::kLeft, "", "still there after SIGKILL", true});
  }
  for (const std::string& damage : options_.damages) {
    ++left;
    report("ledger", damage, Seen{GoneState::kUnknown, "", "what stood there cannot be known", false});
  }
  bool clean = left == 0;
  Record verdict("torn_down");
  verdict.Add("clean", clean ? 1 : 0).Add("left", left).Add("cause", options_.cause);
  run_->Note(verdict);
  run_->events().Add(Record("event")
                         .Add("kind", "torn_down")
                         .Add("clean", clean ? 1 : 0)
                         .Add("left", left)
                         .Add("cause", options_.cause));
  return clean;
}

Teardown::Seen Teardown::Look(const Item& item) {
  if (item.kind == "process") return LookAtProcess(item);
  if (item.kind == "cgroup") return LookAtCgroup(item);
  if (item.kind == "port") return LookAtPort(item);
  if (item.kind == "directory") return LookAtDirectory(item);
  if (item.kind == "file") return LookAtFile(item);
  if (item.kind == "container") return LookAtContainer(item);
  if (item.kind == "shared_memory") return LookAtSharedMemory(item);
  return Seen{GoneState::kUnknown, "", "this version knows no '" + item.kind + "'", false};
}

Teardown::Seen Teardown::LookAtProcess(const Item& item) {
  Seen seen;
  auto pid = item.made.Signed("pid");
  uint64_t start = item.made.Unsigned("start").value_or(0);
  if (!pid) {
    seen.state = survivors_.empty() ? GoneState::kAlreadyGone : GoneState::kUnknown;
    seen.proof = item.exit.Has("error") ? "never ran: " + item.exit.Get("error") : "was not started";
    return seen;
  }
  std::string who = "pid " + std::to_string(*pid) + ", start time " + std::to_string(start);
  if (!same_boot_) {
    seen.state = GoneState::kAlreadyGone;
    seen.proof = who + ": the machine was restarted since";
    return seen;
  }
  if (IsAlive(static_cast<pid_t>(*pid), start)) {
    seen.state = GoneState::kLeft;
    seen.detail = Who(Member{static_cast<pid_t>(*pid), start}) + " is still there after SIGKILL";
    return seen;
  }
  seen.forced = forced_.count(static_cast<pid_t>(*pid)) != 0;
  seen.state = GoneState::kGone;
  seen.proof = who + ": no such process";
  if (item.exit.Has("code")) seen.detail = "exit code " + item.exit.Get("code");
  if (item.exit.Has("signal")) seen.detail = "ended by signal " + item.exit.Get("signal");
  return seen;
}

Teardown::Seen Teardown::LookAtCgroup(const Item& item) {
  if (!CgroupExists(item.name)) return Seen{GoneState::kAlreadyGone, "no such cgroup", "", false};
  if (CgroupPopulated(item.name)) {
    std::vector<std::string> who;
    for (pid_t pid : CgroupMembers(item.name)) who.push_back(Who(Member{pid, 0}));
    return Seen{GoneState::kLeft, "", "still holds " + Join(who), false};
  }
  Fault fault = RemoveCgroup(item.name);
  if (!fault.ok()) return Seen{GoneState::kLeft, "", fault.text(), false};
  return Seen{GoneState::kGone, "cgroup empty, removed", "", false};
}

Teardown::Seen Teardown::LookAtPort(const Item& item) {
  auto port = static_cast<uint16_t>(Record("p").Add("v", item.name).Unsigned("v").value_or(0));
  // A socket lives a little longer than its process.
  if (poller_->RunUntil([&] { return CanBindPort(port); }, std::chrono::seconds(2))) {
    return Seen{GoneState::kGone, "port " + item.name + " can be bound", "", false};
  }
  std::vector<std::string> who;
  for (const PortHolder& holder : PortHolders(port)) {
    bool ours = std::any_of(survivors_.begin(), survivors_.end(),
                            [&](const Member& member) { return member.pid == holder.pid; });
    who.push_back("pid " + std::to_string(holder.pid) + " (" + holder.command + ")");
    if (ours) return Seen{GoneState::kLeft, "", "port " + item.name + " is held by our " + who.back(), false};
  }
  if (who.empty()) {
    return Seen{GoneState::kUnknown, "",
                "port " + item.name + " cannot be bound and its holder is not to be seen", false};
  }
  return Seen{GoneState::kGone, "no process of this run holds port " + item.name,
              "now held by a stranger: " + Join(who), false};
}

Teardown::Seen Teardown::LookAtDirectory(const Item& item) {
  struct stat facts;
  if (lstat(item.name.c_str(), &facts) != 0 && errno == ENOENT) {
    return Seen{GoneState::kAlreadyGone, "no such directory", "", false};
  }
  std::optional<MadeDirectory> identity;
  if (item.made.Has("inode")) {
    identity =
        MadeDirectory{item.made.Unsigned("device").value_or(0), item.made.Unsigned("inode").value_or(0)};
    // Device numbers of some file systems change with a restart; the inode and the name still tell.
    if (!same_boot_) identity->device = facts.st_dev;
  }
  RemovedTree removed = RemoveDirectory(item.name, identity, [this] { poller_->RunOnce(milliseconds(0)); });
  if (removed.left.empty() && lstat(item.name.c_str(), &facts) != 0 && errno == ENOENT) {
    return Seen{GoneState::kGone, std::to_string(removed.entries) + " entries removed, path absent", "",
                false};
  }
  return Seen{GoneState::kLeft, "", removed.left.empty() ? item.name + " came back" : removed.left, false};
}

Teardown::Seen Teardown::LookAtFile(const Item& item) {
  struct stat facts;
  if (lstat(item.name.c_str(), &facts) != 0) {
    if (errno == ENOENT || errno == ENOTDIR) return Seen{GoneState::kAlreadyGone, "no such file", "", false};
    return Seen{GoneState::kUnknown, "", item.name + ": " + std::strerror(errno), false};
  }
  if (S_ISDIR(facts.st_mode) || unlink(item.name.c_str()) != 0) {
    return Seen{GoneState::kLeft, "",
                item.name + ": " + (S_ISDIR(facts.st_mode) ? "is a directory" : std::strerror(errno)), false};
  }
  return Seen{GoneState::kGone, "file removed", "", false};
}

Teardown::Seen Teardown::LookAtContainer(const Item& item) {
  const std::string tool = item.intent.Get("tool");
  const std::string run = run_->state().run;
  std::string said;
  auto inspect = [&] {
    auto result = supervisor_->Command(InspectCommand(tool, item.name), options_.command_limit);
    said = result.output.substr(0, 300);
    while (!said.empty() && (said.back() == '\n' || said.back() == ' ')) said.pop_back();
    if (!result.ran) return Presence::kUnknown;
    return ReadInspect(result.exit_code, result.out, result.output, item.name, run);
  };
  switch (inspect()) {
    case Presence::kAbsent:
      return Seen{GoneState::kAlreadyGone, "the container engine knows no such container", "", false};
    case Presence::kAnothers:
      return Seen{GoneState::kAlreadyGone, "the container of that name has not our label", said, false};
    case Presence::kUnknown:
      return Seen{GoneState::kUnknown, "", tool + " inspect: " + said, false};
    case Presence::kOurs:
      break;
  }
  long seconds = std::chrono::duration_cast<std::chrono::seconds>(options_.grace).count();
  supervisor_->Command({tool, "stop", "-t", std::to_string(seconds), item.name},
                       options_.grace + options_.command_limit);
  auto removed =
      supervisor_->Command({tool, "rm", "--force", "--volumes", item.name}, options_.command_limit);
  const Presence there = inspect();
  if (there == Presence::kAbsent)
    return Seen{GoneState::kGone, "removed; the container engine knows it no more", "", false};
  std::string detail = tool + " rm: " + removed.output.substr(0, 300);
  if (there == Presence::kUnknown) detail += "; " + tool + " inspect: " + said;
  return Seen{there == Presence::kOurs ? GoneState::kLeft : GoneState::kUnknown, "", detail, false};
}

Teardown::Seen Teardown::LookAtSharedMemory(const Item& item) {
  if (!same_boot_) return Seen{GoneState::kAlreadyGone, "the machine was restarted since", "", false};
  std::set<std::string> before;
  for (std::string& pair : item.intent.All("before")) before.insert(std::move(pair));
  std::map<std::string, uint64_t> now = PosixSegments();
  std::vector<std::string> removed;
  std::vector<std::string> stuck;
  for (const std::string& pair : item.made.All("ours")) {
    std::string name;
    uint64_t inode = 0;
    if (!SplitPair(pair, &name, &inode)) continue;
    auto found = now.find(name);
    if (found == now.end() || found->second != inode) continue;
    (RemovePosixSegment(name, inode) ? removed : stuck).push_back(name);
    now.erase(name);
  }
  std::vector<std::string> others;
  for (const auto& [name, inode] : now) {
    if (before.count(name + ":" + std::to_string(inode)) == 0) others.push_back(name);
  }
  std::set<std::string> sysv_before;
  for (std::string& id : item.intent.All("sysv_before")) sysv_before.insert(std::move(id));
  for (const SysvSegment& segment : SysvSegments()) {
    std::string id = std::to_string(segment.id);
    if (sysv_before.count(id) != 0) continue;
    std::string name = "System V segment " + id;
    if (!containment_->WasMemberAt(segment.creator, segment.changed)) {
      others.push_back(name);
    } else {
      (RemoveSysvSegment(segment.id) ? removed : stuck).push_back(name);
    }
  }
  Seen seen;
  seen.state = stuck.empty() ? GoneState::kGone : GoneState::kLeft;
  seen.proof = removed.empty() ? "nothing of ours was left" : "removed " + Join(removed);
  if (!stuck.empty()) seen.detail = "cannot remove " + Join(stuck);
  if (!others.empty()) {
    if (!seen.detail.empty()) seen.detail += "; ";
    seen.detail += "made by others meanwhile, left alone: " + Join(others);
  }
  return seen;
}

}  // namespace poolmark::guard
