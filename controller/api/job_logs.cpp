#include "controller/api/job_logs.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>
#include <thread>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/files.h"
#include "common/base/json.h"
#include "controller/api/log_follow.h"
#include "controller/jobs/job_table.h"
#include "controller/runner/results_writer.h"

namespace poolmark::controller {
namespace {

constexpr size_t kChunk = 64u << 10;

bool Wanted(const v1::StreamJobLogsRequest& request, const std::string& machine, const std::string& process) {
  if (!request.machine().empty() && !machine.empty() && request.machine() != machine) return false;
  // "engine-n1" means "base.engine-n1" too.
  return request.process().empty() || process == request.process() ||
         process.ends_with("." + request.process());
}

Status NoSuchProcess(const v1::StreamJobLogsRequest& request, std::vector<std::string> known) {
  if (request.process().empty()) return absl::OkStatus();
  std::sort(known.begin(), known.end());
  known.erase(std::unique(known.begin(), known.end()), known.end());
  return NotFound(
      absl::StrCat("process '", request.process(), "'"), "no log of this job is called so",
      known.empty() ? "the job has no logs" : absl::StrCat("there are: ", absl::StrJoin(known, ", ")));
}

// Which machine a process of an ended job ran on, as the plan in its results says.
class PlannedMachines {
 public:
  explicit PlannedMachines(const std::string& results_directory) {
    auto text = ReadFile(JoinPath(results_directory, "plan.json"), 64u << 20);
    auto plan = text.ok() ? ParseJson(*text) : Result<Json>(text.status());
    if (!plan.ok() || !plan->is_object()) return;
    head_ = plan->value("head", "");
    for (const Json& machine : plan->value("load_machines", Json::array())) loads_.push_back(machine);
    for (const Json& stack : plan->value("stacks", Json::array())) {
      for (const Json& process : stack.value("processes", Json::array()))
        planned_[process.value("id", "")] = process.value("machine", "");
    }
  }

  std::vector<std::string> Processes() const {
    std::vector<std::string> names;
    for (const auto& [process, machine] : planned_) names.push_back(process);
    return names;
  }

  // Loads are "<stack>.load-…" or, from several machines, "<stack>.load<which>-…"; what else the job started
  // beside its stacks runs on the head.
  std::string Of(const std::string& process) const {
    if (const auto found = planned_.find(process); found != planned_.end()) return found->second;
    const size_t at = process.find(".load");
    if (at == std::string::npos) return head_;
    const std::string number = process.substr(at + 5, process.find('-', at) - at - 5);
    size_t which = 0;
    if (!number.empty() && !absl::SimpleAtoi(number, &which)) return head_;
    return which < loads_.size() ? loads_[which] : head_;
  }

