#include "controller/steps/benchmark.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/base/digest.h"
#include "common/base/files.h"
#include "common/results/layout.h"
#include "controller/steps/fetch.h"
#include "controller/steps/head_process.h"
#include "controller/steps/launch.h"
#include "controller/steps/load_plan.h"
#include "controller/steps/measure.h"

namespace poolmark::controller {
namespace {

// What still fits a call of 4 MiB beside the plan; larger files are read by the load where the controller
// keeps them.
constexpr uint64_t kMaxShipped = 3u << 20;

class Repeat {
 public:
  Repeat(JobRun* run, const StackPlan& stack, const PlannedRepeat& repeat, uint32_t cycle,
         const VerifyEvidence& verified, ProcessWatch* watch, RepeatRecord* record)
      : run_(*run),
        stack_(stack),
        repeat_(repeat),
        cycle_(cycle),
        verified_(verified),
        watch_(*watch),
        record_(*record) {
    for (const spec::WorkloadSpec& workload : run_.job->workloads) {
      if (workload.name == repeat.workload) workload_ = &workload;
    }
    tag_ = absl::StrCat(cycle, "/", repeat.workload, "-", repeat.level.Name(), "/", repeat.repeat);
  }

  StepOutcome Run() {
    record_.repeat = repeat_;
    record_.cycle = cycle_;
    record_.directory = JoinPath(run_.results_dir, results::RepeatDir(stack_.name, repeat_.workload,
                                                                      repeat_.level.Name(), repeat_.repeat));
    record_.began_wall = run_.clock->Wall();
    if (workload_ == nullptr)
      return StepOutcome::Failed(
          "internal",
          absl::StrCat("the plan names a workload that the job does not have: ", repeat_.workload));
    // What an interrupted try of this repeat left is void.
    auto removed = RemoveTree(record_.directory);
    if (!removed.ok()) return StepOutcome::Failed("disk", std::string(removed.status().message()));
    if (Status made = MakeDirs(record_.directory, 0750); !made.ok())
      return StepOutcome::Failed("disk", std::string(made.message()));

    ResetResult reset;
    StepOutcome outcome = ResetPool(&run_, stack_, tag_, verified_, &watch_, &reset);
    record_.state = reset.state;
    Append(reset.notes);
    if (!outcome.passed()) return Interrupt(std::move(outcome));
    if (run_.job->starting_state == "warm") {
      outcome = Load("warm", nullptr);
      if (!outcome.passed()) return Interrupt(std::move(outcome));
    }
    for (const std::string& machine : run_.plan->machines) run_.registry->Watch(machine);
    auto measurement = Measurement::Start(
        &run_, stack_, JoinPath(record_.directory, std::string(results::kSamplesDir)), tag_);
    if (!measurement.ok()) {
      return Interrupt(
          run_.stop.stop_requested()
              ? StepOutcome::Stopped()
              : StepOutcome::Interrupted("sampling_failed", std::string(measurement.status().message())));
    }
    // Counters need a reading before the first request.
    if (!(*measurement)->AwaitFirst(std::chrono::seconds(10)) && !run_.stop.stop_requested()) {
      record_.notes.push_back("a machine had sent no sample when the load began");
    }
    outcome = Load("load", measurement->get());
    // Presence first: what follows is no longer the repeat.
    for (const std::string& machine : run_.plan->machines)
      record_.presence[machine] = run_.registry->PresenceOf(machine);
    (void)(*measurement)->Finish();
    record_.samples = (*measurement)->files();
    Append((*measurement)->notes());
    FetchRecords();
    record_.ended_wall = run_.clock->Wall();
    if (outcome.passed() && (!record_.load_json || !record_.has_requests)) {
      outcome = StepOutcome::Interrupted(
          "records_lost", "the load ended, but its records could not be fetched", run_.plan->head);
    }
    return Interrupt(std::move(outcome));
  }

 private:
  void Append(const std::vector<std::string>& notes) {
    record_.notes.insert(record_.notes.end(), notes.begin(), notes.end());
  }

  StepOutcome Interrupt(StepOutcome outcome) {
    if (record_.ended_wall.count() == 0) record_.ended_wall = run_.clock->Wall();
    if (outcome.passed()) return outcome;
    record_.interrupted = outcome.reasons.empty() ? "stopped" : outcome.reasons.front().message();
    return outcome;
  }

  std::string OutputDir(const std::string& kind) const {
    return absl::StrCat(run_.work_dirs.at(run_.plan->head), "/", kind, "/", repeat_.workload, "-",
                        repeat_.level.Name(), "-", repeat_.repeat);
  }

