#include "controller/api/log_follow.h"

#include <algorithm>
#include <set>
#include <thread>

#include "controller/jobs/job_table.h"

namespace poolmark::controller {
namespace {

constexpr int kLastTries = 5;  // to read the ends of the logs once the job is over

}  // namespace

LogFollow::LogFollow(const JobManager& jobs, std::string job_id, uint64_t tail_bytes, Wanted wanted,
                     Write write)
    : jobs_(jobs),
      environment_(jobs.environment()),
      job_id_(std::move(job_id)),
      tail_bytes_(tail_bytes),
      wanted_(std::move(wanted)),
      write_(std::move(write)),
      shortest_(5 * environment_.timing.poll),
      longest_(4 * shortest_) {}

void LogFollow::Run(std::stop_token stop) {
  std::stop_callback forward(stop, [this] { all_.request_stop(); });
  std::map<std::string, std::jthread> threads;
  for (bool first = true;; first = false) {
    // The state before the processes: what an ended job launched last is among them or was noted before.
    const auto job = environment_.store->Get(job_id_);
    const bool over = job.ok() ? IsTerminal(job->job.state()) : absl::IsNotFound(job.status());  // deleted
    Note(jobs_.LiveProcesses(job_id_), first);
    std::set<std::string> machines;
    {
      std::lock_guard lock(mutex_);
      for (const auto& [machine, logs] : logs_) machines.insert(machine);
      over_ = over;
    }
    changed_.notify_all();
    for (const std::string& machine : machines) {
      if (threads.contains(machine)) continue;
      threads.emplace(machine, [this, machine] { FollowMachine(machine, all_.get_token()); });
    }
    if (over || !WaitFor(all_.get_token(), environment_.timing.poll)) break;
  }
  for (auto& [machine, thread] : threads) thread.join();
}

void LogFollow::Note(const std::vector<LiveProcess>& live, bool first) {
  std::lock_guard lock(mutex_);
  if (live.empty()) return;  // before the first launch, or after the job's end
  std::map<std::string, std::set<Key>> now;
  for (const LiveProcess& process : live) {
    if (std::find(known_.begin(), known_.end(), process.process) == known_.end())
      known_.push_back(process.process);
    if (!wanted_(process.machine, process.process)) continue;
    found_ = true;
    const Key key(process.process, process.epoch);
    now[process.machine].insert(key);
    const auto [entry, added] = logs_[process.machine].try_emplace(key);
    Log& log = entry->second;
    if (added) log.tail_bytes = first ? tail_bytes_ : 0;
    // Started again after a cycle without it: its log goes on.
    if (!log.live) {
      log.drained = false;
      log.due = log.pause = Nanoseconds(0);
    }
    log.live = true;
  }
  for (auto& [machine, logs] : logs_) {
    for (auto& [key, log] : logs) {
      if (now[machine].contains(key) || !log.live) continue;
      log.live = false;
      log.due = Nanoseconds(0);
    }
  }
}

void LogFollow::FollowMachine(const std::string& machine, std::stop_token stop) {
  for (;;) {
    bool last = false;
    {
      std::unique_lock lock(mutex_);
      last = changed_.wait_for(lock, stop, environment_.timing.poll, [this] { return over_; });
    }
    if (stop.stop_requested()) return;
    if (!last) {
      (void)Look(machine, false, stop);
      continue;
    }
    for (int i = 0; i < kLastTries && !Look(machine, true, stop); ++i) {
      if (!WaitFor(stop, shortest_)) return;
    }
    return;
  }
}

bool LogFollow::Look(const std::string& machine, bool last, std::stop_token stop) {
  // A machine that says nothing would hold the call for as long as it may take.
  const bool silent = environment_.registry->Silence(machine) >= environment_.registry->timing().silent;
  if (silent) return false;
  std::vector<std::pair<Key, Log>> due;
  {
    std::lock_guard lock(mutex_);
    const Nanoseconds now = environment_.clock->Steady();
    for (const auto& [key, log] : logs_[machine]) {
      if (!log.drained && (last || log.due <= now)) due.emplace_back(key, log);
    }
  }
  bool all = true;
  for (auto& [key, log] : due) {
    if (stop.stop_requested()) return false;
    const uint64_t before = log.next;
    const bool ok = Read(machine, key, &log, stop);
    all = all && ok;
    std::lock_guard lock(mutex_);
    Log& kept = logs_[machine][key];
    kept.next = log.next;
    if (ok) kept.tail_bytes = 0;
    // Read to its end after its cycle (`log` is how it stood before the look).
    if (ok && (last || (!log.live && !kept.live))) kept.drained = true;
    const bool quiet = log.next == before;
    kept.pause = quiet ? std::clamp(2 * log.pause, shortest_, longest_) : shortest_;
    kept.due = environment_.clock->Steady() + kept.pause;
  }
  return all;
}

bool LogFollow::Read(const std::string& machine, const Key& key, Log* log, std::stop_token stop) {
  auto link = environment_.registry->Link(machine);
  if (!link.ok()) return false;
  v1::StreamLogsRequest ask;
  ask.mutable_lease()->set_job_id(job_id_);
  ask.mutable_lease()->set_epoch(key.second);
  ask.set_id(key.first);
  ask.set_offset(log->next);
  if (log->next == 0) ask.set_tail_bytes(log->tail_bytes);
  return (*link)
      ->StreamLogs(ask, stop,
                   [&](const v1::StreamLogsResponse& piece) {
                     v1::StreamJobLogsResponse chunk;
                     chunk.set_machine(machine);
                     chunk.set_process(key.first);
                     chunk.set_offset(piece.offset());
                     chunk.set_data(piece.data());
                     chunk.set_lost_bytes(piece.lost_bytes());
                     log->next = piece.offset() + piece.data().size();
                     std::lock_guard lock(write_mutex_);
                     const bool taken = !all_.stop_requested() && write_(std::move(chunk));
                     if (!taken) all_.request_stop();
                     return taken;
                   })
      .ok();
}

}  // namespace poolmark::controller
