#include "agent/guard/guard.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/timerfd.h>

#include "agent/guard/cgroup.h"
#include "agent/guard/directories.h"
#include "agent/guard/shared_memory.h"
#include "agent/guard/teardown.h"

namespace poolmark::guard {
namespace {

constexpr char kWorkMarker[] = ".poolmark-run";

void ProtectSelf() {
  signal(SIGHUP, SIG_IGN);
  signal(SIGPIPE, SIG_IGN);
  signal(SIGINT, SIG_IGN);
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  prctl(PR_SET_NAME, "poolmark-guard");
  umask(0077);
  rlimit no_core{0, 0};
  setrlimit(RLIMIT_CORE, &no_core);
  // Each refused without the privilege; the guard then has what every process has.
  UniqueFd score(open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC));
  if (score) (void)!write(score.get(), "-900", 4);
  (void)mlockall(MCL_CURRENT | MCL_ONFAULT);
}

bool IsMarkedAs(const std::string& directory, const std::string& run) {
  return ReadPseudo(directory + "/" + kWorkMarker, 256) == run + "\n";
}

}  // namespace

Guard::Guard(GuardOptions options) : options_(std::move(options)) {}
Guard::~Guard() = default;

Fault Guard::Prepare() {
  ProtectSelf();
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGCHLD);
  sigaddset(&set, SIGTERM);
  sigprocmask(SIG_BLOCK, &set, nullptr);
  signals_ = UniqueFd(signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
  timer_ = UniqueFd(timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK));
  if (!signals_ || !timer_) return Fault::Errno("make signal and timer descriptors");

  for (auto step : {&Guard::OpenRun, &Guard::ChooseContainment, &Guard::MakeWorkDirectory}) {
    Fault fault = (this->*step)();
    if (!fault.ok()) return fault;
  }
  SupervisorOptions supervise;
  supervise.log_directory = options_.directory + "/logs";
  supervise.log_limits = options_.log_limits;
  supervise.kill_wait = options_.kill_wait;
  supervisor_ = std::make_unique<Supervisor>(supervise, &run_, containment_.get(), &poller_);
  server_ = std::make_unique<Server>(&poller_, &run_.events(),
                                     [this](const Record& request, std::vector<Record>* data, Record* ok) {
                                       return Answer(request, data, ok);
                                     });
  Fault fault = server_->Listen(options_.directory);
  if (!fault.ok()) return fault;

  poller_.Watch(signals_.get(), POLLIN, [this](short) {
    signalfd_siginfo info;
    while (read(signals_.get(), &info, sizeof info) == static_cast<ssize_t>(sizeof info)) {
      if (info.ssi_signo != SIGTERM) continue;
      keep_ = false;
      if (teardown_running_) continue;  // it becomes the last one
      teardown_wanted_ = true;
      cause_ = "the guard was told to end (SIGTERM)";
      teardown_grace_ = options_.grace;
    }
  });
  poller_.Watch(timer_.get(), POLLIN, [this](short) {
    uint64_t times;
    (void)!read(timer_.get(), &times, sizeof times);
    if (BootNow() < options_.deadline) return;
    keep_ = false;
    if (teardown_running_) return;  // it becomes the last one
    teardown_wanted_ = true;
    cause_ = "the lease ran out";
    teardown_grace_ = options_.grace;
  });
  ArmTimer();
  // Who makes a segment is only to be seen while it has it open: look at the moment it appears.
  shm_watch_ = UniqueFd(inotify_init1(IN_CLOEXEC | IN_NONBLOCK));
  if (shm_watch_ && inotify_add_watch(shm_watch_.get(), kShmDirectory, IN_CREATE | IN_MOVED_TO) >= 0) {
    poller_.Watch(shm_watch_.get(), POLLIN, [this](short) {
      char buffer[8192];
      while (read(shm_watch_.get(), buffer, sizeof buffer) > 0) continue;
      Teardown::AttributeSharedMemory(&run_, containment_.get(), supervisor_.get());
    });
  }
  return {};
}

Fault Guard::OpenRun() {
  Fault fault = run_.Open(options_.directory + "/ledger", &damages_);
  if (!fault.ok()) return fault;
  if (run_.state().epoch > options_.epoch) options_.epoch = run_.state().epoch;
  if (options_.adopt && run_.state().run.empty()) {
    damages_.push_back(options_.directory + "/ledger:1: the ledger has no head");
  }
  return {};
}