  // The load's process: a plan file, the workload's file beside it, and a directory for the records.
  Result<v1::ProcessSpec> SpecOf(const std::string& kind) {
    v1::ProcessSpec spec;
    spec.set_id(LoadId(stack_, repeat_, cycle_, kind));
    spec.set_role("load");
    spec.set_backend(v1::BACKEND_PROCESS);
    spec.set_executable(run_.plan->load_executable);
    const std::string directory = OutputDir(kind);
    spec.add_directories()->set_path(directory);
    LoadPlanInput input;
    input.stack = &stack_;
    input.workload = workload_;
    input.repeat = repeat_;
    input.model = verified_.model;
    input.output_dir = directory;
    // Equal across stacks, so that all are asked the same; different for each repeat, so that none shares KV.
    input.marker = absl::StrCat(run_.job_id, "/", repeat_.repeat);
    input.request_deadline = run_.job->request_deadline;
    input.seed = run_.job->seed;
    for (const PlannedProcess& process : stack_.processes) {
      const bool counts =
          stack_.engine_kind == "vllm" || stack_.engine_kind == "sglang" || stack_.engine_kind == "sim";
      if (counts && IsEngine(process) && input.tokenize_url.empty()) input.tokenize_url = process.base_url;
    }
    const std::string relative = directory.substr(run_.work_dirs.at(run_.plan->head).size() + 1);
    if (!workload_->file.empty()) {
      auto stored = run_.input_files.find(workload_->file);
      if (stored == run_.input_files.end())
        return NotFound(workload_->file, "the workload's file is not among the job's inputs");
      auto content = ReadFile(stored->second, kMaxShipped);
      if (content.ok()) {
        v1::InputFile* file = spec.add_files();
        file->set_path(
            absl::StrCat(relative, ".input/", workload_->file.substr(workload_->file.rfind('/') + 1)));
        file->set_sha256(Sha256Hex(*content));
        input.file = absl::StrCat(run_.work_dirs.at(run_.plan->head), "/", file->path());
        file->set_content(std::move(*content));
      } else {
        input.file = stored->second;  // the head reads it where the controller, which runs there, keeps it
      }
    }
    POOLMARK_ASSIGN_OR_RETURN(std::string plan, LoadPlanJson(input));
    v1::InputFile* file = spec.add_files();
    file->set_path(absl::StrCat(relative, ".input/plan.json"));
    file->set_sha256(Sha256Hex(plan));
    file->set_content(plan);
    spec.add_argv("load");
    spec.add_argv("--plan");
    spec.add_argv(absl::StrCat(run_.work_dirs.at(run_.plan->head), "/", file->path()));
    spec.set_stop_grace_ns(Nanoseconds(std::chrono::seconds(10)).count());
    return spec;
  }

  void Tick(const std::string& line, const std::string& phase) {
    v1::JobEvent event;
    event.set_kind("progress");
    event.set_state(v1::JOB_STATE_BENCHMARKING);
    event.set_wall_ns(run_.clock->Wall().count());
    event.set_data_json(line);
    v1::JobPosition* position = event.mutable_position();
    position->set_cycle(cycle_);
    position->set_stack(stack_.name);
    position->set_workload(repeat_.workload);
    position->set_level(repeat_.level.Name());
    position->set_repeat(static_cast<uint32_t>(repeat_.repeat));
    position->set_phase(phase);
    run_.tick(std::move(event));
  }

  StepOutcome Load(const std::string& kind, Measurement* measurement) {
    auto spec = SpecOf(kind);
    if (!spec.ok()) return StepOutcome::Failed("load_plan", std::string(spec.status().message()));
    HeadProcess process;
    process.spec = *std::move(spec);
    process.request = absl::StrCat(kind, "/", tag_);
    process.on_started = [&] {
      if (measurement != nullptr) record_.load_started = true;
      run_.Note("step", absl::StrCat(kind == "warm" ? "unmeasured warm pass of " : "", repeat_.workload, " ",
                                     repeat_.level.Name(), " repeat ", repeat_.repeat, ": load started"));
    };
    process.on_line = [&](const std::string& line) {
      auto progress = ParseProgress(line);
      if (progress && progress->event == "start" && measurement != nullptr) {
        // By the head's clock; on ours it is its offset less.
        Nanoseconds offset{0};
        auto head = run_.registry->Get(run_.plan->head);
        if (head.ok() && head->has_clock_offset_ns()) offset = Nanoseconds(head->clock_offset_ns());
        measurement->LoadStarted(progress->started_wall - offset);
      }
      if (progress && progress->event == "progress")
        Tick(line, kind == "warm" ? "warm pass" : progress->phase);
    };
    return RunOnHead(&run_, &watch_, process);
  }

  void FetchRecords() {
    if (!record_.load_started || run_.registry->Silence(run_.plan->head) > run_.registry->timing().silent)
      return;
    const std::string work = run_.work_dirs.at(run_.plan->head);
    const std::string relative = OutputDir("load").substr(work.size() + 1);
    for (const char* name : {"load.json", "timeline.jsonl", "requests.jsonl.zst"}) {
      Status fetched = FetchFile(run_, run_.plan->head, absl::StrCat(relative, "/", name),
                                 JoinPath(record_.directory, name));
      if (!fetched.ok()) {
        record_.notes.push_back(absl::StrCat(name, " of the load: ", std::string(fetched.message())));
        continue;
      }
      if (std::string(name) == "requests.jsonl.zst") record_.has_requests = true;
      if (std::string(name) == "load.json") {
        auto text = ReadFile(JoinPath(record_.directory, name), 16u << 20);
        if (text.ok()) record_.load_json = *text;
      }
    }
  }

  JobRun& run_;
  const StackPlan& stack_;
  const PlannedRepeat repeat_;
  const uint32_t cycle_;
  const VerifyEvidence& verified_;
  ProcessWatch& watch_;
  RepeatRecord& record_;
  const spec::WorkloadSpec* workload_ = nullptr;
  std::string tag_;
};

}  // namespace

std::string LoadId(const StackPlan& stack, const PlannedRepeat& repeat, uint32_t cycle,
                   const std::string& kind) {
  return absl::StrCat(stack.name, ".", kind, "-", repeat.workload, "-", repeat.level.Name(), "-",
                      repeat.repeat, ".", cycle);
}

StepOutcome Benchmark(JobRun* run, const StackPlan& stack, const PlannedRepeat& repeat, uint32_t cycle,
                      const VerifyEvidence& verified, ProcessWatch* watch, RepeatRecord* record) {
  return Repeat(run, stack, repeat, cycle, verified, watch, record).Run();
}

}  // namespace poolmark::controller
