#include "agent/guard/supervisor.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <algorithm>

#include "agent/guard/cgroup.h"
#include "agent/guard/container_client.h"
#include "agent/guard/ports.h"
#include "agent/guard/shared_memory.h"

namespace poolmark::guard {
namespace {

constexpr size_t kMaxMessage = 6000;

std::optional<unsigned> OptionalId(const Record& request, const char* key) {
  auto value = request.Unsigned(key);
  if (!value) return std::nullopt;
  return static_cast<unsigned>(*value);
}

// A name that becomes a file and a directory: [a-z0-9][a-z0-9._-]{0,62}, as everywhere.
bool IsSafeName(const std::string& name) {
  if (name.empty() || name.size() > 63) return false;
  for (size_t i = 0; i < name.size(); ++i) {
    char c = name[i];
    bool letter = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
    if (!letter && (i == 0 || (c != '.' && c != '_' && c != '-'))) return false;
  }
  return true;
}

}  // namespace

Supervisor::Supervisor(SupervisorOptions options, Run* run, Containment* containment, Poller* poller)
    : options_(std::move(options)), run_(run), containment_(containment), poller_(poller) {
  // Processes of a guard before this one: known, ended as far as we can say, and never started again by a
  // late request.
  for (const auto& [number, item] : run_->state().items) {
    if (item.kind != "process") continue;
    Process& process = processes_[item.name];
    process.number = number;
    process.id = item.name;
    process.request = item.intent.Get("request");
    process.pid = static_cast<pid_t>(item.made.Signed("pid").value_or(0));
    process.start_time = item.made.Unsigned("start").value_or(0);
    process.state = "exited";
    process.message = "its guard died";
    if (auto code = item.exit.Signed("code")) process.exit_code = static_cast<int>(*code);
    if (auto signal = item.exit.Signed("signal")) process.exit_signal = static_cast<int>(*signal);
    if (!item.exit.name.empty()) process.message.clear();
    if (!process.request.empty()) requests_[process.request] = process.id;
  }
  for (const auto& [id, process] : processes_) Announce(process);
}

Supervisor::~Supervisor() {
  for (auto& [id, process] : processes_) {
    for (auto& stream : process.streams) {
      if (stream) CloseStream(stream);
    }
  }
}

Fault Supervisor::Prepare(const Record& request, Process* process, std::vector<Record>* intents) {
  const RunState& state = run_->state();
  uint64_t number = 0;
  // The baseline comes first: whatever shared memory appears later is compared with it.
  bool has_baseline = false;
  std::set<std::string> open_ports;
  std::set<std::string> open_containers;
  for (const auto& [n, item] : state.items) {
    if (item.state != GoneState::kOpen) continue;
    if (item.kind == "shared_memory") has_baseline = true;
    if (item.kind == "port") open_ports.insert(item.name);
    if (item.kind == "container") open_containers.insert(item.name);
  }
  if (!has_baseline) {
    ShmBaseline baseline = TakeShmBaseline();
    Record record = run_->Intend("shared_memory", kShmDirectory, &number);
    for (const auto& [name, inode] : baseline.posix) record.Add("before", name + ":" + std::to_string(inode));
    for (int id : baseline.sysv) record.Add("sysv_before", id);
    intents->push_back(std::move(record));
  }
  for (const std::string& port : request.All("port")) {
    Record one = Record("p").Add("port", port);
    auto value = one.Unsigned("port");
    if (!value || *value == 0 || *value > 65535) return Fault("bad_request", "'" + port + "' is no TCP port");
    if (!CanBindPort(static_cast<uint16_t>(*value))) {
      std::string holders;
      for (const PortHolder& holder : PortHolders(static_cast<uint16_t>(*value))) {
        holders +=
            (holders.empty() ? " by pid " : ", ") + std::to_string(holder.pid) + " (" + holder.command + ")";
      }
      return Fault("port_busy", "port " + port + " of process '" + process->id + "' is taken" + holders +
                                    ": free it or choose another port");
    }
    if (open_ports.insert(port).second) intents->push_back(run_->Intend("port", port, &number));
  }
  if (containment_->has_cgroup()) {
    intents->push_back(run_->Intend("cgroup", process->group, &number));
  }
  if (request.Has("container")) {
    if (!open_containers.insert(request.Get("container")).second) {
      return Fault("exists", "container '" + request.Get("container") + "' exists already in this run");
    }
    intents->push_back(
        run_->Intend("container", request.Get("container"), &number).Add("tool", request.Get("tool")));
  }
  Record intent = run_->Intend("process", process->id, &process->number);
  intent.Add("request", process->request).Add("exe", request.Get("exe"));
  if (!process->group.empty()) intent.Add("group", process->group);
  intents->push_back(std::move(intent));
  return {};
}

Fault Supervisor::OpenStreams(const Record& request, Process* process, UniqueFd write_ends[2]) {
  std::string base = options_.log_directory + "/" + process->id;
  // One program may print what another was given: a router its engine's error, a load an answer.
  std::vector<std::string> secrets = request.All("redact");
  for (const std::string& secret : request.All("secret")) {
    size_t equals = secret.find('=');
    if (equals != std::string::npos) secrets.push_back(secret.substr(equals + 1));
  }
  for (const std::string& secret : secrets) {
    secrets_.insert(secret);
    for (auto& [id, other] : processes_) {
      for (auto& stream : other.streams) {
        if (stream) stream->redactor.Add(secret);
      }
    }
  }
  int count = request.Get("split") == "1" ? 2 : 1;
  for (int i = 0; i < count; ++i) {
    // With two streams, "log" has what people read (standard error) and "out" the progress lines.
    std::string directory = base + (i == 0 ? "/log" : "/out");
    for (const std::string& part : {options_.log_directory, base, directory}) {
      if (mkdir(part.c_str(), 0700) != 0 && errno != EEXIST) return Fault::Errno("mkdir '" + part + "'");
    }
    auto stream = std::make_shared<Stream>();
    Fault fault = LogWriter::Open(directory, options_.log_limits, &stream->writer);
    if (!fault.ok()) return fault;
    stream->redactor = Redactor({secrets_.begin(), secrets_.end()});
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) return Fault::Errno("pipe");
    stream->fd = UniqueFd(ends[0]);
    write_ends[i] = UniqueFd(fcntl(ends[1], F_DUPFD_CLOEXEC, 10));
    close(ends[1]);
    fcntl(ends[0], F_SETFL, O_NONBLOCK);
    fcntl(ends[0], F_SETPIPE_SZ, 1 << 20);  // refused when the user's pipe budget is spent: then 64 KiB
    process->streams[i] = stream;
  }
  return {};
}