 private:
  std::string head_;
  std::vector<std::string> loads_;
  std::map<std::string, std::string> planned_;
};

Status SendStored(const JobManager& jobs, const std::string& job_id, const v1::StreamJobLogsRequest& request,
                  const std::function<bool(v1::StreamJobLogsResponse)>& write) {
  const std::string directory = ResultsDir(jobs.environment(), job_id);
  if (!FileExists(JoinPath(directory, "cycles"))) return NoSuchProcess(request, {});
  POOLMARK_ASSIGN_OR_RETURN(auto paths, ListTree(JoinPath(directory, "cycles")));
  const PlannedMachines machines(directory);
  std::vector<std::string> known;
  bool found = false;
  for (const std::string& path : paths) {
    if (path.find("/logs/") == std::string::npos || !path.ends_with(".log")) continue;
    const size_t slash = path.rfind('/');
    const std::string process = path.substr(slash + 1, path.size() - slash - 5);
    known.push_back(process);
    const std::string machine = machines.Of(process);
    if (!Wanted(request, machine, process)) continue;
    found = true;
    POOLMARK_ASSIGN_OR_RETURN(std::string text,
                              ReadFile(JoinPath(JoinPath(directory, "cycles"), path), 64u << 20));
    size_t at = request.tail_bytes() != 0 && text.size() > request.tail_bytes()
                    ? text.size() - request.tail_bytes()
                    : 0;
    for (; at < text.size(); at += kChunk) {
      v1::StreamJobLogsResponse chunk;
      chunk.set_machine(machine);
      chunk.set_process(absl::StrCat(path.substr(0, path.find('/')), "/", process));
      chunk.set_offset(at);
      chunk.set_data(text.substr(at, kChunk));
      if (!write(std::move(chunk))) return absl::OkStatus();
    }
  }
  return found ? absl::OkStatus() : NoSuchProcess(request, std::move(known));
}

Status FollowLogs(const JobManager& jobs, const std::string& job_id, const v1::StreamJobLogsRequest& request,
                  std::stop_token stop, const std::function<bool(v1::StreamJobLogsResponse)>& write) {
  // A name that no launch of the plan will bear is said now, not when the job has ended.
  const PlannedMachines planned(ResultsDir(jobs.environment(), job_id));
  if (auto names = planned.Processes();
      !names.empty() && request.process().find("load") == std::string::npos &&
      std::none_of(names.begin(), names.end(),
                   [&](const std::string& name) { return Wanted(request, planned.Of(name), name); }))
    return NoSuchProcess(request, std::move(names));
  LogFollow follow(
      jobs, job_id, request.tail_bytes(),
      [&request](const std::string& machine, const std::string& process) {
        return Wanted(request, machine, process);
      },
      write);
  follow.Run(stop);
  return stop.stop_requested() || follow.found() ? absl::OkStatus() : NoSuchProcess(request, follow.known());
}

}  // namespace

Status SendLogs(const JobManager& jobs, const v1::StreamJobLogsRequest& request, std::stop_token stop,
                const std::function<bool(v1::StreamJobLogsResponse)>& write) {
  POOLMARK_ASSIGN_OR_RETURN(StoredJob job, jobs.environment().store->Get(request.job_id()));
  if (request.follow() && !IsTerminal(job.job.state()))
    return FollowLogs(jobs, job.job.id(), request, stop, write);
  // An ended job's logs lie in its results, also while its runner still closes them.
  const auto live =
      IsTerminal(job.job.state()) ? std::vector<LiveProcess>() : jobs.LiveProcesses(job.job.id());
  if (live.empty()) return SendStored(jobs, job.job.id(), request, write);
  std::vector<std::string> known;
  for (const LiveProcess& one : live) known.push_back(one.process);
  if (std::none_of(live.begin(), live.end(),
                   [&](const LiveProcess& one) { return Wanted(request, one.machine, one.process); }))
    return NoSuchProcess(request, std::move(known));
  std::mutex mutex;  // write, failure
  Status failure;
  std::stop_source all;
  std::stop_callback forward(stop, [&all] { all.request_stop(); });
  {
    std::vector<std::jthread> threads;
    for (const auto& [machine, process, epoch] : live) {
      if (!Wanted(request, machine, process)) continue;
      if (threads.size() >= 64) break;
      threads.emplace_back([&, machine = machine, process = process, epoch = epoch] {
        auto link = jobs.environment().registry->Link(machine);
        if (!link.ok()) return;
        v1::StreamLogsRequest ask;
        ask.mutable_lease()->set_job_id(job.job.id());
        ask.mutable_lease()->set_epoch(epoch);
        ask.set_id(process);
        ask.set_tail_bytes(request.tail_bytes());
        Status status = (*link)->StreamLogs(ask, all.get_token(), [&](const v1::StreamLogsResponse& piece) {
          v1::StreamJobLogsResponse chunk;
          chunk.set_machine(machine);
          chunk.set_process(process);
          chunk.set_offset(piece.offset());
          chunk.set_data(piece.data());
          chunk.set_lost_bytes(piece.lost_bytes());
          std::lock_guard lock(mutex);
          const bool taken = write(std::move(chunk));
          if (!taken) all.request_stop();
          return taken;
        });
        if (status.ok() || all.stop_requested()) return;
        std::lock_guard lock(mutex);
        if (failure.ok()) failure = status;
      });
    }
  }
  // A process that is gone by now ends its own stream; only a job without any readable log is an error.
  return stop.stop_requested() || request.process().empty() ? absl::OkStatus() : failure;
}

}  // namespace poolmark::controller