Fault Guard::ChooseContainment() {
  std::string group;
  // What a guard before us recorded wins: its processes are in its group, wherever we run.
  LedgerContent content = ReadLedger(options_.directory + "/ledger");
  for (const Record& record : content.records) {
    if (record.name == "run" && record.Has("cgroup")) group = record.Get("cgroup");
  }
  if (group.empty() && options_.use_cgroup && !CgroupBase().empty()) {
    group = CgroupBase() + "/" + options_.run;
  }
  auto self = ReadStat(getpid());
  Record head("run");
  head.Add("run", options_.run).Add("job", options_.job).Add("epoch", options_.epoch).Add("boot", BootId());
  head.Add("guard_pid", getpid()).Add("guard_start", self ? self->start_time : 0);
  // When a dead guard's run is taken over, "boot" stays that of its processes until they are dealt with.
  bool same_boot = run_.state().boot.empty() || run_.state().boot == BootId();
  if (!same_boot) head.fields[3].second = run_.state().boot;
  if (!group.empty()) head.Add("cgroup", group);
  Fault fault = run_.Append(head);
  if (!fault.ok()) return fault;
  containment_ = std::make_unique<Containment>(options_.run, group);
  if (same_boot) {
    for (const auto& [number, item] : run_.state().items) {
      const auto pid = item.kind == "process" ? item.made.Signed("pid") : std::nullopt;
      if (pid)
        containment_->Remember(Member{static_cast<pid_t>(*pid), item.made.Unsigned("start").value_or(0)});
    }
  }
  return options_.adopt ? Fault() : MakeGroup();
}

Fault Guard::MakeGroup() {
  const std::string group = containment_->group();
  if (group.empty() || CgroupExists(group)) return {};
  uint64_t number = 0;
  Fault fault = run_.Append(run_.Intend("cgroup", group, &number));
  if (!fault.ok()) return fault;
  fault = MakeCgroup(group);
  if (!fault.ok()) {
    // No right to make one: containment by subreaper, session and marker.
    run_.Note(Record("gone").Add("n", number).Add("state", "already_gone").Add("proof", fault.text()));
    containment_->DropGroup();
  }
  return {};
}

Fault Guard::MakeWorkDirectory() {
  if (options_.work_name.empty()) return {};
  std::string path = options_.work_base + "/" + options_.work_name;
  for (const auto& [number, item] : run_.state().items) {
    if (item.kind == "directory" && item.name == path && item.owed()) return {};
  }
  uint64_t number = 0;
  MadeDirectory made;
  if (options_.adopt) {
    // The ledger lost it. Ours only if it says so itself.
    struct stat facts;
    if (lstat(path.c_str(), &facts) != 0 || !S_ISDIR(facts.st_mode) || !IsMarkedAs(path, options_.run))
      return {};
    made = MadeDirectory{facts.st_dev, facts.st_ino};
    Fault fault = run_.Append(run_.Intend("directory", path, &number));
    if (!fault.ok()) return fault;
  } else {
    std::vector<std::string> missing;
    Fault fault = MissingParts(options_.work_base, options_.work_name, &missing);
    if (!fault.ok()) return fault;
    if (missing.size() != 1) {
      return Fault("exists",
                   "work directory '" + path + "' exists already and is not of this run: remove it");
    }
    fault = run_.Append(run_.Intend("directory", path, &number));
    if (!fault.ok()) return fault;
    fault = MakeDirectory(options_.work_base, path, 0755, options_.uid, options_.gid, &made);
    if (!fault.ok()) return fault;
    UniqueFd marker(
        open((path + "/" + kWorkMarker).c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0644));
    std::string text = options_.run + "\n";
    if (!marker || write(marker.get(), text.data(), text.size()) != static_cast<ssize_t>(text.size())) {
      return Fault::Errno("write '" + path + "/" + kWorkMarker + "'");
    }
  }
  run_.Note(Record("made").Add("n", number).Add("device", made.device).Add("inode", made.inode));
  return {};
}

void Guard::ArmTimer() {
  itimerspec when{};
  when.it_value.tv_sec = options_.deadline.count() / 1'000'000'000;
  when.it_value.tv_nsec = options_.deadline.count() % 1'000'000'000;
  if (when.it_value.tv_sec == 0 && when.it_value.tv_nsec == 0) when.it_value.tv_nsec = 1;
  timerfd_settime(timer_.get(), TFD_TIMER_ABSTIME, &when, nullptr);
}

Fault Guard::CheckEpoch(const Record& request) {
  auto epoch = request.Unsigned("epoch");
  if (epoch && *epoch >= options_.epoch) return {};
  return Fault("stale_epoch", "epoch " + request.Get("epoch") + " is older than this run's " +
                                  std::to_string(options_.epoch));
}