Fault Supervisor::Start(const Record& request, Record* answer) {
  const std::string& id = request.Get("id");
  if (!IsSafeName(id))
    return Fault("bad_request", "process id '" + id + "' must be [a-z0-9][a-z0-9._-]{0,62}");
  if (request.Get("exe").empty() || request.Get("exe")[0] != '/') {
    return Fault("bad_request", "executable '" + request.Get("exe") + "' is no absolute path");
  }
  const std::string& request_id = request.Get("request");
  if (auto known = Find(request_id)) {
    *answer = std::move(*known);
    return {};
  }
  if (auto found = processes_.find(id); found != processes_.end() && found->second.running) {
    *answer = StatusOf(found->second);
    answer->Add("already", 1);
    return {};
  }

  Process process;
  process.id = id;
  process.request = request_id;
  if (containment_->has_cgroup()) {
    process.group = containment_->group() + "/" + id + "." + std::to_string(run_->state().next_number());
  }
  std::vector<Record> intents;
  Fault fault = Prepare(request, &process, &intents);
  if (!fault.ok()) return fault;
  fault = run_->Append(intents);
  if (!fault.ok()) return fault;

  if (auto found = processes_.find(id); found != processes_.end()) {
    for (auto& stream : found->second.streams) {
      if (stream) CloseStream(stream);  // one writer per log
    }
  }
  UniqueFd write_ends[2];
  fault = OpenStreams(request, &process, write_ends);
  if (fault.ok() && !process.group.empty()) fault = MakeCgroup(process.group);
  SpawnRequest spawn;
  spawn.executable = request.Get("exe");
  spawn.argv = {spawn.executable};
  for (std::string& word : request.All("argv")) spawn.argv.push_back(std::move(word));
  spawn.env = request.All("env");
  for (std::string& word : request.All("secret")) spawn.env.push_back(std::move(word));
  // Its engine is asked by the same variables at the launch and at the tear-down.
  if (request.Has("container")) spawn.env = WithClientVariables(spawn.env);
  spawn.env.push_back(containment_->run_word());
  spawn.env.push_back(std::string(kProcessMarker) + "=" + id);
  spawn.directory = request.Get("cwd");
  spawn.stderr_fd = write_ends[0].get();
  spawn.stdout_fd = write_ends[1] ? write_ends[1].get() : write_ends[0].get();
  spawn.cgroup = process.group;
  spawn.uid = OptionalId(request, "uid");
  spawn.gid = OptionalId(request, "gid");
  Spawned spawned;
  if (fault.ok()) fault = Spawn(spawn, &spawned);
  if (!fault.ok()) {
    run_->Note(Record("exit").Add("n", process.number).Add("error", fault.text()));
    process.state = "failed";
    process.message = fault.text();
    for (auto& stream : process.streams) stream.reset();
    if (!request_id.empty()) requests_[request_id] = id;
    processes_[id] = std::move(process);
    Announce(processes_[id]);
    return fault;
  }
  process.pid = spawned.pid;
  process.start_time = spawned.start_time;
  process.pidfd = std::move(spawned.pidfd);
  process.running = true;
  run_->Note(Record("made")
                 .Add("n", process.number)
                 .Add("pid", process.pid)
                 .Add("start", process.start_time)
                 .Add("log", process.streams[0]->writer.offset()));
  for (auto& stream : process.streams) {
    if (!stream) continue;
    poller_->Watch(stream->fd.get(), POLLIN, [this, stream](short) { Pump(stream); });
  }
  if (!request_id.empty()) requests_[request_id] = id;
  processes_[id] = std::move(process);
  Announce(processes_[id]);
  *answer = StatusOf(processes_[id]);
  return {};
}

