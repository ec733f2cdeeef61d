#include "controller/steps/load_workers.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/base/digest.h"
#include "common/base/files.h"
#include "common/base/json.h"
#include "common/base/zstd_file.h"
#include "common/load/merge.h"
#include "common/results/layout.h"
#include "common/workload/stored_settings.h"
#include "controller/steps/exposure.h"
#include "controller/steps/fetch.h"
#include "controller/steps/head_process.h"
#include "controller/steps/launch.h"

namespace poolmark::controller {
namespace {

constexpr char kRecords[] = "requests.jsonl.zst";
constexpr char kTimeline[] = "timeline.jsonl";
constexpr char kLoadJson[] = "load.json";

// The lines of a data set, compressed.
Result<std::string> Compressed(const std::string& path, const std::string& scratch) {
  POOLMARK_ASSIGN_OR_RETURN(const auto reader, LineReader::Open(path));
  POOLMARK_ASSIGN_OR_RETURN(const auto writer, ZstdWriter::Create(scratch, 19));
  std::string line;
  for (;;) {
    POOLMARK_ASSIGN_OR_RETURN(const bool more, reader->Next(&line));
    if (!more) break;
    POOLMARK_RETURN_IF_ERROR(writer->Write(line + "\n"));
  }
  POOLMARK_RETURN_IF_ERROR(writer->Finish());
  auto text = ReadFile(scratch, 1u << 30);
  (void)RemoveTree(scratch);
  return text;
}

// The controller's files can be read there: it is the machine the controller runs on.
bool IsOurs(const JobRun& run, const std::string& machine) {
  const auto facts = run.facts.find(machine);
  const auto boot = ReadFile("/proc/sys/kernel/random/boot_id", 100);
  return facts != run.facts.end() && boot.ok() && !facts->second.boot_id().empty() &&
         boot->starts_with(facts->second.boot_id());
}

}  // namespace

std::string LoadId(const StackPlan& stack, const PlannedRepeat& repeat, uint32_t cycle,
                   const std::string& kind) {
  return absl::StrCat(stack.name, ".", kind, "-", repeat.workload, "-", repeat.level.Name(), "-",
                      repeat.repeat, ".", cycle);
}

std::vector<std::pair<std::string, std::string>> LoadProcesses(const Plan& plan, const StackPlan& stack,
                                                               const PlannedRepeat& repeat, uint32_t cycle) {
  std::vector<std::pair<std::string, std::string>> processes;
  for (size_t i = 0; i < plan.load_machines.size(); ++i) {
    const std::string kind = plan.load_machines.size() == 1 ? "load" : absl::StrCat("load", i);
    processes.emplace_back(plan.load_machines[i], LoadId(stack, repeat, cycle, kind));
  }
  return processes;
}

LoadWorkers::LoadWorkers(JobRun* run, const StackPlan& stack, const PlannedRepeat& repeat, uint32_t cycle,
                         const spec::WorkloadSpec& workload, const VerifyEvidence& verified,
                         ProcessWatch* watch, std::string tag, std::string kind)
    : run_(*run),
      stack_(stack),
      repeat_(repeat),
      cycle_(cycle),
      workload_(workload),
      verified_(verified),
      watch_(*watch),
      tag_(std::move(tag)),
      kind_(std::move(kind)) {
  const auto& machines = run_.plan->load_machines;
  for (size_t i = 0; i < machines.size(); ++i) {
    Worker worker;
    worker.machine = machines[i];
    worker.id = LoadId(stack, repeat, cycle, machines.size() == 1 ? kind_ : absl::StrCat(kind_, i));
    worker.directory = absl::StrCat(run_.work_dirs.at(worker.machine), "/", kind_, "/", repeat_.workload, "-",
                                    repeat_.level.Name(), "-", repeat_.repeat);
    // How far its clock is ahead of the controller's.
    auto known = run_.registry->Get(worker.machine);
    if (known.ok() && known->has_clock_offset_ns())
      worker.clock_offset = Nanoseconds(known->clock_offset_ns());
    workers_.push_back(std::move(worker));
  }
}

// The workload's file as every worker gets it: equal bytes, so that their plans have one digest.
Status LoadWorkers::ReadShipped() {
  if (workload_.file.empty()) return absl::OkStatus();
  auto stored = run_.input_files.find(workload_.file);
  if (stored == run_.input_files.end())
    return NotFound(workload_.file, "the workload's file is not among the job's inputs");
  shipped_name_ = workload_.file.substr(workload_.file.rfind('/') + 1);
  if (auto content = ReadFile(stored->second, kMaxShipped); content.ok()) {
    shipped_ = *std::move(content);
    return absl::OkStatus();
  }
  const bool ours = std::all_of(workers_.begin(), workers_.end(),
                                [&](const Worker& worker) { return IsOurs(run_, worker.machine); });
  if (workers_.size() == 1 && ours)
    return absl::OkStatus();  // it reads the file where the controller keeps it
  POOLMARK_ASSIGN_OR_RETURN(
      shipped_,
      Compressed(stored->second, JoinPath(run_.results_dir, absl::StrCat(".", kind_, "-workload.zst"))));
  if (!absl::EndsWith(shipped_name_, ".zst")) shipped_name_ += ".zst";
  if (shipped_.size() > kMaxShipped) {
    return Precondition(
        workload_.file,
        absl::StrCat("has ", shipped_.size() >> 20,
                     " MiB compressed, and a load machine that is not the controller's own takes ",
                     kMaxShipped >> 20),
        "set a `limit` and cut the file to it, or load from the controller's machine alone");
  }
  return absl::OkStatus();
}

Status LoadWorkers::AddFile(const Worker& worker, v1::ProcessSpec* spec, std::string* path) {
  if (workload_.file.empty()) return absl::OkStatus();
  if (shipped_.empty()) {
    *path = run_.input_files.at(workload_.file);
    return absl::OkStatus();
  }
  const std::string work = run_.work_dirs.at(worker.machine);
  v1::InputFile* file = spec->add_files();
  file->set_path(absl::StrCat(worker.directory.substr(work.size() + 1), ".input/", shipped_name_));
  file->set_sha256(Sha256Hex(shipped_));
  file->set_content(shipped_);
  *path = absl::StrCat(work, "/", file->path());
  return absl::OkStatus();
}

// A plan file, the workload's file beside it, and a directory for the records.
Result<v1::ProcessSpec> LoadWorkers::SpecOf(const Worker& worker, uint32_t number,
                                            std::optional<Nanoseconds> start) {
  v1::ProcessSpec spec;
  spec.set_id(worker.id);
  spec.set_role("load");
  spec.set_backend(v1::BACKEND_PROCESS);
  spec.set_executable(run_.plan->load_executable);
  spec.add_directories()->set_path(worker.directory);
  LoadPlanInput input;
  input.stack = &stack_;
  input.workload = &workload_;
  input.repeat = repeat_;
  input.model = verified_.model;
  input.output_dir = worker.directory;
  // Equal across stacks, so that all are asked the same; different for each repeat, so that none shares KV.
  input.marker = absl::StrCat(run_.job_id, "/", repeat_.repeat);
  input.request_deadline = run_.job->request_deadline;
  input.seed = run_.job->seed;
  input.worker = number;
  input.workers = static_cast<uint32_t>(workers_.size());
  if (start) input.start_at_wall = *start + worker.clock_offset;
  input.tokenizer = run_.job->load.tokenizer;
  for (const PlannedProcess& process : stack_.processes) {
    const bool counts = stack_.engine_kind == "vllm" || stack_.engine_kind == "sglang" ||
                        stack_.engine_kind == "llama.cpp" || stack_.engine_kind == "sim";
    if (counts && IsEngine(process) && input.tokenize_url.empty()) input.tokenize_url = process.base_url;
  }
  POOLMARK_RETURN_IF_ERROR(AddFile(worker, &spec, &input.file));
  POOLMARK_ASSIGN_OR_RETURN(std::string plan, LoadPlanJson(input));
  const std::string work = run_.work_dirs.at(worker.machine);
  v1::InputFile* file = spec.add_files();
  file->set_path(absl::StrCat(worker.directory.substr(work.size() + 1), ".input/plan.json"));
  file->set_sha256(Sha256Hex(plan));
  file->set_content(plan);
  spec.add_argv("load");
  spec.add_argv("--plan");
  spec.add_argv(absl::StrCat(work, "/", file->path()));
  spec.set_stop_grace_ns(Nanoseconds(std::chrono::seconds(10)).count());
  return spec;
}

// The live figures of all workers together.
void LoadWorkers::Tick(const std::string& phase) {
  std::vector<std::string> lines;
  for (const Worker& worker : workers_) {
    if (!worker.last_progress.empty()) lines.push_back(worker.last_progress);
  }
  v1::JobEvent event;
  event.set_kind("progress");
  event.set_state(v1::JOB_STATE_BENCHMARKING);
  event.set_wall_ns(run_.clock->Wall().count());
  event.set_data_json(SumProgress(lines));
  v1::JobPosition* position = event.mutable_position();
  position->set_cycle(cycle_);
  position->set_stack(stack_.name);
  position->set_workload(workload::ScaledName(workload_.name, workload_.options_json));
  position->set_level(repeat_.level.Name());
  position->set_repeat(static_cast<uint32_t>(repeat_.repeat));
  position->set_phase(phase);
  run_.tick(std::move(event));
}

void LoadWorkers::TakeProgress(size_t index, Measurement* measurement) {
  Worker* const worker = &workers_[index];
  for (const std::string& line : watch_.TakeProgress(worker->id)) {
    auto progress = ParseProgress(line);
    if (!progress) continue;
    worker->last_line = run_.clock->Steady();
    worker->first = false;
    // By its machine's clock; on ours it is its offset less. All workers begin together.
    if (progress->event == "start" && measurement != nullptr && worker == &workers_.front())
      measurement->LoadStarted(progress->started_wall - worker->clock_offset);
    if (progress->event == "error") worker->error = progress->message;
    if (progress->event != "progress") continue;
    worker->last_progress = line;
    stall_->Take(index, *progress);
    if (worker == &workers_.front()) Tick(kind_ == "warm" ? "warm pass" : progress->phase);
  }
}

StepOutcome LoadWorkers::Run(Measurement* measurement) {
  if (Status read = ReadShipped(); !read.ok())
    return StepOutcome::Failed("load_plan", std::string(read.message()));
  std::optional<Nanoseconds> start;
  if (workers_.size() > 1) start = run_.clock->Wall() + run_.job->load.start_after;
  for (size_t i = 0; i < workers_.size(); ++i) {
    Worker& worker = workers_[i];
    auto spec = SpecOf(worker, static_cast<uint32_t>(i), start);
    if (!spec.ok()) return StepOutcome::Failed("load_plan", std::string(spec.status().message()));
    watch_.Expect(worker.id, true);
    const std::string request = absl::StrCat(kind_, workers_.size() > 1 ? absl::StrCat(i) : "", "/", tag_);
    Status asked = StartOne(&run_, worker.machine, *spec, request, &watch_);
    if (run_.stop.stop_requested()) return Stop();
    if (!asked.ok()) {
      (void)Stop();
      return {StepOutcome::Kind::kInterrupted, {ReasonOf(asked, worker.machine, "starting the load")}};
    }
    started_ = true;
    worker.last_line = run_.clock->Steady();
  }
  run_.Note("step",
            absl::StrCat(kind_ == "warm" ? "unmeasured warm pass of " : "",
                         workload::ScaledName(workload_.name, workload_.options_json), " ",
                         repeat_.level.Name(), " repeat ", repeat_.repeat, ": load started",
                         workers_.size() > 1 ? absl::StrCat(" on ", workers_.size(), " machines") : ""));
  return Follow(measurement);
}

StepOutcome LoadWorkers::Follow(Measurement* measurement) {
  stall_.emplace(workers_.size(), run_.job->load.stall);
  for (;;) {
    const auto runs =
        std::find_if(workers_.begin(), workers_.end(), [](const Worker& w) { return !w.ended; });
    if (runs == workers_.end()) return StepOutcome::Passed();
    (void)watch_.AwaitEnd(runs->id, run_.clock->Steady() + run_.timing.poll);
    // First: what writes there fails of it in words that need not name it.
    if (const auto full = measurement != nullptr ? measurement->full_disk() : std::nullopt) {
      (void)Stop();
      return StepOutcome::Interrupted("disk_full", absl::StrCat(full->first, ": ", full->second),
                                      full->first);
    }
    for (size_t i = 0; i < workers_.size(); ++i) {
      Worker& worker = workers_[i];
      if (worker.ended) continue;
      worker.ended = watch_.AwaitEnd(worker.id, run_.clock->Steady());
      TakeProgress(i, measurement);
      if (!worker.ended) continue;
      stall_->Ended(i);
      auto status = watch_.StatusOf(worker.id);
      if (status && status->state() == v1::PROCESS_STATE_EXITED && status->exit_code() == 0 &&
          !status->has_exit_signal()) {
        continue;
      }
      if (run_.stop.stop_requested()) return Stop();
      // What one of them did not send nobody sent: the others' parts are no load of their own.
      (void)Stop();
      ProcessWatch::Death death{worker.machine, status.value_or(v1::ProcessStatus())};
      v1::Reason reason = DeathReason(&run_, death, "load_failed");
      if (!worker.error.empty()) reason.set_message(absl::StrCat("the load failed: ", worker.error));
      return {StepOutcome::Kind::kInterrupted, {reason}};
    }
    if (run_.stop.stop_requested()) return Stop();
    if (auto death = watch_.FirstDeath()) {
      (void)Stop();
      return {StepOutcome::Kind::kInterrupted, {DeathReason(&run_, *death, "process_died")}};
    }
    if (Status stored = measurement != nullptr ? measurement->stored() : Status(); !stored.ok()) {
      (void)Stop();
      return StepOutcome::Interrupted(
          "disk", absl::StrCat("samples cannot be stored: ", std::string(stored.message())));
    }
    if (const auto silence = stall_->Found()) {
      (void)Stop();
      return StepOutcome::Interrupted("stalled", *silence);
    }
    for (const Worker& worker : workers_) {
      if (worker.ended) continue;
      const Nanoseconds silence = run_.clock->Steady() - worker.last_line;
      Nanoseconds allowed = worker.first ? run_.timing.load_start : run_.timing.load_stall;
      if (worker.first && workers_.size() > 1) allowed += run_.job->load.start_after;
      if (silence <= allowed || run_.registry->Silence(worker.machine) >= run_.registry->timing().suspect) {
        continue;
      }
      (void)Stop();
      std::string text =
          absl::StrCat("no progress line of the load for ", silence.count() / 1'000'000'000, " s");
      // Its lines come through a file on its machine.
      if (auto room = AskCheck(&run_, worker.machine, "disk_space");
          room.ok() && room->outcome() == v1::OUTCOME_FAIL)
        absl::StrAppend(&text, "; disk_space: ", room->observed());
      return StepOutcome::Interrupted("load_stalled", text, worker.machine);
    }
  }
}

// Ends what still runs; its records up to now are then complete on its disk.
StepOutcome LoadWorkers::Stop() {
  std::vector<std::string> machines;
  for (const Worker& worker : workers_) {
    if (!worker.ended && watch_.StatusOf(worker.id)) machines.push_back(worker.machine);
  }
  ForEachMachine(machines, [&](const std::string& machine) {
    const auto worker =
        std::find_if(workers_.begin(), workers_.end(), [&](const Worker& w) { return w.machine == machine; });
    auto link = run_.registry->Link(machine);
    if (!link.ok()) return;
    v1::StopProcessRequest request;
    request.set_request_id(run_.RequestId(machine, absl::StrCat("stop/", tag_, "/", worker->id)));
    *request.mutable_lease() = run_.Lease(machine);
    request.set_id(worker->id);
    request.set_grace_ns(run_.force() ? 0 : Nanoseconds(std::chrono::seconds(5)).count());
    if (run_.registry->Silence(machine) < run_.registry->timing().silent)
      (void)(*link)->StopProcess(request, run_.shutdown);
  });
  return StepOutcome::Stopped();
}

Status LoadWorkers::FetchOf(const Worker& worker, const std::string& to, std::vector<std::string>* notes) {
  const std::string work = run_.work_dirs.at(worker.machine);
  Status first;
  for (const char* name : {kLoadJson, kTimeline, kRecords}) {
    Status fetched =
        FetchFile(run_, worker.machine, absl::StrCat(worker.directory.substr(work.size() + 1), "/", name),
                  JoinPath(to, name));
    if (fetched.ok()) continue;
    notes->push_back(absl::StrCat(name, " of the load",
                                  workers_.size() > 1 ? absl::StrCat(" on ", worker.machine) : "", ": ",
                                  std::string(fetched.message())));
    if (first.ok()) first = fetched;
  }
  return first;
}

void LoadWorkers::Fetch(const std::string& directory, std::vector<std::string>* notes) {
  if (!started_) return;
  const auto answers = [&](const Worker& worker) {
    return run_.registry->Silence(worker.machine) <= run_.registry->timing().silent;
  };
  if (workers_.size() == 1) {
    if (answers(workers_[0])) (void)FetchOf(workers_[0], directory, notes);
    return;
  }
  std::vector<load::WorkerResult> parts;
  for (const Worker& worker : workers_) {
    const std::string own = JoinPath(directory, absl::StrCat("load/", worker.machine));
    if (!answers(worker)) {
      notes->push_back(absl::StrCat("the load's records on ", worker.machine, " are lost with that machine"));
      continue;
    }
    if (Status made = MakeDirs(own, 0750); !made.ok()) {
      notes->push_back(std::string(made.message()));
      continue;
    }
    if (FetchOf(worker, own, notes).ok()) parts.push_back({own, worker.clock_offset});
  }
  const auto merged = load::MergeLoads(parts, directory, std::nullopt);
  if (!merged.ok()) {
    notes->push_back(
        absl::StrCat("the workers' records could not be merged: ", std::string(merged.status().message())));
    return;
  }
  // They are in the merged files; each worker's own summary stays.
  for (const load::WorkerResult& part : parts) {
    (void)RemoveTree(JoinPath(part.directory, kRecords));
    (void)RemoveTree(JoinPath(part.directory, kTimeline));
  }
}

}  // namespace poolmark::controller