Fault Guard::RaiseEpoch(uint64_t epoch) {
  if (epoch <= options_.epoch) return {};
  Fault fault = run_.Append(Record("epoch").Add("epoch", epoch));
  if (fault.ok()) options_.epoch = epoch;
  return fault;
}

Fault Guard::Renew(const Record& request) {
  auto deadline = request.Signed("deadline");
  if (!deadline || *deadline <= 0) return Fault("bad_request", "deadline '" + request.Get("deadline") + "'");
  if (finished_ || (teardown_wanted_ && !keep_))
    return Fault("torn_down", "this run is being torn down: " + cause_);
  // Replies can overtake each other: a lease never gets shorter.
  options_.deadline = std::max(options_.deadline, std::chrono::nanoseconds(*deadline));
  ArmTimer();
  return {};
}

Fault Guard::MakeDirectories(const Record& request) {
  const std::string& base = request.Get("base");
  std::optional<uid_t> uid;
  std::optional<gid_t> gid;
  if (auto value = request.Unsigned("uid")) uid = static_cast<uid_t>(*value);
  if (auto value = request.Unsigned("gid")) gid = static_cast<gid_t>(*value);
  for (const std::string& path : request.All("path")) {
    std::vector<std::string> missing;
    Fault fault = MissingParts(base, path, &missing);
    if (!fault.ok()) return fault;
    if (missing.empty()) {
      fault = CheckExisting(base + "/" + path, request.Has("emptied"));
      if (!fault.ok()) return fault;
      fault = MissingParts(base, path, &missing);
      if (!fault.ok()) return fault;
    }
    std::vector<Record> intents;
    std::vector<uint64_t> numbers;
    for (const std::string& part : missing) {
      numbers.push_back(0);
      intents.push_back(run_.Intend("directory", part, &numbers.back()));
    }
    if (intents.empty()) continue;
    fault = run_.Append(intents);
    if (!fault.ok()) return fault;
    for (size_t i = 0; i < missing.size(); ++i) {
      MadeDirectory made;
      fault = MakeDirectory(base, missing[i], 0755, uid, gid, &made);
      if (!fault.ok()) return fault;
      run_.Note(Record("made").Add("n", numbers[i]).Add("device", made.device).Add("inode", made.inode));
    }
  }
  return {};
}

Fault Guard::CheckExisting(const std::string& path, bool emptied) {
  for (const auto& [number, item] : run_.state().items) {
    if (item.kind != "directory" || item.name != path || !item.owed()) continue;
    if (!emptied || !item.made.Has("inode")) return {};
    const MadeDirectory made{item.made.Unsigned("device").value_or(0),
                             item.made.Unsigned("inode").value_or(0)};
    const RemovedTree removed = RemoveDirectory(path, made);
    if (!removed.left.empty()) return Fault("not_emptied", removed.left);
    run_.Note(Record("gone").Add("n", number).Add("state", "gone").Add("proof", "emptied for a new start"));
    return {};
  }
  // Below the work directory everything is this run's, made by the guard or by a process of its own.
  if (!options_.work_name.empty() && path.starts_with(options_.work_base + "/" + options_.work_name + "/"))
    return {};
  return Fault("exists",
               "directory '" + path +
                   "' exists already and is not of this run: what lies in it would be taken for the "
                   "run's own KV, and would stay after it");
}

Fault Guard::ClaimFiles(const Record& request) {
  std::set<std::string> known;
  for (const auto& [number, item] : run_.state().items) {
    if (item.kind == "file" && item.owed()) known.insert(item.name);
  }
  std::vector<Record> intents;
  for (const std::string& path : request.All("path")) {
    struct stat facts;
    if (known.count(path) != 0) continue;
    if (path.empty() || path[0] != '/')
      return Fault("bad_request", "file '" + path + "' is no absolute path");
    if (lstat(path.c_str(), &facts) == 0)
      return Fault("exists", "file '" + path + "' exists already and is not ours");
    uint64_t number = 0;
    intents.push_back(run_.Intend("file", path, &number));
  }
  return intents.empty() ? Fault() : run_.Append(intents);
}

void Guard::Describe(Record* ok) const {
  const RunState& state = run_.state();
  const char* phase = finished_                                 ? "finished"
                      : (teardown_running_ || teardown_wanted_) ? "tearing_down"
                                                                : "running";
  if (options_.adopt && !finished_ && !teardown_running_) phase = "orphaned";
  ok->Add("run", options_.run).Add("job", options_.job).Add("epoch", options_.epoch).Add("pid", getpid());
  ok->Add("deadline", options_.deadline.count()).Add("phase", phase).Add("open_items", state.open_items());
  ok->Add("containment", containment_->has_cgroup() ? "cgroup2" : "subreaper");
  ok->Add("torn_down", state.torn_down ? 1 : 0).Add("clean", state.clean ? 1 : 0);
  for (const std::string& damage : damages_) ok->Add("damage", damage);
}