void Supervisor::Pump(const std::shared_ptr<Stream>& stream) {
  static char buffer[65536];  // one thread
  // Bounded per round, so that one flooding process does not starve the others and the requests.
  for (int round = 0; round < 8; ++round) {
    ssize_t got = read(stream->fd.get(), buffer, sizeof buffer);
    if (got < 0) {
      if (errno == EAGAIN || errno == EINTR) return;
      got = 0;
    }
    if (got == 0) {
      CloseStream(stream);
      return;
    }
    std::string_view piece(buffer, static_cast<size_t>(got));
    if (stream->redactor.idle()) {
      stream->writer.Write(piece);
    } else {
      stream->writer.Write(stream->redactor.Pass(piece));
    }
  }
}

void Supervisor::CloseStream(const std::shared_ptr<Stream>& stream) {
  if (!stream->fd) return;
  stream->writer.Write(stream->redactor.Finish());
  poller_->Forget(stream->fd.get());
  stream->fd.Close();
}

void Supervisor::FlushLogs() {
  for (auto& [id, process] : processes_) {
    for (auto& stream : process.streams) {
      for (int round = 0; stream && stream->fd && round < 64; ++round) {
        pollfd ready{stream->fd.get(), POLLIN, 0};
        if (poll(&ready, 1, 0) <= 0) break;
        Pump(stream);
      }
    }
  }
}

Fault Supervisor::Stop(const std::string& id, std::chrono::nanoseconds grace) {
  auto found = processes_.find(id);
  if (found == processes_.end()) return Fault("not_found", "no process '" + id + "' in this run");
  Process& process = found->second;
  auto kill_at = BootNow() + grace;
  if (!process.kill_at || kill_at < *process.kill_at) process.kill_at = kill_at;
  if (process.running) SignalPid(process.pidfd.get(), SIGTERM);
  return {};
}

