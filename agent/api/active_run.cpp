#include "agent/api/active_run.h"

#include <condition_variable>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "agent/guard/ledger.h"
#include "agent/guard/log_store.h"
#include "common/base/json.h"
#include "common/base/log.h"
#include "common/base/secrets.h"
#include "common/base/time_format.h"

namespace poolmark::agent {
namespace {

using guard::Record;

// Sleeps, but not past a stop.
void Pause(std::stop_token stop, Nanoseconds duration) {
  std::mutex mutex;
  std::condition_variable_any condition;
  std::unique_lock lock(mutex);
  condition.wait_for(lock, stop, duration, [] { return false; });
}

// The end of a process's log, for messages.
std::string LogTail(const std::string& run_directory, const std::string& id) {
  constexpr uint64_t kTail = 4096;
  guard::LogReader reader(run_directory + "/logs/" + id + "/log");
  uint64_t end = reader.End();
  std::string text = reader.Read(end > kTail ? end - kTail : 0, kTail).data;
  return ValidUtf8(text);
}

}  // namespace

ActiveRun::ActiveRun(RunInfo info, uint64_t epoch, std::function<void()> on_end)
    : info_(std::move(info)), on_end_(std::move(on_end)), epoch_(epoch) {}

Result<std::shared_ptr<ActiveRun>> ActiveRun::Attach(RunInfo info, uint64_t epoch,
                                                     std::function<void()> on_end) {
  std::shared_ptr<ActiveRun> run(new ActiveRun(std::move(info), epoch, std::move(on_end)));
  POOLMARK_RETURN_IF_ERROR(run->Connect());
  POOLMARK_ASSIGN_OR_RETURN(process::GuardReply hello, run->Ask(Record("hello")));
  run->RaiseEpoch(hello.ok.Unsigned("epoch").value_or(0));
  // The thread must not keep the object alive: it would then have to join itself.
  ActiveRun* raw = run.get();
  run->watch_ = std::jthread([raw](std::stop_token stop) { raw->Watch(stop); });
  return run;
}

ActiveRun::~ActiveRun() {
  watch_.request_stop();
  std::map<std::string, std::jthread> readiness;  // both are joined at the end of this function
  std::vector<std::jthread> retired;
  {
    std::lock_guard lock(mutex_);
    readiness.swap(readiness_);
    retired.swap(retired_);
  }
}

uint64_t ActiveRun::epoch() const {
  std::lock_guard lock(mutex_);
  return epoch_;
}

void ActiveRun::RaiseEpoch(uint64_t epoch) {
  std::lock_guard lock(mutex_);
  epoch_ = std::max(epoch_, epoch);
}

Status ActiveRun::Connect() {
  POOLMARK_ASSIGN_OR_RETURN(auto client, process::GuardClient::Connect(info_.directory));
  std::lock_guard lock(mutex_);
  client_ = std::move(client);
  return absl::OkStatus();
}

Result<process::GuardReply> ActiveRun::Ask(Record request, Nanoseconds timeout) {
  if (!request.Has("epoch")) request.Add("epoch", epoch());
  for (int attempt = 0;; ++attempt) {
    std::shared_ptr<process::GuardClient> client;
    {
      std::lock_guard lock(mutex_);
      client = client_;
    }
    auto reply = client->Ask(request, timeout);
    if (reply.ok() || attempt > 0 || !absl::IsUnavailable(reply.status())) return reply;
    POOLMARK_RETURN_IF_ERROR(Connect());
  }
}

guard::RunState ActiveRun::Ledger() const {
  return guard::Fold(guard::ReadLedger(info_.directory + "/ledger").records);
}

std::set<uint16_t> ActiveRun::Ports() const {
  std::set<uint16_t> ports;
  for (const auto& [number, item] : Ledger().items) {
    if (item.kind == "port" && item.owed()) ports.insert(static_cast<uint16_t>(std::stoul(item.name)));
  }
  return ports;
}

void ActiveRun::Watch(std::stop_token stop) {
  std::string ledger = info_.directory + "/ledger";
  while (!stop.stop_requested()) {
    auto watch = process::GuardWatch::Connect(info_.directory, 0);
    while (watch.ok() && !stop.stop_requested()) {
      auto event = (*watch)->Next(std::chrono::milliseconds(250));
      if (!event.ok() && !absl::IsDeadlineExceeded(event.status())) break;
      if (!event.ok() || event->Get("kind") != "process") continue;
      Log(LogLevel::kInfo, "process.state",
          {{"job", info_.job}, {"process", event->Get("id")}, {"state", event->Get("state")}});
    }
    if (stop.stop_requested()) return;
    if (!guard::LedgerIsLocked(ledger)) {
      on_end_();
      return;
    }
    Pause(stop, std::chrono::milliseconds(100));
  }
}

void ActiveRun::WatchReadiness(const std::string& id, process::ReadinessSpec spec,
                               std::vector<uint32_t> ports) {
  Nanoseconds begin = RealClock().Steady();
  std::jthread old;
  std::lock_guard lock(mutex_);
  if (auto found = readiness_.find(id); found != readiness_.end()) old = std::move(found->second);
  old.request_stop();
  readiness_[id] = std::jthread([this, id, spec = std::move(spec), ports = std::move(ports), begin](
                                    std::stop_token stop) { LookUntilReady(stop, id, spec, ports, begin); });
  if (old.joinable()) retired_.push_back(std::move(old));
}

void ActiveRun::LookUntilReady(std::stop_token stop, const std::string& id,
                               const process::ReadinessSpec& spec, const std::vector<uint32_t>& ports,
                               Nanoseconds begin) {
  auto client = http::MakeClient();
  process::Patience patience(spec.within, begin);
  guard::LogReader log(info_.directory + "/logs/" + id + "/log");
  Status last = absl::OkStatus();
  while (!stop.stop_requested()) {
    auto status = Ask(Record("status"));
    if (!status.ok()) return;  // the guard is gone, and with it the process
    bool running = false;
    for (const Record& process : status->data) {
      if (process.Get("id") == id)
        running = process.Get("running") == "1" && process.Get("state") == "starting";
    }
    if (!running) return;
    last = process::LookOnce(spec, *client, std::chrono::seconds(2));
    Nanoseconds waited = RealClock().Steady() - begin;
    if (last.ok() && !spec.empty()) {
      // It answers; but is it the one that was started? A stranger on its port would answer too.
      if (std::string problem = PortProblem(id, ports); !problem.empty()) {
        Mark(id, "failed", problem, waited);
        return;
      }
    }
    if (last.ok()) {
      Mark(id, "ready", "", waited);
      return;
    }
    if (patience.Over(RealClock().Steady(), log.End())) break;
    bool fresh = patience.waited(RealClock().Steady()) < std::chrono::seconds(10);
    Pause(stop, std::chrono::milliseconds(fresh ? 100 : 1000));
  }
  if (stop.stop_requested()) return;
  Nanoseconds waited = RealClock().Steady() - begin;
  Mark(id, "failed",
       absl::StrCat("not ready after ",
                    FormatDuration(std::chrono::duration_cast<std::chrono::seconds>(waited)), ": ",
                    last.message(), "\n", LogTail(info_.directory, id)),
       waited);
}

std::string ActiveRun::PortProblem(const std::string& id, const std::vector<uint32_t>& ports) {
  if (ports.empty()) return "";
  Record ask("owns");
  ask.Add("id", id);
  for (uint32_t port : ports) ask.Add("port", port);
  auto answer = Ask(ask);
  if (!answer.ok()) return "";
  std::string problem;
  for (const Record& port : answer->data) {
    std::vector<std::string> by = port.All("by");
    // One that nobody holds is no danger: some side channels are opened late.
    if (port.Get("held") == "1" || by.empty()) continue;
    absl::StrAppend(&problem, problem.empty() ? "" : "; ", "port ", port.Get("port"), " is held by ",
                    absl::StrJoin(by, ", "), ", not by ", id);
  }
  return problem;
}

void ActiveRun::Mark(const std::string& id, const std::string& state, const std::string& message,
                     Nanoseconds after) {
  auto reply = Ask(Record("mark")
                       .Add("id", id)
                       .Add("state", state)
                       .Add("message", Redacted(message))
                       .Add("after_ns", after.count()));
  if (!reply.ok()) {
    Log(LogLevel::kWarning, "process.mark",
        {{"process", id}, {"state", state}, {"error", std::string(reply.status().message())}});
  }
}

}  // namespace poolmark::agent
