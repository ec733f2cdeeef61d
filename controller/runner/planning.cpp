#include "controller/runner/planning.h"

#include <sys/stat.h>

#include <algorithm>
#include <mutex>

#include "absl/strings/str_cat.h"
#include "common/base/digest.h"
#include "common/quality/dataset.h"
#include "common/stats/slo.h"
#include "controller/jobs/job_table.h"
#include "controller/runner/workload_length.h"
#include "controller/steps/accuracy_files.h"
#include "controller/steps/pick_machines.h"

namespace poolmark::controller {
namespace {

constexpr Nanoseconds kFactsWithin = std::chrono::seconds(5);

std::string HostOf(const std::string& address) {
  const size_t colon = address.rfind(':');
  std::string host = colon == std::string::npos ? address : address.substr(0, colon);
  if (host.size() >= 2 && host.front() == '[' && host.back() == ']') host = host.substr(1, host.size() - 2);
  return host;
}

MachineFacts FactsOf(const v1::Machine& machine, const std::string& job_id) {
  MachineFacts facts;
  facts.name = machine.name();
  facts.address = HostOf(machine.address());
  facts.facts = machine.facts();
  switch (machine.state()) {
    case v1::MACHINE_STATE_READY:
    case v1::MACHINE_STATE_BUSY:
    case v1::MACHINE_STATE_SUSPECT:
      if (machine.has_facts()) return facts;
      break;
    default:
      break;
  }
  if (!job_id.empty() && machine.job_id() == job_id) return facts;
  facts.available = false;
  facts.unavailable_reason =
      absl::StrCat("is ", v1::MachineState_Name(machine.state()).substr(sizeof("MACHINE_STATE_") - 1),
                   machine.reason().empty() ? "" : absl::StrCat(": ", machine.reason()));
  return facts;
}

// Lengths by stored file, settings, level and answer time. A job that waits is planned again and again, and
// looking into a trace each time would burden the machine that measures. Files are named by their digests.
class LengthCache {
 public:
  std::optional<Nanoseconds> Find(const std::string& key) {
    std::lock_guard lock(mutex_);
    const auto found = lengths_.find(key);
    return found == lengths_.end() ? std::nullopt : std::optional(found->second);
  }
  void Keep(const std::string& key, Nanoseconds length) {
    std::lock_guard lock(mutex_);
    if (lengths_.size() >= kMost) lengths_.clear();
    lengths_[key] = length;
  }