Fault Supervisor::Mark(const Record& request) {
  auto found = processes_.find(request.Get("id"));
  if (found == processes_.end())
    return Fault("not_found", "no process '" + request.Get("id") + "' in this run");
  const std::string& state = request.Get("state");
  if (state != "ready" && state != "failed") return Fault("bad_request", "state '" + state + "'");
  Process& process = found->second;
  if (!process.running || process.state == "failed") return {};  // its end was first
  process.state = state;
  process.message = request.Get("message").substr(0, kMaxMessage);
  process.ready_after = std::chrono::nanoseconds(request.Signed("after_ns").value_or(0));
  Announce(process);
  return {};
}

void Supervisor::Reap() {
  while (true) {
    int status = 0;
    pid_t pid = waitpid(-1, &status, WNOHANG);
    if (pid <= 0) return;
    if (commands_.count(pid) != 0) {
      command_status_[pid] = status;
      continue;
    }
    for (auto& [id, process] : processes_) {
      if (process.running && process.pid == pid) Ended(&process, status);
    }
  }
}

std::optional<Record> Supervisor::Find(const std::string& request_id) const {
  auto known = requests_.find(request_id);
  if (request_id.empty() || known == requests_.end()) return std::nullopt;
  return StatusOf(processes_.at(known->second));
}

Fault Supervisor::Owns(const Record& request, std::vector<Record>* answer) const {
  const std::string& id = request.Get("id");
  auto found = processes_.find(id);
  if (found == processes_.end()) return Fault("not_found", "no process '" + id + "' in this run");
  std::vector<pid_t> pids;
  for (const Member& member : containment_->MembersOf(id, found->second.group, found->second.pid))
    pids.push_back(member.pid);
  // A container's processes are children of its engine, but carry our marks.
  for (const Member& member : containment_->MembersOf(id, "", 0)) pids.push_back(member.pid);
  for (const std::string& text : request.All("port")) {
    auto port = static_cast<uint16_t>(Record("p").Add("v", text).Unsigned("v").value_or(0));
    Record record("port");
    record.Add("port", text).Add("held", HoldsPort(port, pids) ? 1 : 0);
    if (record.Get("held") == "0") {
      for (const PortHolder& holder : PortHolders(port)) {
        record.Add("by", "pid " + std::to_string(holder.pid) + " (" + holder.command + ")");
      }
    }
    answer->push_back(std::move(record));
  }
  return {};
}

std::string Supervisor::LastWords(const Process& process) const {
  LogReader reader(options_.log_directory + "/" + process.id + "/log");
  constexpr uint64_t kTail = 4096;
  uint64_t end = reader.End();
  std::string text;
  for (uint64_t at = end > kTail ? end - kTail : 0; at < end;) {
    LogPiece piece = reader.Read(at, kTail);
    if (piece.data.empty()) break;
    text += piece.data;
    at = piece.offset + piece.data.size();
  }
  // The last fifty whole lines.
  size_t at = text.size();
  for (int lines = 0; lines < 51 && at != std::string::npos && at > 0; ++lines) at = text.rfind('\n', at - 1);
  return at == std::string::npos || at == 0 ? text : text.substr(at + 1);
}