Fault Guard::Answer(const Record& request, std::vector<Record>* data, Record* ok) {
  if (request.name == "hello") {
    Describe(ok);
    return {};
  }
  if (request.name == "status") {
    *data = supervisor_->Status();
    Describe(ok);
    ok->Add("last", run_.events().last());
    return {};
  }
  Fault fault = CheckEpoch(request);
  if (!fault.ok()) return fault;
  fault = RaiseEpoch(*request.Unsigned("epoch"));
  // A tear-down goes on without the disk.
  if (!fault.ok() && request.name != "teardown") return fault;
  if (request.name == "renew") return Renew(request);
  if (request.name == "teardown") {
    if (request.Get("cut_short") == "1") cut_short_ = true;
    ok->Add("last", run_.events().last());
    if (teardown_running_ || teardown_wanted_ || finished_) {
      // One is under way. A final one asked for while a cycle's runs becomes the last of it.
      if (request.Get("keep") != "1") keep_ = false;
      return {};
    }
    cause_ = request.Get("cause");
    keep_ = request.Get("keep") == "1";
    teardown_grace_ = std::chrono::nanoseconds(request.Signed("grace_ns").value_or(options_.grace.count()));
    teardown_wanted_ = true;
    return {};
  }
  if (request.name == "stop") {
    return supervisor_->Stop(
        request.Get("id"),
        std::chrono::nanoseconds(request.Signed("grace_ns").value_or(options_.grace.count())));
  }
  if (request.name == "members") {
    for (const Member& member : containment_->Members()) {
      data->push_back(Record("member").Add("pid", member.pid).Add("start", member.start_time));
    }
    return {};
  }
  if (request.name == "find") {
    if (auto process = supervisor_->Find(request.Get("request"))) data->push_back(std::move(*process));
    return {};
  }
  if (request.name == "owns") return supervisor_->Owns(request, data);
  if (request.name == "mark") return supervisor_->Mark(request);
  bool creates = request.name == "start" || request.name == "directory" || request.name == "file";
  if (!creates) return Fault("bad_request", "no request '" + request.name + "'");
  if (teardown_wanted_ || teardown_running_ || finished_ || options_.adopt) {
    return Fault("tearing_down", "run " + options_.run + " is being torn down (" +
                                     (options_.adopt ? "its guard died" : cause_) +
                                     "): nothing can be started");
  }
  if (request.name == "directory") return MakeDirectories(request);
  if (request.name == "file") return ClaimFiles(request);
  Record process;
  fault = supervisor_->Start(request, &process);
  if (fault.ok()) data->push_back(std::move(process));
  return fault;
}

void Guard::TearDown() {
  teardown_running_ = true;
  TeardownOptions options;
  options.cause = cause_;
  options.grace = teardown_grace_;
  options.kill_wait = options_.kill_wait;
  options.command_limit = options_.command_limit;
  options.keep = keep_;
  options.damages = damages_;
  Teardown teardown(options, &run_, containment_.get(), supervisor_.get(), &poller_);
  clean_ = teardown.Execute([this] {
    server_->Publish();
    return cut_short_;
  });
  teardown_running_ = false;
  teardown_wanted_ = false;
  cut_short_ = false;
  if (!keep_ && options.keep) {
    // Meanwhile it was decided that no further cycle follows: once more, for good.
    teardown_wanted_ = true;
    return;
  }
  if (!keep_) {
    finished_ = true;
    return;
  }
  // Another cycle follows in the same run: its home is made again.
  Fault fault = MakeGroup();
  if (fault.ok()) fault = MakeWorkDirectory();
  if (!fault.ok()) {
    run_.events().Add(Record("event").Add("kind", "failure").Add("message", fault.text()));
  }
}

void Guard::Loop() {
  poller_.RunOnce(std::chrono::milliseconds(supervisor_->urgent() ? 20 : 1000));
  supervisor_->Reap();
  supervisor_->Tick();
  server_->Publish();
}

int Guard::Serve() {
  while (!finished_) {
    Loop();
    if (teardown_wanted_) TearDown();
  }
  // Whoever watches may read the end; who does not read is not waited for long.
  poller_.RunUntil(
      [this] {
        server_->Publish();
        return server_->drained();
      },
      std::chrono::seconds(5));
  return clean_ ? 0 : 1;
}

}  // namespace poolmark::guard