 private:
  static constexpr size_t kMost = 1000;
  std::mutex mutex_;
  std::map<std::string, Nanoseconds> lengths_;
};
LengthCache& Lengths() {
  static LengthCache cache;
  return cache;
}

// How long each load takes; workload files that cannot be read go to `errors`.
std::map<std::string, Nanoseconds> LoadLengths(const spec::JobSpec& job,
                                               const std::map<std::string, std::string>& files,
                                               Errors* errors) {
  std::map<std::string, Nanoseconds> lengths;
  for (const spec::WorkloadSpec& workload : job.workloads) {
    auto file = files.find(workload.file);
    const std::string path = file == files.end() ? "" : file->second;
    struct stat info {};
    if (!path.empty() && stat(path.c_str(), &info) == 0 && info.st_size > kMaxEstimatedFileBytes) continue;
    std::map<AnswerTime, std::map<std::string, Nanoseconds>> by_answer;
    bool readable = true;
    for (const spec::StackSpec& stack : job.stacks) {
      const AnswerTime answer = AnswerTimeOf(stack);
      for (const spec::LoadLevel& level : workload.levels) {
        auto& known = by_answer[answer];
        if (readable && known.count(level.Name()) == 0) {
          const std::string key =
              Sha256Hex(absl::StrCat(path, "\n", workload.options_json, "\n", level.Name(), "\n",
                                     answer.first.count(), "\n", answer.per_token.count()));
          const auto kept = Lengths().Find(key);
          auto length = kept ? Result<Nanoseconds>(*kept) : WorkloadLength(workload, level, path, answer);
          readable = length.ok();
          if (length.ok()) {
            if (!kept) Lengths().Keep(key, *length);
            known[level.Name()] = *length;
          } else {
            errors->push_back(ErrorOf(length.status()));
          }
        }
        if (readable)
          lengths[absl::StrCat(stack.name, "/", workload.name, "-", level.Name())] = known[level.Name()];
      }
    }
  }
  return lengths;
}

// What an accuracy run would refuse later: questions that cannot be read, a judge without its
// templates or its key.
void CheckAccuracy(const Environment& environment, const v1::SubmitJobRequest& request,
                   const PlannedJob& planned, Errors* errors) {
  if (planned.plan.accuracy.empty()) return;
  const spec::AccuracySpec& accuracy = *planned.job.accuracy;
  const auto files = environment.inputs->FilesOf(request);
  auto file = files.find(accuracy.dataset);
  Status status = file == files.end() ? NotFound(accuracy.dataset, "is none of the inputs")
                                      : quality::ReadDataset(file->second, accuracy.limit).status();
  if (status.ok()) {
    status = JudgeAccessOf(accuracy, environment.state_dir).status();
    if (status.ok()) return;
    Error error = ErrorOf(status);
    error.kind = absl::StatusCode::kInvalidArgument;
    error.where = absl::StrCat("accuracy.judge, ", error.where);
    errors->push_back(std::move(error));
    return;
  }
  Error error = ErrorOf(status);
  error.kind = absl::StatusCode::kInvalidArgument;
  // The stored file has a digest for a name; the line behind it stays.
  const std::string stored = file == files.end() ? "" : file->second;
  error.where = absl::StrCat(
      "accuracy, ", accuracy.dataset,
      !stored.empty() && error.where.starts_with(stored) ? error.where.substr(stored.size()) : std::string());
  errors->push_back(std::move(error));
}

// A pool that does not name its RDMA devices uses those that are active: checks, line rate and path look at
// them by name.
void NameRdmaDevices(const std::vector<MachineFacts>& machines, spec::JobSpec* job) {
  if (std::none_of(job->stacks.begin(), job->stacks.end(),
                   [](const spec::StackSpec& stack) { return stack.kv.path == "rdma"; }))
    return;
  for (spec::MachineSpec& spec : job->pool.machines) {
    if (!spec.rdma_devices.empty()) continue;
    for (const MachineFacts& machine : machines) {
      if (machine.name != spec.name) continue;
      for (const v1::RdmaPort& port : machine.facts.rdma_ports()) {
        const bool known = std::find(spec.rdma_devices.begin(), spec.rdma_devices.end(), port.device()) !=
                           spec.rdma_devices.end();
        if (port.state() == "ACTIVE" && !known) spec.rdma_devices.push_back(port.device());
      }
    }
  }
}

// For a pool that says how many machines and not which: those that the job holds already, head first, else
// the best that there are; none where there are too few, which the plan then refuses.
Result<std::vector<std::string>> MachinesOf(const Environment& environment, const spec::JobSpec& job,
                                            const std::vector<MachineFacts>& machines,
                                            const std::set<std::string>& held, const std::string& job_id) {
  if (!job_id.empty()) {
    POOLMARK_ASSIGN_OR_RETURN(const StoredJob stored, environment.store->Get(job_id));
    if (HoldsMachines(stored.job.state()))
      return std::vector<std::string>(stored.job.machines().begin(), stored.job.machines().end());
  }
  return PickMachines(job, machines, held).value_or(std::vector<std::string>());
}

}  // namespace

Result<std::unique_ptr<PlannedJob>> PlanJob(const Environment& environment,
                                            const v1::SubmitJobRequest& request, const std::string& job_id,
                                            Errors* errors, FactsFrom facts,
                                            const std::set<std::string>& reserved) {
  auto planned = std::make_unique<PlannedJob>();
  POOLMARK_ASSIGN_OR_RETURN(planned->job, environment.inputs->ReadJob(request, errors));
  if (!planned->job.slo.empty()) {
    auto presets = environment.inputs->PresetsOf(request);
    auto picked = presets.ok() ? stats::PickSlos(*presets, planned->job.slo)
                               : Result<std::vector<stats::Slo>>(presets.status());
    if (!picked.ok()) {
      Error error = ErrorOf(picked.status());
      error.where = absl::StrCat(request.job_path(), " slo");
      errors->push_back(std::move(error));
      return picked.status();
    }
    planned->slos = *std::move(picked);
  }
  PlanInput input;
  // At submit the job has no id yet; directories of the plan then carry this word, nothing is made from it.
  input.job_id = job_id.empty() ? "job" : job_id;
  input.job = &planned->job;
  std::set<std::string> held = reserved;
  const auto look = [&] {
    input.machines.clear();
    for (const v1::Machine& machine : environment.registry->List(true)) {
      input.machines.push_back(FactsOf(machine, job_id));
      const bool busy = !machine.job_id().empty() && machine.job_id() != job_id;
      if (busy || machine.state() == v1::MACHINE_STATE_SUSPECT) held.insert(machine.name());
    }
  };
  look();
  std::vector<spec::MachineSpec>& pool = planned->job.pool.machines;
  planned->names_machines = !pool.empty();
  if (pool.empty()) {
    POOLMARK_ASSIGN_OR_RETURN(std::vector<std::string> names,
                              MachinesOf(environment, planned->job, input.machines, held, job_id));
    for (std::string& name : names) pool.emplace_back().name = std::move(name);
  }
  if (facts == FactsFrom::kAgents) {
    std::vector<std::string> names;
    for (const spec::MachineSpec& machine : pool) names.push_back(machine.name);
    environment.registry->AskFacts(names, kFactsWithin);
    look();
  }
  NameRdmaDevices(input.machines, &planned->job);
  // Broken workload files and questions are told together with what the plan refuses.
  input.load_lengths = LoadLengths(planned->job, environment.inputs->FilesOf(request), errors);
  auto plan = MakePlan(input, errors);
  const Status made = plan.status();
  if (made.ok()) {
    planned->plan = *std::move(plan);
    CheckAccuracy(environment, request, *planned, errors);
  }
  if (!errors->empty()) return ToStatus(*errors);
  if (!made.ok()) return made;
  return planned;
}

bool IsInputError(const Errors& errors) {
  return std::any_of(errors.begin(), errors.end(), [](const Error& error) {
    return error.kind == absl::StatusCode::kInvalidArgument || error.code == "input_missing";
  });
}

}  // namespace poolmark::controller