void Supervisor::Ended(Process* process, int status) {
  process->running = false;
  process->pidfd.Close();
  Record record("exit");
  record.Add("n", process->number);
  if (WIFSIGNALED(status)) {
    process->exit_signal = WTERMSIG(status);
    record.Add("signal", *process->exit_signal);
  } else {
    process->exit_code = WEXITSTATUS(status);
    record.Add("code", *process->exit_code);
  }
  std::string memory = ReadPseudo(process->group + "/memory.events", 4096);
  size_t kills = memory.find("oom_kill ");
  process->out_of_memory = kills != std::string::npos && memory.compare(kills + 9, 1, "0") != 0;
  run_->Note(record);
  for (auto& stream : process->streams) {
    if (stream && stream->fd) Pump(stream);  // its last words
  }
  bool was_told = process->kill_at.has_value();
  if (process->state != "failed") process->state = "exited";
  // Whatever it left behind holds its memory and ports: without a leader it has no business any more.
  // One that was told to stop leaves its helpers the rest of the grace.
  if (!was_told) {
    if (process->state != "failed") process->message = LastWords(*process);
    process->kill_at = BootNow();
    containment_->KillProcess(process->id, process->group, process->pid);
  }
  Announce(*process);
}

void Supervisor::Tick() {
  bool any = false;
  for (auto& [id, process] : processes_) {
    any = any || process.running;
    if (!process.kill_at) continue;
    if (!process.running) {
      // The leader is gone: its helpers get the signal too, once, and the rest of the grace.
      std::vector<Member> left = containment_->MembersOf(process.id, process.group, process.pid);
      if (left.empty()) {
        process.kill_at.reset();
        process.stragglers_told = false;
        Announce(process);  // now nothing of it is left
        continue;
      }
      if (!process.stragglers_told) {
        for (const Member& member : left) SignalPid(OpenPid(member.pid, member.start_time).get(), SIGTERM);
        process.stragglers_told = true;
      }
    }
    if (BootNow() >= *process.kill_at) {
      process.forced = true;
      containment_->KillProcess(process.id, process.group, process.pid);
      if (process.running) SignalPid(process.pidfd.get(), SIGKILL);
    }
  }
  if (any) containment_->Note();
}

bool Supervisor::urgent() const {
  return std::any_of(processes_.begin(), processes_.end(),
                     [](const auto& entry) { return entry.second.kill_at.has_value(); });
}

Record Supervisor::StatusOf(const Process& process) const {
  Record record("process");
  record.Add("id", process.id)
      .Add("state", process.state)
      .Add("pid", process.pid)
      .Add("start", process.start_time);
  record.Add("running", process.running ? 1 : 0);
  if (process.exit_code) record.Add("code", *process.exit_code);
  if (process.exit_signal) record.Add("signal", *process.exit_signal);
  if (process.out_of_memory) record.Add("oom", 1);
  if (process.forced) record.Add("forced", 1);
  if (!process.message.empty()) record.Add("message", process.message);
  if (process.ready_after.count() != 0) record.Add("after_ns", process.ready_after.count());
  if (!process.request.empty()) record.Add("request", process.request);
  if (!process.running) {
    bool empty = !process.kill_at || containment_->MembersOf(process.id, process.group, process.pid).empty();
    record.Add("empty", empty ? 1 : 0);
  }
  return record;
}

std::vector<Record> Supervisor::Status() const {
  std::vector<Record> records;
  for (const auto& [id, process] : processes_) records.push_back(StatusOf(process));
  return records;
}

void Supervisor::Announce(const Process& process) {
  Record event("event");
  event.Add("kind", "process");
  Record status = StatusOf(process);
  event.fields.insert(event.fields.end(), status.fields.begin(), status.fields.end());
  run_->events().Add(std::move(event));
}

std::vector<uint64_t> Supervisor::RunningNewestFirst() const {
  std::vector<uint64_t> numbers;
  for (const auto& [id, process] : processes_) {
    if (process.running) numbers.push_back(process.number);
  }
  std::sort(numbers.rbegin(), numbers.rend());
  return numbers;
}

void Supervisor::Terminate(uint64_t number) {
  for (auto& [id, process] : processes_) {
    if (process.number == number && process.running) {
      // Far away: the tear-down has its own clock, and kills everything at once.
      if (!process.kill_at) process.kill_at = BootNow() + std::chrono::hours(24);
      SignalPid(process.pidfd.get(), SIGTERM);
    }
  }
}

void Supervisor::NoteForced() {
  for (auto& [id, process] : processes_) {
    if (process.running) process.forced = true;
  }
}

}  // namespace poolmark::guard
